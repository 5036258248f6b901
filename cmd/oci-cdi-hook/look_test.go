package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

const firstSpec = `cdiVersion: 0.7.0
kind: v.example/dev
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
devices:
- name: a
  containerEdits:
    env: ["A=it's <here>"]
    additionalGids: [44]
    deviceNodes:
    - {path: /dev/a, hostPath: /dev/host-a, type: c, major: 10, minor: 200, fileMode: 0o660, gid: 44}
    mounts:
    - {hostPath: /opt/lib, containerPath: /usr/lib/v, options: [rbind, ro]}
    - {hostPath: none, containerPath: /scratch, type: tmpfs, options: [size=1m]}
    hooks:
    - {hookName: createContainer, path: /opt/hook, args: [hook, "an arg"]}
    - {hookName: startContainer, path: /opt/late}
- name: over
  containerEdits: {env: [SRC=first]}
- name: twice
  containerEdits: {env: [SRC=first]}
`

const config = `{"process":{"env":["PATH=/bin"],"user":{"uid":7,"gid":8}},
	"mounts":[{"destination":"/usr/lib/v","source":"/opt/lib","options":["rbind","ro"]}]}`

// host makes two spec directories with everything that list can tell.
func host(t *testing.T) (flags []string, normal func(string) string) {
	t.Helper()
	low := specs(t, map[string]string{
		"a.yaml": firstSpec,
		"b.json": `{"cdiVersion":"0.6.0","kind":"v.example/dev","devices":[{"name":"twice","containerEdits":{"env":["SRC=second"]}}]}`,
		"c.yaml": "cdiVersion: 0.6.0\nkind: v.example/bad\ndevices: []\n",
	})
	high := specs(t, map[string]string{"a.yaml": "cdiVersion: 0.6.0\nkind: v.example/dev\ndevices:\n- name: over\n  containerEdits: {env: [SRC=later]}\n"})
	normal = func(text string) string {
		return strings.NewReplacer(low, "/etc/cdi", high, "/var/run/cdi").Replace(text)
	}
	return []string{"--spec-dir", low, "--spec-dir", high}, normal
}

func wantGolden(t *testing.T, name, have string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", file, have, want)
	}
	if strings.HasSuffix(name, ".json") && (!json.Valid([]byte(have)) || bytes.Contains([]byte(have), []byte(`\u003c`))) {
		t.Errorf("%s is no JSON for people", name)
	}
}

func TestGolden(t *testing.T) {
	flags, normal := host(t)
	bundle := t.TempDir()
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"list.txt":         {"list"},
		"list.json":        {"list", "--json"},
		"plan.txt":         {"plan", "v.example/dev=a"},
		"plan.json":        {"plan", "v.example/dev=a", "--json"},
		"plan-bundle.txt":  {"plan", "v.example/dev=a", "--bundle", bundle},
		"plan-config.json": {"plan", "--json", "v.example/dev=a", "--config", filepath.Join(bundle, "config.json")},
	} {
		t.Run(name, func(t *testing.T) {
			r := runWith(t, "", append(args, flags...)...)
			if r.code != 0 {
				t.Errorf("exit %d: %s", r.code, r.err)
			}
			text := r.out
			if r.err != "" {
				text += "--- stderr\n" + r.err
			}
			wantGolden(t, name, normal(text))
		})
	}
}

func TestListOfNothing(t *testing.T) {
	r := runWith(t, "", "list", "--json", "--spec-dir", filepath.Join(t.TempDir(), "none"))
	var l struct{ Devices, Shadowed, Conflicts, Errors []any }
	if err := json.Unmarshal([]byte(r.out), &l); err != nil || r.code != 0 || r.err != "" {
		t.Fatalf("%+v %v", r, err)
	}
	if l.Devices == nil || l.Shadowed == nil || l.Conflicts == nil || l.Errors == nil {
		t.Errorf("a list that is empty is null: %s", r.out)
	}
	dir := t.TempDir()
	if r := runWith(t, "", "list", "--spec-dir", dir); r != (ran{err: "no devices in " + dir + "\n"}) {
		t.Errorf("%+v", r)
	}
}

// A conflict is refused, and so is what lies below it in another directory.
func TestPlanOfAConflict(t *testing.T) {
	flags, normal := host(t)
	r := runWith(t, "", append([]string{"plan", "v.example/dev=twice", "v.example/dev=over"}, flags...)...)
	if r.code != 3 || !strings.Contains(normal(r.err), "/etc/cdi/a.yaml") || !strings.Contains(normal(r.err), "/etc/cdi/b.json") {
		t.Errorf("%+v", r)
	}
	wantOneLine(t, r)
}
