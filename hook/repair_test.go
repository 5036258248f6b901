package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/policy"
	"oci-cdi-hook/hook/record"
)

// repaired repairs the one container of a bed.
func (b *bed) repaired() Repaired {
	b.t.Helper()
	r, err := Repair(b.t.Context(), b.settings, "c1")
	if err != nil {
		b.t.Fatal(err)
	}
	if len(r.Containers) != 1 || len(r.Errors) > 0 {
		b.t.Fatalf("%+v", r)
	}
	return r.Containers[0]
}

// wantRepaired repairs, and again with nothing left to do.
func (b *bed) wantRepaired(mended int) {
	b.t.Helper()
	c := b.repaired()
	if c.State != StateRepaired || len(c.Mended) != mended || len(c.Failed)+len(c.Warnings)+len(c.Faults) > 0 {
		b.t.Fatalf("%+v", c)
	}
	b.wantFaults("repaired")
	before := b.hostMounts()
	if c := b.repaired(); c.State != StateAsGiven || len(c.Mended)+len(c.Failed) > 0 {
		b.t.Errorf("twice: %+v", c)
	}
	if now := b.hostMounts(); !slices.Equal(now, before) {
		b.t.Errorf("mounts of the host: %q, before %q", now, before)
	}
}

// mountsIn counts the container's mounts on a place.
func (b *bed) mountsIn(target string) int {
	b.t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", b.process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Count(string(table), " "+target+" ")
}

func TestRepairFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bed) error // on the host
		within func() error       // in the container
		mended int
		left   string // why something is not mended
	}{
		"node removed":    {within: func() error { return os.Remove("/dev/vendor/p") }, mended: 1},
		"its folder too":  {within: func() error { return os.RemoveAll("/dev/vendor") }, mended: 2},
		"unmounted":       {within: func() error { return unix.Unmount("/usr/lib/file", 0) }, mended: 1},
		"tmpfs unmounted": {within: func() error { return unix.Unmount("/scratch", 0) }, mended: 1},
		"all of it": {
			within: func() error {
				return errors.Join(os.RemoveAll("/dev/vendor"), unix.Unmount("/scratch", 0), unix.Unmount("/usr/lib/file", 0), unix.Unmount("/opt/vendor/lib", 0))
			},
			mended: 5,
		},
		"target away": {within: func() error { return errors.Join(unix.Unmount("/scratch", 0), os.Remove("/scratch")) }, mended: 1},
		"another node": {
			within: func() error {
				return errors.Join(os.Remove("/dev/vendor/p"), unix.Mknod("/dev/vendor/p", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
			},
			left: "node /dev/vendor/p: it is c 1:3 now",
		},
		"another mount": {within: func() error { return unix.Mount("tmpfs", "/opt/vendor/lib", "tmpfs", 0, "") }, left: "left as it is"},
		"a link in the place": {
			within: func() error {
				return errors.Join(os.Remove("/dev/vendor/p"), os.Symlink("/etc/passwd", "/dev/vendor/p"))
			},
			left: "symbolic link",
		},
		"source replaced": {
			change: func(b *bed) error {
				return errors.Join(os.WriteFile(b.dir+"/new", []byte("new"), 0o644), os.Rename(b.dir+"/new", b.dir+"/host/file"))
			},
			mended: 1,
		},
		"source another kind": {
			change: func(b *bed) error {
				return errors.Join(os.Remove(b.dir+"/host/file"), os.Mkdir(b.dir+"/host/file", 0o755))
			},
			left: "the host's is a directory now",
		},
		"source gone":      {change: func(b *bed) error { return os.Remove(b.dir + "/host/file") }, left: "no such file"},
		"host's node gone": {change: func(b *bed) error { return os.Remove(b.dir + "/host/fifo") }, left: "the host has no"},
		"one of two": {
			change: func(b *bed) error { return os.Remove(b.dir + "/host/file") },
			within: func() error { return os.Remove("/dev/vendor/p") },
			mended: 1, left: "no such file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := startGiven(t, strings.Replace(filesOnly, "deviceNodes: [", "deviceNodes: [{path: /dev/vendor/x, hostPath: $HOST/fifo}, ", 1))
			if c.within != nil {
				b.within(c.within)
			}
			if c.change != nil {
				if err := c.change(b); err != nil {
					t.Fatal(err)
				}
			}
			if c.left == "" {
				b.wantRepaired(c.mended)
				for _, target := range []string{"/usr/lib/file", "/opt/vendor/lib", "/scratch"} {
					if n := b.mountsIn(target); n != 1 {
						t.Errorf("%d mounts on %s", n, target)
					}
				}
				return
			}
			for range 2 {
				r := b.repaired()
				if r.State != StateDiffers || len(r.Mended) != c.mended || len(r.Failed) != 1 || !strings.Contains(r.Failed[0], c.left) || !strings.Contains(r.Failed[0], "v.example/dev=a") {
					t.Errorf("%+v", r)
				}
				c.mended = 0
			}
		})
	}
}

// After a driver was loaded again its device has another number: the node and the rule follow, and the old number is denied.
func TestRepairNumbers(t *testing.T) {
	b := newBed(t)
	host := b.dir + "/host/node"
	number := func(minor uint32) {
		t.Helper()
		_ = os.Remove(host)
		if err := unix.Mknod(host, unix.S_IFCHR|0o600, int(unix.Mkdev(10, minor))); err != nil {
			t.Fatal(err)
		}
	}
	number(229)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/one, hostPath: $HOST/node}, {path: /dev/two, hostPath: $HOST/node, permissions: rw}]}`})
	b.start()
	b.ownCgroup()
	b.writeCgroup("devices.deny", "a")
	b.mustDirect("a")
	b.pivot()
	b.wantFaults("as given")
	number(237)
	b.wantFaults("renumbered", "stale", "stale")
	b.wantRepaired(2)
	for _, name := range []string{"/dev/one", "/dev/two"} {
		var st unix.Stat_t
		if err := unix.Lstat(b.inside(name), &st); err != nil || st.Rdev != unix.Mkdev(10, 237) {
			t.Errorf("%s: %x %v", name, st.Rdev, err)
		}
	}
	list, err := os.ReadFile(b.cgroup + "/devices.list")
	if err != nil || strings.Contains(string(list), "10:229") || !strings.Contains(string(list), "c 10:237 rwm") {
		t.Errorf("%s %v", list, err)
	}
	out, err := b.settings.detach(t.Context(), b.reference(), names("a"))
	if err != nil || len(out.Warnings) > 0 {
		t.Errorf("%+v %v", out, err)
	}
}

func TestRepairRules(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/one, type: c, major: 10, minor: 229}, {path: /dev/two, type: c, major: 10, minor: 237, permissions: r}]}`})
	b.start()
	b.ownCgroup()
	b.mustDirect("a")
	b.process.Pivot()
	b.writeCgroup("devices.deny", "a")
	b.writeCgroup("devices.allow", "c 1:3 rwm")
	b.wantRepaired(2)
	list, err := os.ReadFile(b.cgroup + "/devices.list")
	if want := []string{"c 1:3 rwm", "c 10:229 rwm", "c 10:237 r"}; err != nil || !slices.Equal(strings.Split(strings.TrimSpace(string(list)), "\n"), want) {
		t.Errorf("%q %v", list, err)
	}
}

// A rule that denies a device holds for a repair too.
func TestRepairKeepsToPolicy(t *testing.T) {
	b := startGiven(t, filesOnly)
	b.within(func() error { return os.Remove("/dev/vendor/p") })
	b.settings.Policy.Deny = []policy.Rule{{Devices: []string{"v.example/dev=*"}}}
	if c := b.repaired(); c.State != StateDiffers || len(c.Failed) != 1 || !strings.Contains(c.Failed[0], "a [[deny]] wins") {
		t.Errorf("%+v", c)
	}
	b.settings.Policy.Deny = nil
	b.wantRepaired(1)
}

// What was cut short half-way is taken up: an attachment, a repair, a detachment.
func TestRepairWhatWasCutShort(t *testing.T) {
	change := func(b *bed, f func(r *record.Record)) {
		t.Helper()
		dir, err := record.OpenExisting(b.settings.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		e, err := dir.Lock(t.Context(), "c1", b.bundle)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Unlock() }()
		r, err := e.Read()
		if err != nil {
			t.Fatal(err)
		}
		f(r)
		if err := e.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("giving", func(t *testing.T) {
		b := startGiven(t, filesOnly)
		change(b, func(r *record.Record) { r.Done = false })
		b.within(func() error { return os.Remove("/dev/vendor/p") })
		b.wantRepaired(1)
		change(b, func(r *record.Record) { r.Done = false })
		b.wantRepaired(0)
	})
	t.Run("taking", func(t *testing.T) {
		b := runs(t, map[string]string{"a": filesOnly, "b": `{deviceNodes: [{path: /dev/q, type: p}]}`})
		b.mustAttach("a")
		b.mustAttach("b")
		change(b, func(r *record.Record) { r.Leaving = names("a") })
		b.within(func() error { return errors.Join(os.Remove("/dev/vendor/p"), os.Remove("/dev/q")) })
		b.wantRepaired(1)
		if r := b.record("c1", b.bundle); !slices.Equal(r.Devices, names("b")) || len(r.Leaving) > 0 {
			t.Errorf("%+v", r)
		}
		if n := b.mountsIn("/opt/vendor/lib"); n != 0 {
			t.Errorf("%d mounts of what was taken away", n)
		}
	})
}

func TestRepairWhatEnds(t *testing.T) {
	b := startGiven(t, filesOnly)
	b.within(func() error { return os.Remove("/dev/vendor/p") })
	b.process.End()
	if c := b.repaired(); c.State != StateGone || len(c.Failed)+len(c.Mended) > 0 {
		t.Errorf("%+v", c)
	}
	r, err := Repair(t.Context(), b.settings, "")
	if err != nil || r.Err() != nil {
		t.Errorf("%+v %v", r, err)
	}
}

// One that has not changed its root yet is its hook's business.
func TestRepairWhatStarts(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.start()
	b.mustDirect("a")
	before := b.everything()
	if c := b.repaired(); c.State != StateStarting {
		t.Errorf("%+v", c)
	}
	if now := b.everything(); !slices.Equal(now, before) {
		t.Errorf("now\n%s\nbefore\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
}

func TestRepairEnds(t *testing.T) {
	b := startGiven(t, filesOnly)
	b.within(func() error { return os.Remove("/dev/vendor/p") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := Repair(ctx, b.settings, "c1")
	if err != nil || len(r.Containers) != 1 || r.Containers[0].State != StateDiffers || len(r.Containers[0].Failed) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	b.wantRepaired(1)
}
