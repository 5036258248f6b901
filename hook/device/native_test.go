package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// nativeOf resolves and applies device a of a spec with these edits.
func nativeOf(t *testing.T, c Container, edits string) (*Native, error) {
	t.Helper()
	dir := writeSpecs(t, map[string]string{"x.yaml": specWith("1.1.0", edits)})
	return mustResolve(t, Registry{Dirs: []string{dir}}, "v.example/dev=a").Native(c)
}

func mustNative(t *testing.T, c Container, edits string) *Native {
	t.Helper()
	n, err := nativeOf(t, c, edits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n Node) text() string {
	return fmt.Sprintf("%s<-%s %s %d:%d %04o %d:%d", n.Path, n.HostPath, n.Type, n.Major, n.Minor, n.Mode, n.UID, n.GID)
}

func (r Rule) text() string { return fmt.Sprintf("%s %d:%d %s", r.Type, r.Major, r.Minor, r.Access) }

func (m Mount) text() string {
	return fmt.Sprintf("%s->%s %s %s", m.Source, m.Destination, m.Type, strings.Join(m.Options, ","))
}

func texts[T interface{ text() string }](items []T) []string {
	var all []string
	for _, item := range items {
		all = append(all, item.text())
	}
	return all
}

func TestNativeNodes(t *testing.T) {
	dir := t.TempDir()
	link, dangling, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(dir, "fifo")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/no/such", dangling); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Chmod(fifo, 0o400)); err != nil {
		t.Fatal(err)
	}
	user := Container{UID: 1000, GID: 1001}
	tests := []struct {
		name, node string
		container  Container
		want, rule string
	}{
		{"all from the host", "{path: /dev/null}", Container{}, "/dev/null<-/dev/null c 1:3 0666 0:0", "c 1:3 rwm"},
		{"another path", "{path: /dev/zero, hostPath: /dev/null}", Container{}, "/dev/zero<-/dev/null c 1:3 0666 0:0", "c 1:3 rwm"},
		{"owner of the process", "{path: /dev/null}", user, "/dev/null<-/dev/null c 1:3 0666 1000:1001", "c 1:3 rwm"},
		{"owner explicit", "{path: /dev/null, uid: 0, gid: 44}", user, "/dev/null<-/dev/null c 1:3 0666 0:44", "c 1:3 rwm"},
		{"link, fully given", "{path: /dev/foo, hostPath: " + link + ", type: c, major: 1, minor: 3}", Container{}, "/dev/foo<-" + link + " c 1:3 0666 0:0", "c 1:3 rwm"},
		{"missing, fully given", "{path: /dev/dri/renderD129, type: c, major: 226, minor: 129}", Container{},
			"/dev/dri/renderD129<-/dev/dri/renderD129 c 226:129 0666 0:0", "c 226:129 rwm"},
		{"stale numbers", "{path: /dev/null, type: c, major: 509}", Container{}, "/dev/null<-/dev/null c 509:0 0666 0:0", "c 509:0 rwm"},
		{"mode", "{path: /dev/null, fileMode: 0660}", Container{}, "/dev/null<-/dev/null c 1:3 0660 0:0", "c 1:3 rwm"},
		{"mode 0o", "{path: /dev/null, fileMode: 0o660}", Container{}, "/dev/null<-/dev/null c 1:3 0660 0:0", "c 1:3 rwm"},
		{"mode 0x", "{path: /dev/null, fileMode: 0x1b0}", Container{}, "/dev/null<-/dev/null c 1:3 0660 0:0", "c 1:3 rwm"},
		{"mode decimal", "{path: /dev/null, fileMode: 432}", Container{}, "/dev/null<-/dev/null c 1:3 0660 0:0", "c 1:3 rwm"},
		{"mode mistaken", "{path: /dev/null, fileMode: 660}", Container{}, "/dev/null<-/dev/null c 1:3 1224 0:0", "c 1:3 rwm"},
		{"mode with file type", "{path: /dev/null, fileMode: 8624}", Container{}, "/dev/null<-/dev/null c 1:3 0660 0:0", "c 1:3 rwm"},
		{"mode of the host", "{path: /dev/fifo, hostPath: " + fifo + "}", Container{}, "/dev/fifo<-" + fifo + " p 0:0 0400 0:0", ""},
		{"block, read only", "{path: /dev/y, type: b, major: 7, permissions: r}", Container{}, "/dev/y<-/dev/y b 7:0 0666 0:0", "b 7:0 r"},
		{"no permissions", "{path: /dev/x, type: c, major: 195, minor: 255}", Container{}, "/dev/x<-/dev/x c 195:255 0666 0:0", "c 195:255 rwm"},
		{"permissions in any order", "{path: /dev/x, type: c, major: 1, minor: 3, permissions: mwr}", Container{}, "/dev/x<-/dev/x c 1:3 0666 0:0", "c 1:3 rwm"},
		{"permissions none", "{path: /dev/x, type: c, major: 1, minor: 3, permissions: none}", Container{}, "/dev/x<-/dev/x c 1:3 0666 0:0", ""},
		{"unbuffered", "{path: /dev/x, type: u, major: 1, minor: 3}", Container{}, "/dev/x<-/dev/x u 1:3 0666 0:0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := mustNative(t, tt.container, "{deviceNodes: ["+tt.node+"]}")
			wantEqual(t, "nodes", texts(n.Nodes), []string{tt.want})
			var rules []string
			if tt.rule != "" {
				rules = []string{tt.rule}
			}
			wantEqual(t, "rules", texts(n.Rules), rules)
		})
	}
	bad := []struct{ name, node, path, reason string }{
		{"link", "{path: /dev/foo, hostPath: " + link + "}", link, "not a device node"},
		{"dangling link", "{path: /dev/foo, hostPath: " + dangling + "}", dangling, "not a device node"},
		{"missing", "{path: /dev/dri/renderD129}", "/dev/dri/renderD129", "no such file"},
		{"missing, type only", "{path: /dev/dri/renderD129, type: c}", "/dev/dri/renderD129", "no such file"},
		{"another type", "{path: /dev/null, type: b}", "/dev/null", "host type mismatch"},
		{"unbuffered, no numbers", "{path: /dev/null, type: u}", "/dev/null", "host type mismatch"},
	}
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			_, err := nativeOf(t, Container{}, "{deviceNodes: ["+tt.node+", {path: /dev/null}, {path: /no/such/too}]}")
			var hostErr *HostError
			if !errors.As(err, &hostErr) || len(hostErr.Nodes) != 2 {
				t.Fatalf("got %v, want a HostError of 2 nodes", err)
			}
			checkLine(t, err.Error())
			wantIn(t, err.Error(), tt.path, tt.reason, "v.example/dev=a", "x.yaml", "/no/such/too")
		})
	}
}

func TestMissingNodeIsErrNotExist(t *testing.T) {
	_, err := nativeOf(t, Container{}, "{deviceNodes: [{path: /no/such}]}")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v is not os.ErrNotExist", err)
	}
}

func TestNativeMergesNodesAndRules(t *testing.T) {
	n := mustNative(t, Container{}, `{deviceNodes: [
		{path: /dev/a, type: c, major: 1, minor: 3, permissions: r},
		{path: /dev/b, type: c, major: 1, minor: 5},
		{path: /dev/a, type: c, major: 1, minor: 7, permissions: none},
		{path: /dev/c, type: c, major: 1, minor: 3, permissions: w}]}`)
	wantEqual(t, "nodes", texts(n.Nodes), []string{"/dev/b<-/dev/b c 1:5 0666 0:0", "/dev/a<-/dev/a c 1:7 0666 0:0", "/dev/c<-/dev/c c 1:3 0666 0:0"})
	wantEqual(t, "rules", texts(n.Rules), []string{"c 1:3 rw", "c 1:5 rwm"})
}

func TestNativeMounts(t *testing.T) {
	mapped := Container{IDMapped: true}
	tests := []struct {
		name, mount string
		container   Container
		want        string
	}{
		{"as it is", "options: [ro, rbind]", Container{}, "/s->/d  ro,rbind"},
		{"all words", "type: bind, options: [noexec, ro, nosuid, nodev, rbind, rprivate, unknownopt]", Container{}, "/s->/d bind noexec,ro,nosuid,nodev,rbind,rprivate,unknownopt"},
		{"rbind, mapped", "options: [ro, rbind]", mapped, "/s->/d  ro,rbind,ridmap"},
		{"type bind, mapped", "type: bind, options: [ro]", mapped, "/s->/d bind ro,idmap"},
		{"already", "options: [bind, idmap]", mapped, "/s->/d  bind,idmap"},
		{"filesystem, mapped", "type: efivarfs", mapped, "/s->/d efivarfs "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := mustNative(t, tt.container, "{mounts: [{hostPath: /s, containerPath: /d, "+tt.mount+"}]}")
			wantEqual(t, "mounts", texts(n.Mounts), []string{tt.want})
		})
	}
}

func TestNativeMountOrder(t *testing.T) {
	m := func(source, destination string) string {
		return "{hostPath: /" + source + ", containerPath: " + destination + "}"
	}
	n := mustNative(t, Container{}, "{mounts: ["+strings.Join([]string{
		m("1", "/a/b/c"), m("2", "/x"), m("3", "/a/b/../y"), m("4", "/x/"), m("5", "/a/b/c"), m("6", "/w")}, ",")+"]}")
	wantEqual(t, "mounts", texts(n.Mounts), []string{"/2->/x  ", "/4->/x/  ", "/6->/w  ", "/3->/a/b/../y  ", "/5->/a/b/c  "})
}

func TestNativeRest(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"x.yaml": `
cdiVersion: 1.1.0
kind: v.example/dev
containerEdits:
  env: [PATH=/s, X=spec]
  additionalGids: [0, 44, 44]
  hooks:
  - {hookName: createContainer, path: /bin/one, args: [one, "1"], env: [A=1], timeout: 5}
devices:
- name: a
  containerEdits:
    env: [X=a]
    additionalGids: [44, 109]
    netDevices: [{hostInterfaceName: eth7, name: net0}]
    intelRdt: {closID: fast}
    hooks:
    - {hookName: createContainer, path: nope}
    - {hookName: poststop, path: /bin/three, timeout: -1}
- name: b
  containerEdits: {netDevices: [{hostInterfaceName: eth8, name: net0}]}
`})
	r := Registry{Dirs: []string{dir}}
	a := Origin{Device: "v.example/dev=a", SpecPath: filepath.Join(dir, "x.yaml")}
	n, err := mustResolve(t, r, a.Device, a.Device).Native(Container{})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "env", n.Env, []Env{{"PATH=/s", a}, {"X=a", a}})
	wantEqual(t, "groups", n.GIDs, []GID{{44, a}, {109, a}})
	wantEqual(t, "interfaces", n.NetDevices, []NetDevice{{"eth7", "net0", a}})
	if n.IntelRdt == nil || n.IntelRdt.ClosID != "fast" || n.IntelRdt.Origin != a {
		t.Errorf("intelRdt = %+v", n.IntelRdt)
	}
	var hooks []string
	for _, h := range n.Hooks {
		hooks = append(hooks, fmt.Sprintf("%s %s %v %v %v", h.Stage, h.Path, h.Args, h.Env, h.Timeout != nil))
	}
	wantEqual(t, "hooks", hooks, []string{"createContainer /bin/one [one 1] [A=1] true", "createContainer nope [] [] false", "poststop /bin/three [] [] true"})

	_, err = mustResolve(t, r, a.Device, "v.example/dev=b").Native(Container{})
	if err == nil || !strings.Contains(err.Error(), "net0") {
		t.Errorf("two interfaces of one name: %v", err)
	}
}

func TestNativeKeepsOrigins(t *testing.T) {
	dir := writeSpecs(t, map[string]string{
		"1.yaml": "cdiVersion: 0.6.0\nkind: v.example/one\ncontainerEdits: {mounts: [{hostPath: /1, containerPath: /m}]}\n" +
			"devices: [{name: a, containerEdits: {deviceNodes: [{path: /dev/null}]}}]\n",
		"2.yaml": "cdiVersion: 0.6.0\nkind: v.example/two\ncontainerEdits: {mounts: [{hostPath: /2, containerPath: /m}]}\n" +
			"devices: [{name: b, containerEdits: {deviceNodes: [{path: /dev/zero}, {path: /dev/null}]}}]\n",
	})
	one := Origin{"v.example/one=a", filepath.Join(dir, "1.yaml")}
	two := Origin{"v.example/two=b", filepath.Join(dir, "2.yaml")}
	n, err := mustResolve(t, Registry{Dirs: []string{dir}}, one.Device, two.Device, one.Device).Native(Container{})
	if err != nil {
		t.Fatal(err)
	}
	origins := map[string]Origin{}
	for _, node := range n.Nodes {
		origins[node.Path] = node.Origin
	}
	if origins["/dev/zero"] != two || origins["/dev/null"] != one || n.Mounts[0].Origin != two || n.Mounts[0].Source != "/2" {
		t.Errorf("origins %v, mounts %+v", origins, n.Mounts)
	}
}

func TestNativeOverlappingDevices(t *testing.T) {
	r := Registry{Dirs: []string{"testdata/fixtures"}}
	for _, names := range [][]string{
		{"amd.com/gpu=0", "amd.com/gpu=1"},
		{"amd.com/gpu=all", "amd.com/gpu=0", "amd.com/gpu=0"},
	} {
		n, err := mustResolve(t, r, names...).Native(Container{UID: 1000})
		if err != nil {
			t.Fatal(err)
		}
		paths, rules := map[string]int{}, map[string]int{}
		for _, node := range n.Nodes {
			paths[node.Path]++
		}
		for _, rule := range n.Rules {
			rules[rule.text()]++
		}
		for text, count := range paths {
			if count != 1 {
				t.Errorf("%q: node %s %d times", names, text, count)
			}
		}
		for text, count := range rules {
			if count != 1 {
				t.Errorf("%q: rule %s %d times", names, text, count)
			}
		}
		if paths["/dev/kfd"] != 1 || rules["c 234:0 rwm"] != 1 {
			t.Errorf("%q: nodes %v, rules %v", names, paths, rules)
		}
	}
}
