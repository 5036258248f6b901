package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vendorFiles makes a directory with one file of each verdict.
func vendorFiles(t *testing.T) (dir string) {
	t.Helper()
	return specs(t, map[string]string{
		"a-good.yaml":  "cdiVersion: 0.6.0\nkind: v.example/good\ndevices:\n- name: a\n  containerEdits: {env: [A=1]}\n",
		"b-drift.yaml": "cdiVersion: 0.6.0\nkind: v.example/drift\ndevices:\n- name: a\n  containerEdits: {deviceNodes: [{path: /dev/null, type: c, major: 509}]}\n",
		"c-bad.yaml":   "cdiVersion: 0.6.0\nkind: v.example/bad\ndevices:\n- name: a\n  containerEdits: {hooks: [{hookname: prestart, path: /h}]}\n",
		"d-odd.yml":    "cdiVersion: 0.6.0\nkind: v.example/odd\ndevices:\n- name: a\n  containerEdits: {env: [A=1]}\n",
		"e-notes.txt":  "not a spec",
	})
}

func TestValidateGolden(t *testing.T) {
	dir := vendorFiles(t)
	for name, args := range map[string][]string{
		"validate.txt":  {"validate", dir},
		"validate.json": {"validate", "--json", dir},
	} {
		t.Run(name, func(t *testing.T) {
			r := runWith(t, "", args...)
			if r.code != exitFailed || r.err != "" {
				t.Errorf("%+v", r)
			}
			wantGolden(t, name, strings.ReplaceAll(r.out, dir, "/etc/cdi"))
		})
	}
}

func TestValidateExitCodes(t *testing.T) {
	dir := vendorFiles(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	twice := specs(t, map[string]string{
		"a.yaml": "cdiVersion: 0.6.0\nkind: v.example/x\ndevices:\n- name: a\n  containerEdits: {env: [A=1]}\n",
		"b.yaml": "cdiVersion: 0.6.0\nkind: v.example/x\ndevices:\n- name: a\n  containerEdits: {env: [A=2]}\n",
	})
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{in("a-good.yaml")}, exitDone, "valid"},
		{[]string{in("d-odd.yml")}, exitDone, "only files that end in"},
		{[]string{in("b-drift.yaml")}, exitDiffers, "spec 509:0, host 1:3"},
		{[]string{in("b-drift.yaml"), in("c-bad.yaml")}, exitFailed, "it is spelled hookName"},
		{[]string{in("none.yaml")}, exitFailed, "no such file"},
		{[]string{twice}, exitFailed, "conflict: v.example/x=a"},
		{[]string{"/etc/passwd"}, exitFailed, "refused"},
		{[]string{"--no-such-flag"}, exitUsage, ""},
	} {
		r := runWith(t, "", append([]string{"validate"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.out, c.out) {
			t.Errorf("validate %q: %+v, want exit %d and %q", c.args, r, c.code, c.out)
		}
	}
}

// Without arguments it is the spec directories, in which a later one hides an earlier one:
// only what counts is compared with the host.
func TestValidateSpecDirs(t *testing.T) {
	stale := "cdiVersion: 0.6.0\nkind: v.example/x\ndevices:\n- name: a\n  containerEdits: {deviceNodes: [{path: /dev/null, type: c, major: 509}]}\n"
	low := specs(t, map[string]string{"x.yaml": stale})
	high := specs(t, map[string]string{"x.yaml": "cdiVersion: 0.6.0\nkind: v.example/x\ndevices:\n- name: a\n  containerEdits: {deviceNodes: [{path: /dev/null}]}\n"})
	flags := []string{"--spec-dir", low, "--spec-dir", high}
	if r := runWith(t, "", append([]string{"validate"}, flags...)...); r.code != exitDone || strings.Count(r.out, ": valid") != 2 {
		t.Errorf("%+v", r)
	}
	if r := runWith(t, "", append([]string{"validate", filepath.Join(low, "x.yaml")}, flags...)...); r.code != exitDone {
		t.Errorf("hidden file: %+v", r)
	}
	if r := runWith(t, "", "validate", "--spec-dir", low); r.code != exitDiffers {
		t.Errorf("alone: %+v", r)
	}
	empty := t.TempDir()
	if r := runWith(t, "", "validate", "--spec-dir", empty); r.code != exitDone || !strings.Contains(r.err, empty) {
		t.Errorf("nothing there: %+v", r)
	}
}

func TestConvert(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.json")
	old := `{"cdiVersion":"0.2.0","kind":"v.example/d","cdiDevices":[{"name":"a","nameShort":["b"],"containerSpec":{"devices":[{"hostPath":"/dev/a","containerPath":"/dev/b"}]}}],}`
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	r := runWith(t, "", "validate", file)
	if r.code != exitFailed || !strings.Contains(r.out, "convert "+file) {
		t.Errorf("validate: %+v", r)
	}
	r = runWith(t, "", "convert", file)
	if r.code != exitDone || !json.Valid([]byte(r.out)) || !strings.Contains(r.out, `"hostPath": "/dev/a"`) || !strings.Contains(r.err, "nameShort") {
		t.Errorf("convert: %+v", r)
	}
	r = runWith(t, "", "convert", "--to", "yaml", file)
	if r.code != exitDone || !strings.HasPrefix(r.out, "cdiVersion: 0.5.0\n") {
		t.Errorf("convert to YAML: %+v", r)
	}
	for _, args := range [][]string{{}, {file, file}, {"--to", "xml", file}} {
		if r := runWith(t, "", append([]string{"convert"}, args...)...); r.code != exitUsage || r.out != "" {
			t.Errorf("convert %q: %+v", args, r)
		}
	}
	r = runWith(t, "", "convert", "/etc/passwd")
	if r.code != exitFailed || r.out != "" {
		t.Errorf("convert of no spec: %+v", r)
	}
	wantOneLine(t, r)
}
