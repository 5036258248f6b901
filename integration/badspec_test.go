package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// specCase is one spec file beside a good one of another kind.
type specCase struct {
	name string
	file string // its name, b.yaml if empty
	text string
	why  string // a part of the reason, empty where the file is good
}

// spec writes a version and a device beside what is given; edits are those of device a.
func spec(version, edits string, more ...string) string {
	return "cdiVersion: " + version + "\nkind: w.example/dev\n" + strings.Join(append(more, ""), "\n") + "devices:\n- {name: a, containerEdits: " + edits + "}\n"
}

var specCases = []specCase{
	{name: "groups before 0.7", text: spec("0.6.0", "{additionalGids: [44]}"), why: "at least v0.7.0"},
	{name: "groups from 0.7 on", text: spec("0.7.0", "{additionalGids: [44]}")},
	{name: "hostPath before 0.5", text: spec("0.4.0", "{deviceNodes: [{path: /dev/x, hostPath: /dev/null}]}"), why: "at least v0.5.0"},
	{name: "digit first before 0.5", text: strings.Replace(spec("0.4.0", "{env: [A=1]}"), "name: a", `name: "0"`, 1), why: "at least v0.5.0"},
	{name: "mount type before 0.4", text: spec("0.3.0", "{mounts: [{hostPath: /f, containerPath: /f, type: bind}]}"), why: "at least v0.4.0"},
	{name: "annotations before 0.6", text: spec("0.5.0", "{env: [A=1]}", "annotations: {k: v}"), why: "at least v0.6.0"},
	{name: "annotations from 0.6 on", text: spec("0.6.0", "{env: [A=1]}", "annotations: {k: v}")},
	{name: "dotted class before 0.6", text: kind("0.5.0", "w.example/gpu.shared"), why: "at least v0.6.0"},
	{name: "from the future", text: spec("1.2.0", "{deviceCgroupRules: [{type: c, major: 226}]}"), why: "deviceCgroupRules"},
	{name: "hookname", text: spec("0.5.0", "{hooks: [{hookname: createContainer, path: /x}]}"), why: "hookname"},
	{name: "empty device edits", text: spec("0.6.0", "{}", "containerEdits: {env: [LD=x]}") + "- {name: good, containerEdits: {env: [B=1]}}\n", why: "empty"},
	{name: "no devices", text: "cdiVersion: 0.6.0\nkind: w.example/dev\ndevices: []\n", why: "no devices"},
	{name: "edits as a list", file: "b.json", text: `{"cdiVersion":"0.6.0","kind":"w.example/dev","containerEdits":[{"env":["B=1"]}],"devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}`, why: "ContainerEdits"},
	{name: "vendor without a dot", text: kind("0.6.0", "rdma/hca_shared_devices_a")},
	{name: "two slashes", text: kind("0.6.0", "w.example/a/b"), why: "a/b"},
	{name: "vendor with a digit first", text: kind("0.6.0", "3dfx.example/gpu"), why: "3dfx.example"},
	{name: "no slash", text: kind("0.6.0", "w.example"), why: "vendor"},
	{name: "no class", text: kind("0.6.0", "w.example/"), why: "vendor"},
	{name: "one letter", text: kind("0.6.0", "w.example/d")},
	{name: "mode in quotes", text: spec("0.6.0", `{deviceNodes: [{path: /dev/x, fileMode: "0660"}]}`), why: "FileMode"},
	{name: "modes of all kinds", text: spec("0.6.0", "{deviceNodes: [{path: /dev/a, fileMode: 0660}, {path: /dev/b, fileMode: 0o660}, {path: /dev/c, fileMode: 0x1b0}, {path: /dev/d, fileMode: 432}, {path: /dev/e, fileMode: 660}]}")},
	{name: "permissions in any order", text: spec("1.1.0", "{deviceNodes: [{path: /dev/a, permissions: mrw}, {path: /dev/b, permissions: rr}, {path: /dev/c, permissions: none}, {path: /dev/d, permissions: ''}]}")},
	{name: "permissions of other letters", text: spec("0.6.0", "{deviceNodes: [{path: /dev/a, permissions: rwx}]}"), why: "rwx"},
	{name: "anchors", text: spec("0.6.0", "&e {env: [A=1]}") + "- {name: b, containerEdits: *e}\n"},
	{name: "merge keys", text: spec("0.6.0", "&e {env: [A=1]}") + "- {name: b, containerEdits: {<<: *e}}\n"},
	{name: "a stray key", text: spec("0.6.0", "{env: [A=1]}", "x-common: {env: [A=1]}"), why: "x-common"},
	{name: "a key twice", text: spec("0.6.0", "{env: [A=1], env: [B=1]}"), why: "env"},
	{name: "a null node", text: spec("0.6.0", "{deviceNodes: [null]}"), why: "null"},
	{name: "a null mount", text: spec("0.6.0", "{mounts: [null]}"), why: "null"},
	{name: "hidden", file: ".b.yaml", text: spec("0.6.0", "{env: [A=1]}")},
	{name: "yaml in json", file: "b.json", text: spec("0.6.0", "{env: [A=1]}")},
	{name: "json in yaml", text: `{"cdiVersion":"v0.6.0","kind":"w.example/dev","devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}`},
}

func kind(version, name string) string {
	return strings.Replace(spec(version, "{env: [A=1]}"), "w.example/dev", name, 1)
}

// TestSpecFiles looks at each file with list, and asks for a device of each bad one while a container waits.
func TestSpecFiles(t *testing.T) {
	bed.LeavesNothing(t)
	bed.NewHost(t)
	good := bed.WriteSpec(t, "good.yaml", device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]"))
	b := bed.NewBundle(t)
	b.Ask(report.Ask{})
	held := b.Hold(bed.Runtimes(t)[0])
	defer held.Release()
	for _, c := range specCases {
		t.Run(c.name, func(t *testing.T) {
			file := c.file
			if file == "" {
				file = "b.yaml"
			}
			path := bed.WriteSpec(t, file, c.text)
			defer os.Remove(path)
			list := readList(t)
			if !slices.Contains(list.names(), "v.example/dev=a") {
				t.Errorf("the devices of %s are gone: %v", good, list.names())
			}
			if c.why == "" {
				list.requireGood(t, path)
				return
			}
			list.requireBad(t, path, c.why)
			if strings.Contains(c.text, "w.example/dev\n") || strings.HasPrefix(c.text, "{") {
				feed{stdin: asked("w.example/dev=a"), code: refused, words: []string{"w.example/dev=a", path, c.why}}.run(t, held)
			}
		})
	}
}

func TestFilesThatAreNoSpecs(t *testing.T) {
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	for _, name := range []string{"a.yml", "A.YAML", "a.yaml.bak", "spec.123.tmp"} {
		bed.WriteSpec(t, name, spec("0.6.0", "{env: [A=1]}"))
	}
	h.File(bed.SpecDir+"/sub/a.yaml", spec("0.6.0", "{env: [A=1]}"), 0o644)
	list := readList(t)
	if len(list.Devices)+len(list.Errors) != 0 {
		t.Errorf("list has %+v", list)
	}
	h.Pipe(bed.SpecDir + "/pipe.yaml")
	bed.WriteSpec(t, "good.yaml", device("env: [A=1]"))
	list = readList(t)
	list.requireBad(t, bed.SpecDir+"/pipe.yaml", "")
	list.requireGood(t, bed.SpecDir+"/good.yaml")
}

// listed is what list --json prints.
type listed struct {
	Devices []struct {
		Name     string
		Spec     string
		Priority int
	}
	Shadowed  []any
	Conflicts []any
	Errors    []struct{ Path, Error string }
}

func readList(t *testing.T, more ...string) listed {
	t.Helper()
	if more == nil {
		more = []string{"--spec-dir", bed.SpecDir}
	}
	args := append([]string{bed.Hook(t), "list", "--json"}, more...)
	res := bed.Run(t, "", nil, args...)
	if res.Refused() {
		t.Fatalf("list: exit %d: %s", res.Code, res.Stderr)
	}
	var l listed
	if err := json.Unmarshal([]byte(res.Stdout), &l); err != nil {
		t.Fatalf("%v in %q", err, res.Stdout)
	}
	return l
}

func (l listed) names() []string {
	var out []string
	for _, d := range l.Devices {
		out = append(out, d.Name)
	}
	return out
}

func (l listed) requireGood(t *testing.T, path string) {
	t.Helper()
	for _, d := range l.Devices {
		if filepath.Clean(d.Spec) == path {
			return
		}
	}
	t.Errorf("list has no device of %s: %+v", path, l)
}

func (l listed) requireBad(t *testing.T, path, why string) {
	t.Helper()
	for _, e := range l.Errors {
		if e.Path == path && strings.Contains(e.Error, why) {
			return
		}
	}
	t.Errorf("list has no error of %s with %q: %+v", path, why, l)
}
