package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// precreateRun runs the program as an engine would, with one device to be had.
func precreateRun(t *testing.T, config string, out io.Writer, more ...string) (code int, complaint string) {
	t.Helper()
	dir := t.TempDir()
	spec := "cdiVersion: 0.6.0\nkind: v.example/dev\ndevices:\n- name: a\n  containerEdits: {env: [\"A=<&>\"]}\n"
	if err := os.WriteFile(filepath.Join(dir, "v.yaml"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	args := append([]string{"precreate", "--spec-dir", dir, "--log-file", filepath.Join(dir, "log"), "--state-dir", filepath.Join(dir, "state")}, more...)
	code = run(args, streams{in: strings.NewReader(config), out: out, err: &complaints})
	return code, complaints.String()
}

func TestPrecreate(t *testing.T) {
	const asks = `{"annotations":{"cdi.k8s.io/x":"v.example/dev=a"}}`
	tests := map[string]struct {
		config, output, complaint string
		code                      int
		flags                     []string
	}{
		"asked":     {config: asks, output: `{"annotations":{"cdi.k8s.io/x":"v.example/dev=a"},"process":{"env":["A=<&>"]}}`},
		"not asked": {config: " {\"a\" : 1e99}\n", output: " {\"a\" : 1e99}\n"},
		"unknown":   {config: strings.Replace(asks, "=a", "=b", 1), code: 3, complaint: "v.example/dev=b"},
		"malformed": {config: strings.Replace(asks, "=a", "", 1), code: 3, complaint: `"v.example/dev"`},
		"truncated": {config: asks[:20], code: 1, complaint: "config: not JSON"},
		"wrong":     {config: `{"linux":[]}`, code: 1, complaint: "config: linux: array instead of an object"},
		"empty":     {config: "{}", code: 1, complaint: "config: an empty object"},
		"a flag":    {config: asks, code: 2, complaint: "--nope", flags: []string{"--nope"}},
		"a word":    {config: asks, code: 2, complaint: "nope", flags: []string{"nope"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var output bytes.Buffer
			code, complaint := precreateRun(t, test.config, &output, test.flags...)
			if code != test.code || output.String() != test.output {
				t.Errorf("exit %d, %q", code, output.String())
			}
			lines := strings.Count(complaint, "\n")
			if !strings.Contains(complaint, test.complaint) || (lines == 1) != (code != 0) {
				t.Errorf("complaint %q", complaint)
			}
		})
	}
}

// A configuration that is broken stops who asks, and nobody else.
func TestPrecreateWithABrokenConfiguration(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(broken, []byte("nope = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const root = `{"root":{"path":"x"},"annotations":{"k":"v"}}`
	for config, want := range map[string]int{
		root:             0,
		`{"process":{}}`: 0,
		strings.Replace(root, `"k":"v"`, `"cdi.k8s.io/x":"v.example/dev=a"`, 1):                      1,
		strings.Replace(root, `{"k":"v"}`, `{},"linux":{"devices":[{"path":"v.example/dev=a"}]}`, 1): 1,
	} {
		var output bytes.Buffer
		code, complaint := precreateRun(t, config, &output, "--config-file", broken)
		if code != want || (code == 0) != (output.String() == config) {
			t.Errorf("%s: exit %d, %q, %s", config, code, output.String(), complaint)
		}
	}
}

// counter counts calls: a config must come at once.
type counter struct {
	calls int
	err   error
}

func (c *counter) Write(p []byte) (int, error) {
	c.calls++
	return len(p), c.err
}

func TestPrecreateOutput(t *testing.T) {
	large := `{"annotations":{"cdi.k8s.io/x":"v.example/dev=a"},"x":"` + strings.Repeat("x", 1<<20) + `"}`
	out := &counter{}
	if code, complaint := precreateRun(t, large, out); code != 0 || out.calls != 1 {
		t.Errorf("exit %d, %d writes: %s", code, out.calls, complaint)
	}
	out = &counter{err: errors.New("disk full")}
	if code, complaint := precreateRun(t, large, out); code != 1 || !strings.Contains(complaint, "disk full") {
		t.Errorf("exit %d: %s", code, complaint)
	}
}

// The engine may be gone when the config comes.
func TestPrecreateClosedOutput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	if code, complaint := precreateRun(t, `{"a":1}`, w); code != 1 || !strings.Contains(complaint, "broken pipe") {
		t.Errorf("exit %d: %s", code, complaint)
	}
}
