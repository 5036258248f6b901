package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/internal/standin"
)

func TestCgroup(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{
		"a":   `{deviceNodes: [{path: /dev/a, type: c, major: 10, minor: 229}, {path: /dev/b, type: b, major: 7, minor: 7, permissions: r}, {path: /dev/none, type: c, major: 1, minor: 5, permissions: none}]}`,
		"bad": `{deviceNodes: [{path: /dev/a, type: c, major: 10, minor: 229}], hooks: [` + hookOf("createRuntime", "exit 1") + `]}`,
	})
	b.start()
	b.ownCgroup()
	before := b.everything()
	if _, err := b.direct("bad"); err == nil {
		t.Error("no error")
	}
	b.wantAsBefore(before)
	b.mustDirect("a")
	rules, err := os.ReadFile(b.cgroup + "/devices.list")
	if err != nil || string(rules) != "c 1:3 rwm\nc 10:229 rwm\nb 7:7 r\n" {
		t.Errorf("rules %q %v", rules, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(b.inside("/dev/a"), &st); err != nil || st.Rdev != unix.Mkdev(10, 229) {
		t.Errorf("%x %v", st.Rdev, err)
	}
	once := b.everything()
	if err := os.RemoveAll(b.settings.StateDir); err != nil {
		t.Fatal(err)
	}
	b.mustDirect("a")
	if now := b.everything(); strings.Join(now, "\n") != strings.Join(once, "\n") {
		t.Errorf("now\n%s\nonce\n%s", strings.Join(now, "\n"), strings.Join(once, "\n"))
	}
}

func TestCgroupThatIsShared(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/a, type: c, major: 10, minor: 229}]}`, "b": `{deviceNodes: [{path: /dev/null2, type: c, major: 1, minor: 3}]}`})
	b.start()
	b.ownCgroup()
	neighbour := standin.Start(t, standin.Options{})
	defer neighbour.End()
	b.writeCgroup("cgroup.procs", fmt.Sprint(neighbour.Pid))
	before := b.everything()
	_, err := b.direct("a")
	if !errors.Is(err, ErrSharedCgroup) {
		t.Errorf("%v", err)
	}
	wantText(t, err, b.cgroup, "v.example/dev=a")
	b.wantAsBefore(before)
	// What it allows anyway can be had.
	b.mustDirect("b")
	if rules, err := os.ReadFile(b.cgroup + "/devices.list"); err != nil || string(rules) != "c 1:3 rwm\n" {
		t.Errorf("rules %q %v", rules, err)
	}
}

func TestCgroupThatIsDeniedAbove(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/a, type: c, major: 10, minor: 229}]}`})
	b.start()
	b.ownCgroup("c 1:3 rwm")
	before := b.everything()
	_, err := b.direct("a")
	wantText(t, err, filepath.Dir(b.cgroup), "10:229", "v.example/dev=a")
	b.wantAsBefore(before)
}
