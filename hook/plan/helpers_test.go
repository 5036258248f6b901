package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/hook/device"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// specDir is what golden files have in place of the directory of specs.
const specDir = "/etc/cdi"

// fixture reads a spec of package device's and gives its nodes numbers, so that no host
// has to have them.
func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../device/testdata/fixtures", name))
	if err != nil {
		t.Fatal(err)
	}
	minor := 0
	return regexp.MustCompile(`(?m)^( *)- path: /dev/\S+$`).ReplaceAllStringFunc(string(text), func(line string) string {
		minor++
		indent := line[:strings.Index(line, "-")] + "  "
		return fmt.Sprintf("%s\n%stype: c\n%smajor: 195\n%sminor: %d", line, indent, indent, indent, minor)
	})
}

// specWith is a spec whose device a has the edits.
func specWith(edits string) string {
	return "cdiVersion: 1.1.0\nkind: v.example/dev\ndevices:\n- name: a\n  containerEdits: " + edits + "\n"
}

// build plans names of one spec file, as hook does.
func build(t *testing.T, spec string, c Container, names ...string) (*Plan, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "v.yaml"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := device.Registry{Dirs: []string{dir}}.Resolve(names)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Edits {
		r.Edits[i].SpecPath = specDir + "/v.yaml"
	}
	n, err := r.Native(device.Container{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Config == nil {
		c.Config = &oci.Spec{}
	}
	return Build(r, n, c)
}

func mustBuild(t *testing.T, spec string, c Container, names ...string) *Plan {
	t.Helper()
	p, err := build(t, spec, c, names...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func readConfig(t *testing.T, text string) *oci.Spec {
	t.Helper()
	c := new(oci.Spec)
	if err := json.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// wantGolden compares a plan's JSON with a file.
func wantGolden(t *testing.T, name string, p *Plan) {
	t.Helper()
	var have bytes.Buffer
	e := json.NewEncoder(&have)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, have.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have.Bytes(), want) {
		t.Errorf("%s is\n%s\nwant\n%s", file, &have, want)
	}
	// What is journalled can be read again.
	var again Plan
	if err := json.Unmarshal(want, &again); err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(again)
	first, ferr := json.Marshal(p)
	if err := errors.Join(err, ferr); err != nil || !bytes.Equal(first, second) {
		t.Errorf("%s is not read as it was written: %s %v", file, second, err)
	}
}
