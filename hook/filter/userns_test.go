package filter

import (
	"strings"
	"testing"
)

const mapped = `"namespaces":[{"type":"mount"},{"type":"user"}],"uidMappings":[{"containerID":0,"hostID":100000,"size":50}],"gidMappings":[{"containerID":0,"hostID":100000,"size":50}]`

const nodesAB = `{deviceNodes: [{path: /dev/random, hostPath: /dev/null, fileMode: 0600}, {path: /dev/zero, fileMode: 0600, permissions: r}]}`

const boundNull = `{"destination":"/dev/random","type":"bind","source":"/dev/null","options":["bind","rprivate","nosuid","noexec"]}`

// Where runtimes bind the host's node of the same path, a node of another path
// is bound by us, with its rule.
func TestNodesInUserNamespace(t *testing.T) {
	s := settings(specDir(t, "{}", "a="+nodesAB))
	input := wrap(`,"mounts":[{"destination":"/a/b/c"},{"destination":"/dev"}],"linux":{` + mapped + `,"devices":[{"path":"/dev/random"}]}`)
	want := wrap(`,"mounts":[{"destination":"/a/b/c"},{"destination":"/dev"},` + boundNull + `],"linux":{` + mapped +
		`,"devices":[{"path":"/dev/zero","type":"c","major":1,"minor":5,"fileMode":384}],` +
		`"resources":{"devices":[{"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"},{"allow":true,"type":"c","major":1,"minor":5,"access":"r"}]}}`)
	if got := filterOf(t, s, input); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

// This process in a user namespace: the engine is rootless, the config says nothing of it.
func TestNodesRootless(t *testing.T) {
	s := settings(specDir(t, "{}", "a="+nodesAB))
	input := wrap("")
	for range 2 {
		output, _, err := run(s, strings.NewReader(input), someNamespace)
		if err != nil || strings.Count(string(output), boundNull) != 1 || strings.Contains(string(output), `"path":"/dev/random"`) {
			t.Fatalf("%s, %v", output, err)
		}
		if input != wrap("") && input != string(output) {
			t.Errorf("%s after %s", output, input)
		}
		input = string(output)
	}
	if got := filterOf(t, s, wrap("")); strings.Contains(got, "mounts") || !strings.Contains(got, `"path":"/dev/random"`) {
		t.Error(got)
	}
}

// Binds take part in the order of mounts where CDI has any.
func TestBindsAmongMounts(t *testing.T) {
	s := settings(specDir(t, "{}", "a={deviceNodes: [{path: /dev/mine, hostPath: /dev/null}], mounts: [{hostPath: /1, containerPath: /x/y/z}, {hostPath: /2, containerPath: /dev/mine}, {hostPath: /3, containerPath: /x}]}"))
	got := filterOf(t, s, wrap(`,"linux":{`+mapped+`}`))
	var order []string
	for _, m := range parse(t, got).Mounts {
		order = append(order, m.Source)
	}
	if text := strings.Join(order, " "); text != "/3 /dev/null /1" {
		t.Error(text)
	}
}

func TestBindOfAnotherDevice(t *testing.T) {
	for edits, want := range map[string]string{
		"{deviceNodes: [{path: /dev/mine, hostPath: /dev/null, type: c, major: 1, minor: 5}]}": `host device node "/dev/null" for "/dev/mine": the host's is c 1:3, the spec says c 1:5`,
		"{deviceNodes: [{path: /dev/mine, hostPath: /dev/null, type: p}]}":                     "the spec says p 0:0",
		"{deviceNodes: [{path: /dev/mine, hostPath: /etc, type: b, major: 7}]}":                "the host's is no device",
		"{deviceNodes: [{path: /dev/mine, hostPath: /none, type: b, major: 7}]}":               "stat /none: no such file",
	} {
		s := settings(specDir(t, "{}", "a="+edits))
		err := refusal(t, s, wrap(`,"linux":{`+mapped+`}`))
		for _, part := range []string{want, "device v.example/dev=a of spec " + s.SpecDirs[0]} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %s", edits, err, part)
			}
		}
	}
}

func TestUnmappedGroup(t *testing.T) {
	s := settings(specDir(t, "{}", "a={additionalGids: [0, 49, 50]}"))
	err := refusal(t, s, wrap(`,"linux":{`+mapped+`}`))
	if !strings.Contains(err.Error(), `additional group 50 of device "v.example/dev=a"`) {
		t.Error(err)
	}
	if got := filterOf(t, s, wrap(`,"linux":{"namespaces":[{"type":"user","path":"/proc/1/ns/user"}]}`)); !strings.Contains(got, "[49,50]") {
		t.Error(got)
	}
}
