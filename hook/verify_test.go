package hook

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/mounts/nsthread"
)

// verified looks at the one container of a bed.
func (b *bed) verified() Verified {
	b.t.Helper()
	v, err := Verify(b.t.Context(), b.settings, "c1")
	if err != nil {
		b.t.Fatal(err)
	}
	if len(v.Containers) != 1 || len(v.Errors) > 0 {
		b.t.Fatalf("%+v", v)
	}
	return v.Containers[0]
}

func (b *bed) wantFaults(when string, want ...string) {
	b.t.Helper()
	c := b.verified()
	have := []string{}
	for _, f := range c.Faults {
		have = append(have, f.Fault+" "+f.String())
	}
	if len(c.Unchecked) > 0 || len(have) != len(want) || (c.State == StateDiffers) != (len(want) > 0) {
		b.t.Errorf("%s: state %s, unchecked %q, faults\n%s", when, c.State, c.Unchecked, strings.Join(have, "\n"))
		return
	}
	for i, w := range want {
		if !strings.Contains(have[i], w) {
			b.t.Errorf("%s: fault %q is without %q", when, have[i], w)
		}
	}
}

// within runs f in the container's mount namespace, where its root is "/".
func (b *bed) within(f func() error) {
	b.t.Helper()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", b.process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	defer ns.Close()
	thread, err := nsthread.Start(nsthread.Join(nsthread.Namespace{File: ns, Type: unix.CLONE_NEWNS}))
	if err != nil {
		b.t.Fatal(err)
	}
	defer thread.Close()
	if err := thread.Do(f); err != nil {
		b.t.Fatal(err)
	}
}

// startGiven starts a container, gives it a device and lets it change its root.
func startGiven(t *testing.T, edits string) *bed {
	t.Helper()
	b := newBed(t)
	b.spec(map[string]string{"a": edits})
	for _, name := range []string{"fifo", "fifo2"} {
		if err := unix.Mkfifo(b.dir+"/host/"+name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.mustDirect("a")
	if s := b.verified().State; s != StateStarting {
		t.Errorf("before it has a root of its own: %s", s)
	}
	b.process.Pivot()
	b.wantFaults("as given")
	return b
}

func TestVerifyFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bed) error // on the host
		within func() error       // in the container
		want   []string
	}{
		"node removed":   {within: func() error { return os.Remove("/dev/vendor/p") }, want: []string{"missing device v.example/dev=a: node /dev/vendor/p: gone"}},
		"its folder too": {within: func() error { return os.RemoveAll("/dev/vendor") }, want: []string{"missing", "missing"}},
		"another node": {
			within: func() error {
				return errors.Join(os.Remove("/dev/vendor/p"), unix.Mknod("/dev/vendor/p", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
			},
			want: []string{"other device v.example/dev=a: node /dev/vendor/p: it is c 1:3 now, given a FIFO"},
		},
		"a link to it": {
			within: func() error {
				return errors.Join(os.Rename("/dev/vendor/p", "/dev/q"), os.Symlink("/dev/q", "/dev/vendor/p"))
			},
			want: []string{"node /dev/vendor/p: it is a symbolic link now"},
		},
		"mode and owner":  {within: func() error { return errors.Join(os.Chmod("/dev/vendor/p", 0), os.Chown("/dev/vendor/p", 1, 1)) }},
		"unmounted":       {within: func() error { return unix.Unmount("/usr/lib/file", 0) }, want: []string{"missing device v.example/dev=a: mount /usr/lib/file: nothing is mounted there, given"}},
		"tmpfs unmounted": {within: func() error { return unix.Unmount("/scratch", 0) }, want: []string{"mount /scratch: nothing is mounted there, given tmpfs"}},
		"another mount": {
			within: func() error { return unix.Mount("tmpfs", "/opt/vendor/lib", "tmpfs", 0, "") },
			want:   []string{"other device v.example/dev=a: mount /opt/vendor/lib: another mount is there"},
		},
		"another tmpfs": {within: func() error { return unix.Mount("tmpfs", "/scratch", "tmpfs", 0, "") }, want: []string{"other"}},
		"target away":   {within: func() error { return errors.Join(unix.Unmount("/scratch", 0), os.Remove("/scratch")) }, want: []string{"missing"}},
		"moved behind a link": {
			within: func() error { return errors.Join(os.Rename("/opt", "/opt2"), os.Symlink("opt2", "/opt")) },
		},
		"behind a link that leads out": {
			within: func() error { return errors.Join(os.Rename("/opt", "/opt2"), os.Symlink("/../../../opt2", "/opt")) },
		},
		"source replaced": {
			change: func(b *bed) error {
				return errors.Join(os.WriteFile(b.dir+"/new", nil, 0o644), os.Rename(b.dir+"/new", b.dir+"/host/file"))
			},
			want: []string{"stale device v.example/dev=a: mount /usr/lib/file: the host's"},
		},
		"source gone": {
			change: func(b *bed) error { return os.Remove(b.dir + "/host/file") },
			want:   []string{"mount /usr/lib/file: the host has no"},
		},
		"host's node gone": {
			change: func(b *bed) error { return os.Remove(b.dir + "/host/fifo") },
			want:   []string{"stale device v.example/dev=a: node /dev/vendor/x: given a FIFO, the host has no"},
		},
		"host's node another": {
			change: func(b *bed) error {
				return errors.Join(os.Remove(b.dir+"/host/fifo"), unix.Mknod(b.dir+"/host/fifo", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
			},
			want: []string{"stale device v.example/dev=a: node /dev/vendor/x: given a FIFO, the host's"},
		},
		"two things": {
			within: func() error { return errors.Join(os.Remove("/dev/vendor/p"), unix.Unmount("/scratch", 0)) },
			want:   []string{"/scratch", "/dev/vendor/p"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := startGiven(t, strings.Replace(filesOnly, "deviceNodes: [", "deviceNodes: [{path: /dev/vendor/x, hostPath: $HOST/fifo}, ", 1))
			if c.change != nil {
				if err := c.change(b); err != nil {
					t.Fatal(err)
				}
			}
			if c.within != nil {
				b.within(c.within)
			}
			b.wantFaults(name, c.want...)
		})
	}
}

func TestVerifyRules(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{deviceNodes: [{path: /dev/one, type: c, major: 10, minor: 229}, {path: /dev/two, type: c, major: 10, minor: 237, permissions: r}]}`})
	b.start()
	b.ownCgroup()
	b.mustDirect("a")
	b.process.Pivot()
	b.wantFaults("as given")
	b.writeCgroup("devices.deny", "c 10:229 w")
	b.wantFaults("denied in part", "denied device v.example/dev=a: rule c 10:229 rwm: cgroup "+b.cgroup+" denies it")
	b.writeCgroup("devices.deny", "a")
	b.wantFaults("denied", "c 10:229 rwm", "c 10:237 r")
	b.writeCgroup("devices.allow", "a")
	b.wantFaults("everything allowed")
}

// A container that ends has lost its mounts and nodes: that is no fault.
func TestVerifyWhatEnds(t *testing.T) {
	b := startGiven(t, filesOnly)
	b.process.End()
	if c := b.verified(); c.State != StateGone || len(c.Faults)+len(c.Unchecked) > 0 {
		t.Errorf("%+v", c)
	}
}
