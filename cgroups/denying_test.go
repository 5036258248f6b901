package cgroups

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

func TestDenyingV2(t *testing.T) {
	b := newBed(t, V2)
	rules := append(slices.Clone(kmsgRule), Rule{'c', 1, 8, "r"})
	b.attach(b.parent, load(t, runcDefault()), unix.BPF_F_ALLOW_MULTI)
	b.attach(b.cgroup, load(t, runcLike()), unix.BPF_F_ALLOW_MULTI)
	c := b.open(b.cgroup)
	denials, err := c.Denying(rules)
	must(t, err)
	if want := []Denial{{b.parent, kmsgRule[0], true}}; !slices.Equal(denials, want) {
		t.Errorf("%v, want %v", denials, want)
	}
	for rule, want := range map[Rule]bool{rules[0]: false, {'c', 1, 8, "m"}: false} {
		if allowed, sure, err := c.Allows([]Rule{rule}); allowed != want || !sure || err != nil {
			t.Errorf("%s: %v, %v, %v, want %v", rule, allowed, sure, err, want)
		}
	}
	// The parent itself: nothing above it denies, and it allows one of the two.
	up := b.open(b.parent)
	if denials, err := up.Denying(rules); err != nil || len(denials) > 0 {
		t.Errorf("%v, %v", denials, err)
	}
	if allowed, sure, err := up.Allows(rules[1:]); !allowed || !sure || err != nil {
		t.Errorf("Allows: %v, %v, %v", allowed, sure, err)
	}
}

// A program that may be overridden does not count below a cgroup with one of its own.
func TestOverriddenDoesNotDeny(t *testing.T) {
	b := newBed(t, V2)
	b.attach(b.parent, load(t, runcDefault()), unix.BPF_F_ALLOW_OVERRIDE)
	c := b.open(b.cgroup)
	denials, err := c.Denying(kmsgRule)
	must(t, err)
	if len(denials) != 1 {
		t.Errorf("%v, want the parent", denials)
	}
	b.expect("EPERM", kmsg)
	b.attach(b.cgroup, load(t, asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}), unix.BPF_F_ALLOW_OVERRIDE)
	denials, err = c.Denying(kmsgRule)
	must(t, err)
	if len(denials) != 0 {
		t.Errorf("%v, want none", denials)
	}
	b.expect("ok", kmsg)
}

// The same program at two cgroups denies at both.
func TestOneProgramTwice(t *testing.T) {
	b := newBed(t, V2)
	prog := load(t, runcDefault())
	b.attach(b.parent, prog, unix.BPF_F_ALLOW_MULTI)
	b.attach(b.cgroup, prog, unix.BPF_F_ALLOW_MULTI)
	denials, err := b.open(b.cgroup).Denying(kmsgRule)
	must(t, err)
	if want := []Denial{{b.parent, kmsgRule[0], true}}; !slices.Equal(denials, want) {
		t.Errorf("%v, want %v", denials, want)
	}
}

func TestDenyingUnclear(t *testing.T) {
	b := newBed(t, V2)
	calls := asm.Instructions{asm.FnGetCurrentUidGid.Call(), asm.Mov.Imm(asm.R0, 1), asm.Return()}
	b.attach(b.parent, load(t, calls), unix.BPF_F_ALLOW_MULTI)
	denials, err := b.open(b.cgroup).Denying(kmsgRule)
	must(t, err)
	if want := []Denial{{b.parent, kmsgRule[0], false}}; !slices.Equal(denials, want) {
		t.Errorf("%v, want %v", denials, want)
	}
	if text := denials[0].String(); !strings.Contains(text, "may deny") {
		t.Errorf("%q does not say that it is not sure", text)
	}
	if allowed, sure, err := b.open(b.parent).Allows(kmsgRule); allowed || sure || err != nil {
		t.Errorf("Allows: %v, %v, %v", allowed, sure, err)
	}
}

// Below a mount of a subtree, programs above it are seen, their cgroup is not.
func TestDenyingOutsideTheMount(t *testing.T) {
	b := newBed(t, V2)
	b.attach(b.parent, load(t, runcDefault()), unix.BPF_F_ALLOW_MULTI)
	b.mkdir(b.cgroup + "/inner")
	view := t.TempDir()
	must(t, unix.Mount(b.cgroup, view, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(view, 0)) })
	denials, err := b.open(view + "/inner").Denying(kmsgRule)
	must(t, err)
	if len(denials) != 1 || !strings.Contains(denials[0].Cgroup, "outside the mount") || !denials[0].Sure {
		t.Errorf("%v, want one outside the mount", denials)
	}
}

func TestOpen(t *testing.T) {
	_, err := Open(t.TempDir())
	expectError(t, err, "not on a cgroup file system")
	_, err = Open("/proc/self/no such")
	expectError(t, err, "no such file")

	b := newBed(t, V2)
	c := b.open(b.cgroup)
	if c.Version() != V2 || c.Path() != b.cgroup {
		t.Errorf("%s %s", c.Version(), c.Path())
	}
	if pids, err := c.Procs(); err != nil || len(pids) != 0 {
		t.Errorf("processes %v, %v", pids, err)
	}
	root := b.open(b.mount)
	if pids, err := root.Procs(); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("%v, %v: no %d", pids, err, os.Getpid())
	}
	if up, err := root.parent(); up != nil || err != nil {
		t.Errorf("above the mount: %v, %v", up, err)
	}
	_, err = c.Allow([]Rule{{'c', 1, 3, "x"}}, Options{})
	expectError(t, err, "access \"x\"")
}

// A mount that is nowhere attached has a root that is its own parent.
func TestAncestorsOfADetachedMount(t *testing.T) {
	b := newBed(t, V2)
	fd, err := unix.OpenTree(unix.AT_FDCWD, b.mount, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(t, err)
	dir := os.NewFile(uintptr(fd), "detached")
	inside, err := openatAs(dir, strings.TrimPrefix(b.parent, b.mount+"/"), "detached/inside", unix.O_RDONLY|unix.O_DIRECTORY)
	must(t, err)
	must(t, dir.Close())
	c, err := FromDir(inside)
	must(t, err)
	defer c.Close()
	above, err := c.ancestors()
	must(t, err)
	defer closeAll(above)
	if len(above) != 1 || above[0].Path() != "detached" {
		t.Errorf("%d ancestors, want the root alone", len(above))
	}
}
