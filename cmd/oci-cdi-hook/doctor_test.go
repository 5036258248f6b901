package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host on which nothing would run the hook.
func TestDoctor(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	state, specDir := filepath.Join(t.TempDir(), "state"), specs(t, map[string]string{"a.yaml": firstSpec, "b.yaml": "nonsense"})
	flags := []string{"--state-dir", state, "--spec-dir", specDir}

	r := runWith(t, "", append([]string{"doctor", "--json"}, flags...)...)
	var x struct {
		Checks []struct{ Subject, State, Text, Do string }
	}
	if err := json.Unmarshal([]byte(r.out), &x); err != nil || r.code != exitDone || r.err != "" {
		t.Fatalf("%+v %v", r, err)
	}
	seen := map[string]string{}
	for _, c := range x.Checks {
		seen[c.Subject+" "+c.State] += c.Text
		if (c.State == "ok") != (c.Do == "") {
			t.Errorf("%+v: what is wrong, and only that, says what to do", c)
		}
	}
	for subject, text := range map[string]string{
		"kernel ok": "openat2", "engine warning": "nothing reads hooks.d", "specs warning": "b.yaml", "specs ok": "3 devices of 1 files", "records ok": state,
	} {
		if !strings.Contains(seen[subject], text) {
			t.Errorf("%s is %q, want %q in it", subject, seen[subject], text)
		}
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the state directory was made")
	}

	config := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(config, []byte("spec-dirs = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r = runWith(t, "", append([]string{"doctor", "--config-file", config}, flags...)...)
	if r.code != exitFailed || !strings.Contains(r.out, "fault") || !strings.Contains(r.out, "spec-dirs") || !strings.Contains(r.out, "-> ") {
		t.Errorf("%+v", r)
	}
}
