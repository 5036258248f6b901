package early

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/settings"
)

const quiet = `{"ociVersion":"1.0.2","id":"a","pid":7,"bundle":"/b","annotations":{"io.container.manager":"libpod","run":"a/b"}}`

func TestLook(t *testing.T) {
	for name, tc := range map[string]struct {
		args  string
		stdin string
		ends  bool
	}{
		"as in hooks.d":         {"createRuntime --deadline 100s", quiet, true},
		"the older name":        {"prestart", quiet, true},
		"all flags":             {"createRuntime --spec-dir /a --spec-dir /b --state-dir /c --config-file /d --log-file /e --deadline 0s", quiet, true},
		"no annotations":        {"createRuntime", `{"id":"a"}`, true},
		"a later stage":         {"poststop", quiet, false},
		"no verb":               {"", quiet, false},
		"help":                  {"createRuntime --help", quiet, false},
		"an argument":           {"createRuntime x", quiet, false},
		"a flag alone":          {"createRuntime --spec-dir", quiet, false},
		"a relative folder":     {"createRuntime --spec-dir a", quiet, false},
		"another flag":          {"createRuntime --log-level debug", quiet, false},
		"a strange time":        {"createRuntime --deadline 1h", quiet, false},
		"a time without number": {"createRuntime --deadline s", quiet, false},
		"a key that asks":       {"createRuntime", `{"annotations":{"cdi.k8s.io/x":""}}`, false},
		"an escaped key":        {"createRuntime", `{"annotations":{"\u0063di.k8s.io/x":"v.com/c=d"}}`, false},
		"a value that names":    {"createRuntime", `{"annotations":{"x":"a, v.com/c=d"}}`, false},
		"not JSON":              {"createRuntime", `{"annotations":{}`, false},
		"an array":              {"createRuntime", `[]`, false},
		"null":                  {"createRuntime", `null`, false},
		"nothing":               {"createRuntime", ``, false},
		"a pid that is text":    {"createRuntime", `{"pid":"7"}`, false},
		"a large one":           {"createRuntime", `{"id":"` + strings.Repeat("a", maxState) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			ended := false
			in := look(append([]string{"oci-cdi-hook"}, strings.Fields(tc.args)...), strings.NewReader(tc.stdin), func(code int) { ended = code == 0 })
			if ended != tc.ends {
				t.Errorf("ended: %v", ended)
			}
			if got, err := io.ReadAll(in); err != nil || string(got) != tc.stdin {
				t.Errorf("what is left to read: %d bytes, %v; %d came", len(got), err, len(tc.stdin))
			}
		})
	}
}

// FuzzAsksNothing holds that the full program would have nothing to do either, and find no fault.
func FuzzAsksNothing(f *testing.F) {
	for _, s := range []string{quiet, `{}`, `{"annotations":null}`, `{"annotations":{"a":"x/y,z=w"}}`, `{"Annotations":{"cdi.k8s.io/a":"b"}}`, `{"annotations":{},"annotations":{"a":"v.com/c=d"}}`, "\f{}", `{"root":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !asksNothing(raw) {
			return
		}
		state, err := oci.ReadState(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatalf("the full program refuses it: %v", err)
		}
		if settings.Needed(state.Annotations) {
			t.Fatalf("it asks: %v", state.Annotations)
		}
	})
}

// TestOrder holds what the package is there for: in the built program its turn comes before that of the libraries.
func TestOrder(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "hook")
	build := exec.Command("go", "build", "-o", bin, "oci-cdi-hook/cmd/oci-cdi-hook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	trace := func(state any) string {
		raw, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(bin, "createRuntime")
		c.Env = []string{"GODEBUG=inittrace=1"}
		c.Stdin = strings.NewReader(string(raw))
		out, _ := c.CombinedOutput() // the second state is refused
		return string(out)
	}
	asking := map[string]any{"id": "a", "annotations": map[string]string{"cdi.k8s.io/x": "no name"}}
	for _, library := range []string{"go.yaml.in/yaml/v3", "tags.cncf.io/container-device-interface"} {
		if got := trace(asking); !strings.Contains(got, "init "+library) {
			t.Errorf("%s is not initialised at all: has it another name by now?\n%s", library, got)
		}
		if got := trace(map[string]any{"id": "a"}); strings.Contains(got, "init "+library) || !strings.Contains(got, "init encoding/json") {
			t.Errorf("%s is initialised for a container that asks for nothing:\n%s", library, got)
		}
	}
}
