package filter

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

const fixtures = "../device/testdata/fixtures"

// specDir writes one spec of kind v.example/dev: edits of the whole file, then
// device=edits pairs.
func specDir(t testing.TB, edits string, devices ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("cdiVersion: 1.1.0\nkind: v.example/dev\ncontainerEdits: " + edits + "\ndevices:\n")
	for _, device := range devices {
		name, edits, _ := strings.Cut(device, "=")
		b.WriteString("- name: \"" + name + "\"\n  containerEdits: " + edits + "\n")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "v.yaml"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func settings(dirs ...string) Settings {
	return Settings{SpecDirs: dirs, AnnotationPrefixes: []string{"cdi.k8s.io/"}}
}

func initialNamespace() bool { return false }
func someNamespace() bool    { return true }

// filterOf runs the filter where it must work, twice: once is enough.
func filterOf(t testing.TB, s Settings, input string) string {
	t.Helper()
	output, _, err := run(s, strings.NewReader(input), initialNamespace)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := run(s, strings.NewReader(string(output)), initialNamespace)
	if err != nil || string(again) != string(output) {
		t.Errorf("run again: %v\n%s\nafter\n%s", err, again, output)
	}
	return string(output)
}

// refusal runs the filter where it must not work.
func refusal(t testing.TB, s Settings, input string) error {
	t.Helper()
	output, _, err := run(s, strings.NewReader(input), initialNamespace)
	if err == nil || output != nil {
		t.Fatalf("%d bytes and error %v", len(output), err)
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("more than a line: %q", err)
	}
	return err
}

// wrap returns a config that asks for device a.
func wrap(members string) string {
	return `{"ociVersion":"1.0.2","annotations":{"cdi.k8s.io/x":"v.example/dev=a"}` + members + `}`
}

func parse(t testing.TB, config string) *oci.Spec {
	t.Helper()
	var spec oci.Spec
	if err := json.Unmarshal([]byte(config), &spec); err != nil {
		t.Fatal(err)
	}
	return &spec
}
