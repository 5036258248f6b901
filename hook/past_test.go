package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/record"
)

// journal leaves what a hook leaves that was killed half way, for a container that is
// gone: it ran before this boot.
func (b *bed) journal(r record.Record) {
	if dir, err := os.Open(r.Root); err == nil && r.RootBorn == "" {
		defer dir.Close()
		if r.RootBorn, err = oci.Born(dir); err != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Helper()
	dir, err := record.OpenDir(b.settings.StateDir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer dir.Close()
	e, err := dir.Lock(b.t.Context(), r.ID, r.Bundle)
	if err != nil {
		b.t.Fatal(err)
	}
	if r.BootID == "" {
		r.BootID = "another boot"
	}
	if err := errors.Join(e.Write(&r), e.Unlock()); err != nil {
		b.t.Fatal(err)
	}
}

// leave makes what an interrupted run would have made, and things that only seem so.
func (b *bed) leave() (missing []record.Missing) {
	b.t.Helper()
	for _, name := range []string{"opt/made", "opt/filled"} {
		b.mkdir("bundle/rootfs/" + name)
	}
	b.write("bundle/rootfs/opt/empty", "")
	b.write("bundle/rootfs/opt/file", "somebody's")
	b.write("bundle/rootfs/opt/filled/x", "somebody's")
	for name, minor := range map[string]uint32{"node": 3, "othernode": 5} {
		if err := unix.Mknod(filepath.Join(b.rootfs, "opt", name), unix.S_IFCHR|0o600, int(unix.Mkdev(1, minor))); err != nil {
			b.t.Fatal(err)
		}
	}
	return []record.Missing{
		{Path: "/opt"}, {Path: "/opt/made"}, {Path: "/opt/filled"}, {Path: "/opt/empty"}, {Path: "/opt/file"}, {Path: "/opt/never"},
		{Path: "/opt/node", Type: "c", Major: 1, Minor: 3}, {Path: "/opt/othernode", Type: "c", Major: 1, Minor: 3},
	}
}

func (b *bed) wantInRootfs(names string) {
	b.t.Helper()
	var left []string
	entries, err := os.ReadDir(filepath.Join(b.rootfs, "opt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if have := strings.Join(left, " "); have != names {
		b.t.Errorf("left in the rootfs: %s, want %s", have, names)
	}
}

const othersThings = "file filled othernode"

func TestSweepOfTheSameContainer(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/p, type: p}]}`})
	missing := b.leave()
	b.start()
	b.journal(record.Record{ID: "c1", Bundle: b.bundle, Root: b.rootfs, Missing: missing, Pid: b.process.Pid})
	b.mustDirect("a")
	b.wantInRootfs(othersThings)
	if r := b.record("c1", b.bundle); r == nil || r.BootID == "another boot" {
		t.Errorf("%+v", r)
	}
}

// A root that has been made anew at the same path has nothing of the old start in it.
func TestSweepSparesANewRoot(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/p, type: p}]}`})
	missing := b.leave()
	b.start()
	b.journal(record.Record{ID: "old", Bundle: "/gone", Root: b.rootfs, RootBorn: "1.000000001", Missing: missing})
	b.mustDirect("a")
	b.wantInRootfs("empty file filled made node othernode")
	if r := b.record("old", "/gone"); r != nil {
		t.Error("the record stays")
	}
}

// runc calls poststop for a container whose start was cut short: what the killed hook left
// goes before the journal that names it.
func TestPoststopOfACutStart(t *testing.T) {
	b := newBed(t)
	missing := b.leave()
	b.journal(record.Record{ID: "c1", Bundle: b.bundle, Root: b.rootfs, Missing: missing})
	state := fmt.Sprintf(`{"id":"c1","bundle":%q,"pid":0,"status":"stopped"}`, b.bundle)
	if _, err := Later(t.Context(), b.settings, "poststop", strings.NewReader(state)); err != nil {
		t.Fatal(err)
	}
	b.wantInRootfs(othersThings)
	if r := b.record("c1", b.bundle); r != nil {
		t.Errorf("the journal stays: %+v", r)
	}
}

func TestSweepOfOthers(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/p, type: p}]}`})
	missing := b.leave()
	b.start()
	b.journal(record.Record{ID: "old", Bundle: "/gone", Root: b.rootfs, Missing: missing})
	b.journal(record.Record{ID: "rootless", Bundle: "/gone", Root: b.dir + "/none", Missing: missing})
	b.journal(record.Record{ID: "finished", Bundle: "/gone", Root: b.rootfs, Done: true, Missing: []record.Missing{{Path: "/usr/lib"}}})
	b.mustDirect("a")
	b.wantInRootfs(othersThings)
	for _, id := range []string{"old", "rootless", "finished"} {
		if r := b.record(id, "/gone"); r != nil {
			t.Errorf("record of %s stays", id)
		}
	}
	if _, err := os.Stat(b.rootfs + "/usr/lib"); err != nil {
		t.Errorf("what a finished run made does not stay: %v", err)
	}
}

// The record of a process that lives is left alone, and so is what is mounted on in a
// root that containers share.
func TestSweepLeavesTheLiving(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{mounts: [{hostPath: $HOST/lib, containerPath: /opt/made, options: [bind]}]}`, "b": `{deviceNodes: [{path: /dev/p, type: p}]}`})
	missing := b.leave()
	b.start()
	b.mustDirect("a")
	first := b.process
	// The journal of a dead one names the place that the living one has mounted on.
	b.journal(record.Record{ID: "old", Bundle: "/gone", Root: b.rootfs, Missing: missing, Targets: []string{"/opt/made"}})
	b.start()
	_, err := Direct(t.Context(), b.settings, strings.NewReader(b.stateOf("c2", b.bundle, b.process.Pid, "b")))
	if err != nil {
		t.Fatal(err)
	}
	b.wantInRootfs("file filled made othernode")
	if r := b.record("c1", b.bundle); r == nil || r.Pid != first.Pid {
		t.Errorf("record of the living: %+v", r)
	}
	b.process = first
	if _, err := os.ReadFile(b.inside("/opt/made/libx.so")); err != nil {
		t.Errorf("the living one's mount is gone: %v", err)
	}
}

func TestRecordThatCannotBeReadIsAnError(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.start()
	b.mustDirect("a")
	names, err := filepath.Glob(b.settings.StateDir + "/*.json")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if err := os.WriteFile(names[0], []byte(`{"version":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = b.direct("a")
	wantText(t, err, names[0], "version 9 is newer")
}

func TestStateDirOfOthers(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.start()
	before := b.everything()
	if err := os.Mkdir(b.settings.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := b.direct("a")
	wantText(t, err, b.settings.StateDir, "0755")
	b.wantAsBefore(before)
}
