package cgroups

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Devices that every kernel has; runcDefault allows random, not kmsg and mem.
const (
	random = "c 1:8"
	kmsg   = "c 1:11"
	mem    = "c 1:1"
)

var kmsgRule = []Rule{{Type: 'c', Major: 1, Minor: 11, Access: "rwm"}}

func (b *bed) attach(cgroup string, prog *ebpf.Program, flags uint32) {
	b.t.Helper()
	dir := b.open(cgroup).dir
	must(b.t, link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(dir.Fd()), Program: prog, Attach: ebpf.AttachCGroupDevice, Flags: flags}))
}

func (b *bed) ids(cgroup string) []uint32 {
	b.t.Helper()
	now, err := syscalls{}.query(b.open(cgroup).dir, 0)
	must(b.t, err)
	return now.ids
}

func (b *bed) expect(want string, devices ...string) {
	b.t.Helper()
	if got := b.opens(b.cgroup, devices...); got != want {
		b.t.Errorf("opening %q in the cgroup: %s, want %s", devices, got, want)
	}
}

func TestAllowV2(t *testing.T) {
	for name, flags := range map[string]uint32{"no flags": 0, "override": unix.BPF_F_ALLOW_OVERRIDE, "multi": unix.BPF_F_ALLOW_MULTI} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, V2)
			b.attach(b.cgroup, load(t, runcDefault()), flags)
			before := b.ids(b.cgroup)
			b.expect("ok EPERM EPERM", random, kmsg, mem)

			c := b.open(b.cgroup)
			undo, err := c.Allow(kmsgRule, Options{})
			must(t, err)
			b.expect("ok ok EPERM", random, kmsg, mem)
			after := b.ids(b.cgroup)
			if len(after) != 1 || slices.Equal(before, after) {
				t.Errorf("programs %v became %v, want one other", before, after)
			}
			now, err := c.kernel.query(c.dir, 0)
			must(t, err)
			if now.flags != flags {
				t.Errorf("attach flags %#x, want %#x", now.flags, flags)
			}

			_, err = c.Allow(kmsgRule, Options{})
			must(t, err)
			if again := b.ids(b.cgroup); !slices.Equal(after, again) {
				t.Errorf("a second time changed programs %v to %v", after, again)
			}

			must(t, undo())
			must(t, undo())
			if back := b.ids(b.cgroup); !slices.Equal(before, back) {
				t.Errorf("undo left programs %v, want %v", back, before)
			}
			b.expect("ok EPERM EPERM", random, kmsg, mem)
		})
	}
}

// What runtimes and systemd attach is taken again by the kernel, with rules in front.
func TestRealPrograms(t *testing.T) {
	for name, before := range map[string]string{"runc": "ok EPERM EPERM", "crun": "ok EPERM EPERM", "systemd": "EPERM EPERM EPERM"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, V2)
			c := b.open(b.cgroup)
			prog, err := syscalls{}.load(dump(t, name))
			must(t, err)
			must(t, syscalls{}.attach(c.dir, prog, attachment{flags: unix.BPF_F_ALLOW_MULTI}))
			must(t, prog.Close())
			b.expect(before, random, kmsg, mem)
			_, err = c.Allow([]Rule{{'c', 1, 11, "r"}, {'c', 1, 8, "rw"}}, Options{})
			must(t, err)
			b.expect("ok ok EPERM", random, kmsg, mem)
		})
	}
}
