package device

import (
	"path/filepath"
	"strings"
	"testing"
)

// The verdicts are the library's. They are written down here because its
// next version may judge otherwise, which users of this program would notice.
func TestSpecVerdicts(t *testing.T) {
	const head = "cdiVersion: 0.6.0\nkind: v.example/dev\n"
	const device = "devices: [{name: a, containerEdits: {env: [A=1]}}]\n"
	kind := func(k string) string { return "cdiVersion: 0.6.0\nkind: " + k + "\n" + device }
	node := func(version, rest string) string {
		return specWith(version, "{deviceNodes: [{path: /dev/x, "+rest+"}]}")
	}
	tests := []struct {
		name, spec string
		reason     string // of the refusal, empty where the spec is good
	}{
		{"version with v", `{"cdiVersion":"v0.5.0","kind":"v.example/dev","devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}`, ""},
		{"groups at 0.6.0", specWith("0.6.0", "{additionalGids: [44]}"), "at least v0.7.0"},
		{"groups at 0.7.0", specWith("0.7.0", "{additionalGids: [44]}"), ""},
		{"hostPath at 0.4.0", node("0.4.0", "hostPath: /dev/null"), "at least v0.5.0"},
		{"digit at 0.4.0", strings.Replace(specWith("0.4.0", "{env: [A=1]}"), "name: a", `name: "0"`, 1), "at least v0.5.0"},
		{"mount type at 0.3.0", specWith("0.3.0", "{mounts: [{hostPath: /x, containerPath: /x, type: bind}]}"), "at least v0.4.0"},
		{"annotations at 0.5.0", "cdiVersion: 0.5.0\nkind: v.example/dev\nannotations: {k: v}\n" + device, "at least v0.6.0"},
		{"annotations at 0.6.0", head + "annotations: {\"bad key!\": v}\n" + device, ""},
		{"dotted class at 0.5.0", strings.Replace(kind("v.example/gpu.shared"), "0.6.0", "0.5.0", 1), "at least v0.6.0"},
		{"dotted class at 0.6.0", kind("v.example/gpu.shared"), ""},
		{"version of the future", specWith("1.2.0", "{env: [A=1]}"), `invalid version "1.2.0"`},
		{"field of the future", specWith("1.2.0", "{deviceCgroupRules: [{type: c, major: 226}]}"), "deviceCgroupRules"},
		{"empty device", head + "containerEdits: {env: [LD=x]}\ndevices: [{name: demo1}]\n", "empty device edits"},
		{"no devices", head + "devices: []\n", "no devices"},
		{"edits as a list", `{"cdiVersion":"0.6.0","kind":"v.example/dev","containerEdits":[{"env":["B=1"]}],"devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}`, "ContainerEdits"},
		{"vendor without dot", kind("rdma/hca_shared_devices_a"), ""},
		{"two slashes", kind("v.example/a/b"), "invalid class"},
		{"digit first", kind("3dfx.example/gpu"), "should start with letter"},
		{"no slash", kind("foo"), "invalid vendor"},
		{"no class", kind("v.example/"), "invalid vendor"},
		{"one letter class", kind("x.example/d"), ""},
		{"one letter vendor", kind("x/d"), ""},
		{"mode 0660", node("0.6.0", "fileMode: 0660"), ""},
		{"mode quoted", node("0.6.0", `fileMode: "0660"`), "cannot unmarshal"},
		{"anchor", head + "containerEdits: &e {env: [A=1]}\ndevices: [{name: a, containerEdits: *e}]\n", ""},
		{"merge", head + "devices:\n- &d {name: a, containerEdits: {env: [A=1]}}\n- {<<: *d, name: b}\n", ""},
		{"holder of anchors", head + "x-common: {env: [A=1]}\n" + device, "x-common"},
		{"repeated key", head + "kind: v.example/dev\n" + device, "already"},
		{"repeated JSON key", `{"cdiVersion":"0.6.0","cdiVersion":"0.6.0","kind":"v.example/dev","devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}`, "already"},
		{"null node", specWith("0.6.0", "{deviceNodes: [null]}"), "null device node"},
		{"null node of the spec", head + device + "containerEdits: {deviceNodes: [null]}\n", "null device node"},
		{"null mount", specWith("0.6.0", "{mounts: [null]}"), "null mount"},
		{"permissions mrw", node("0.6.0", "permissions: mrw"), ""},
		{"permissions rr", node("0.6.0", "permissions: rr"), ""},
		{"permissions none", node("0.6.0", "permissions: none"), ""},
		{"permissions empty", node("0.6.0", `permissions: ""`), ""},
		{"permissions rwx", node("0.6.0", "permissions: rwx"), "invalid permissions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeSpecs(t, map[string]string{"x.yaml": tt.spec, "z.yaml": strings.Replace(specFor("z", "z"), "v.example", "z.example", 1)})
			l := Registry{Dirs: []string{dir}}.List()
			got := errorOf(l, filepath.Join(dir, "x.yaml"))
			if tt.reason == "" && got != "" || tt.reason != "" && got == "" {
				t.Fatalf("error %q, want %q", got, tt.reason)
			}
			wantIn(t, got, tt.reason)
			wantNotIn(t, got, "/proc/", "panic")
			if good := l.Devices[len(l.Devices)-1].Name; good != "z.example/dev=z" {
				t.Errorf("the other file's device is gone: %v", l.Devices)
			}
		})
	}
}

func TestLegacyCaseIsRefused(t *testing.T) {
	e := refused(t, Registry{Dirs: []string{"testdata/fixtures"}}, "rebellions.ai/npu=runtime")
	wantIn(t, e.Error(), "rbln-legacy-case.yaml", "hookname")
}

func TestFileNames(t *testing.T) {
	files := map[string]string{
		"yaml-body.json": specFor("1", "yaml-body"),
		"json-body.yaml": `{"cdiVersion":"0.6.0","kind":"v.example/dev","devices":[{"name":"json-body","containerEdits":{"env":["A=1"]}}]}`,
		".hid.yaml":      specFor("1", "hid"),
	}
	for _, ignored := range []string{"a.yml", "A.YAML", "a.yaml.bak", "sub/a.yaml", "spec.1.tmp", "yaml", "x.Json"} {
		files[ignored] = specFor("1", "ignored")
	}
	l := Registry{Dirs: []string{writeSpecs(t, files)}}.List()
	wantEqual(t, "devices", namesOf(l.Devices), []string{"v.example/dev=hid", "v.example/dev=json-body", "v.example/dev=yaml-body"})
	if len(l.Errors)+len(l.Conflicts) != 0 {
		t.Errorf("listing: %+v", l)
	}
}

func namesOf(devices []Listed) []string {
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names
}

func TestFixturesLoad(t *testing.T) {
	l := Registry{Dirs: []string{"testdata/fixtures"}}.List()
	bad := map[string]bool{}
	for _, e := range l.Errors {
		bad[filepath.Base(e.Path)] = true
	}
	if len(bad) != 2 || !bad["draft-form.json"] || !bad["rbln-legacy-case.yaml"] {
		t.Errorf("errors: %+v", l.Errors)
	}
	// Two NVIDIA files define nvidia.com/gpu=all.
	for _, c := range l.Conflicts {
		if c.Name != "nvidia.com/gpu=all" || len(c.Specs) != 2 {
			t.Errorf("conflict: %+v", c)
		}
	}
	if len(l.Devices) < 15 {
		t.Errorf("devices: %v", namesOf(l.Devices))
	}
}
