package cgroups

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// patched is the kernel with some steps in other hands.
type patched struct {
	syscalls
	onAttach  func(dir, prog *os.File, how attachment) error
	onDetach  func(dir, prog *os.File) error
	onInspect func(programInfo) programInfo
}

func (p patched) attach(dir, prog *os.File, how attachment) error {
	if p.onAttach != nil {
		if err := p.onAttach(dir, prog, how); err != nil {
			return err
		}
	}
	return p.syscalls.attach(dir, prog, how)
}

func (p patched) detach(dir, prog *os.File) error {
	if p.onDetach != nil {
		if err := p.onDetach(dir, prog); err != nil {
			return err
		}
	}
	return p.syscalls.detach(dir, prog)
}

func (p patched) inspect(prog *os.File) (programInfo, error) {
	info, err := p.syscalls.inspect(prog)
	if p.onInspect != nil && err == nil {
		info = p.onInspect(info)
	}
	return info, err
}

// multi is a bed with programs attached as runtimes do, and its cgroup opened.
func multi(t *testing.T, programs ...asm.Instructions) (*bed, *Cgroup) {
	t.Helper()
	b := newBed(t, V2)
	for _, code := range programs {
		b.attach(b.cgroup, load(t, code), unix.BPF_F_ALLOW_MULTI)
	}
	return b, b.open(b.cgroup)
}

func (b *bed) expectIDs(want []uint32) {
	b.t.Helper()
	if got := b.ids(b.cgroup); !slices.Equal(got, want) {
		b.t.Errorf("programs %v, want %v", got, want)
	}
}

func expectError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %q", err, part)
		}
	}
}

func TestNothingAttached(t *testing.T) {
	b, c := multi(t)
	undo, err := c.Allow(kmsgRule, Options{})
	must(t, err)
	b.expectIDs([]uint32{})
	b.expect("ok ok", random, kmsg)
	must(t, undo())
}

// All must allow: each that does not is replaced, the others stay.
func TestSeveralPrograms(t *testing.T) {
	allowAll := asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}
	b, c := multi(t, runcDefault(), allowAll, runcDefault())
	before := b.ids(b.cgroup)
	undo, err := c.Allow(kmsgRule, Options{})
	must(t, err)
	b.expect("ok ok EPERM", random, kmsg, mem)
	after := b.ids(b.cgroup)
	if len(after) != 3 || after[1] != before[1] || after[0] == before[0] || after[2] == before[2] {
		t.Errorf("programs %v became %v", before, after)
	}
	must(t, undo())
	b.expectIDs(before)
}

func TestAlreadyAllowed(t *testing.T) {
	b, c := multi(t, runcDefault())
	before := b.ids(b.cgroup)
	undo, err := c.Allow([]Rule{{'c', 1, 8, "rw"}, {'b', 8, 0, "m"}, {'c', 136, Any, "rwm"}}, Options{})
	must(t, err)
	must(t, undo())
	b.expectIDs(before)
}

func TestPartOfTheAccess(t *testing.T) {
	b, c := multi(t, runcDefault())
	_, err := c.Allow([]Rule{{'c', 1, 11, "w"}}, Options{})
	must(t, err)
	b.expect("EPERM", kmsg) // for reading
	_, err = c.Allow([]Rule{{'c', 1, 11, "r"}}, Options{})
	must(t, err)
	b.expect("ok EPERM", kmsg, mem)
}

func TestHeldByLink(t *testing.T) {
	b, c := multi(t, runcDefault())
	held, err := link.AttachCgroup(link.CgroupOptions{Path: b.cgroup, Attach: ebpf.AttachCGroupDevice, Program: load(t, runcDefault())})
	must(t, err)
	defer held.Close()
	before := b.ids(b.cgroup)
	_, err = c.Allow(kmsgRule, Options{})
	expectError(t, err, b.cgroup, "BPF link", "holds it")
	b.expectIDs(before) // the first one too
}

func TestMapsAndCalls(t *testing.T) {
	table, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if os.Geteuid() == 0 {
		must(t, err)
		defer table.Close()
	}
	end := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	for want, code := range map[string]asm.Instructions{
		"it calls functions": append(asm.Instructions{asm.FnGetCurrentUidGid.Call()}, end...),
		"it uses maps":       nil,
	} {
		if code == nil && table != nil {
			code = append(asm.Instructions{asm.LoadMapPtr(asm.R2, table.FD())}, end...)
		}
		t.Run(want, func(t *testing.T) {
			b, c := multi(t, runcDefault(), code)
			before := b.ids(b.cgroup)
			_, err := c.Allow(kmsgRule, Options{})
			expectError(t, err, b.cgroup, "program ", want)
			b.expectIDs(before)
		})
	}
}

// Before 5.6 there is no BPF_F_REPLACE: the new one is attached before the old one goes.
func TestWithoutReplace(t *testing.T) {
	b, c := multi(t, runcDefault(), runcDefault())
	before := b.ids(b.cgroup)
	old := patched{onAttach: func(_, _ *os.File, how attachment) error {
		if how.replace != nil {
			return unix.EINVAL
		}
		return nil
	}}
	old.onDetach = func(*os.File, *os.File) error {
		if now := b.ids(b.cgroup); len(now) != 3 {
			t.Errorf("at a detach there are programs %v, want the new one beside the old ones", now)
		}
		return nil
	}
	c.kernel = old
	undo, err := c.Allow(kmsgRule, Options{})
	must(t, err)
	b.expect("ok ok EPERM", random, kmsg, mem)
	must(t, undo())
	after := b.ids(b.cgroup)
	slices.Sort(after)
	if !slices.Equal(after, before) {
		t.Errorf("undo left %v, want %v", after, before)
	}

	refused := 0
	old.onDetach = func(*os.File, *os.File) error {
		if refused++; refused == 1 {
			return unix.EPERM
		}
		return nil
	}
	c.kernel = old
	before = b.ids(b.cgroup)
	_, err = c.Allow(kmsgRule, Options{})
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("error %v, want EPERM", err)
	}
	b.expectIDs(before)
}

// A program that somebody replaces while we look is looked at again.
func TestChangedMeanwhile(t *testing.T) {
	b, c := multi(t, runcDefault())
	var theirs []*ebpf.Program
	change := func(dir, _ *os.File, _ attachment) error {
		if len(theirs) == 3 {
			return nil
		}
		id := b.ids(b.cgroup)[0]
		old, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		must(t, err)
		defer old.Close()
		next := load(t, runcDefault())
		theirs = append(theirs, next)
		return link.RawAttachProgram(link.RawAttachProgramOptions{Target: int(dir.Fd()), Program: next,
			Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI, Anchor: link.ReplaceProgram(old)})
	}
	c.kernel = patched{onAttach: change}
	undo, err := c.Allow(kmsgRule, Options{})
	must(t, err)
	b.expect("ok ok EPERM", random, kmsg, mem)
	must(t, undo())
	info, err := theirs[2].Info()
	must(t, err)
	last, _ := info.ID()
	b.expectIDs([]uint32{uint32(last)})

	c.kernel = patched{onAttach: func(*os.File, *os.File, attachment) error { return unix.ENOENT }}
	_, err = c.Allow(kmsgRule, Options{})
	expectError(t, err, b.cgroup, "keep changing")
	b.expectIDs([]uint32{uint32(last)})
}

// Where a plain attach replaces whatever is there, the revision guards (6.17).
func TestChangedMeanwhileWithoutFlags(t *testing.T) {
	b := newBed(t, V2)
	b.attach(b.cgroup, load(t, runcDefault()), 0)
	c := b.open(b.cgroup)
	now, err := c.kernel.query(c.dir, 0)
	must(t, err)
	if now.revision == 0 {
		t.Skip("this kernel has no revisions of attached programs (6.17)")
	}
	narrow := load(t, runcLike())
	changed := false
	c.kernel = patched{onAttach: func(*os.File, *os.File, attachment) error {
		if !changed {
			changed = true
			b.attach(b.cgroup, narrow, 0)
		}
		return nil
	}}
	undo, err := c.Allow(kmsgRule, Options{})
	must(t, err)
	b.expect("EPERM ok", random, kmsg)
	must(t, undo())
	b.expect("EPERM EPERM", random, kmsg)
}

// Undo leaves alone what another one put in place of ours.
func TestUndoAfterOthers(t *testing.T) {
	b, c := multi(t, runcDefault())
	undo, err := c.Allow(kmsgRule, Options{})
	must(t, err)
	ours, err := ebpf.NewProgramFromID(ebpf.ProgramID(b.ids(b.cgroup)[0]))
	must(t, err)
	defer ours.Close()
	must(t, link.RawAttachProgram(link.RawAttachProgramOptions{Target: int(c.dir.Fd()), Program: load(t, runcDefault()),
		Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI, Anchor: link.ReplaceProgram(ours)}))
	theirs := b.ids(b.cgroup)
	must(t, undo())
	b.expectIDs(theirs)
}

func TestUndoAfterTheCgroupIsGone(t *testing.T) {
	b, c := multi(t, runcDefault())
	undo, err := c.Allow(kmsgRule, Options{})
	must(t, err)
	must(t, c.Close())
	must(t, os.Remove(b.cgroup))
	must(t, undo())
}

// The third of three cannot be replaced: the two before are as they were.
func TestFailureLeavesTheOldOnes(t *testing.T) {
	b, c := multi(t, runcDefault(), runcDefault(), runcDefault())
	before := b.ids(b.cgroup)
	attaches := 0
	c.kernel = patched{onAttach: func(*os.File, *os.File, attachment) error {
		if attaches++; attaches == 3 {
			return unix.EPERM
		}
		return nil
	}}
	_, err := c.Allow(kmsgRule, Options{})
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("error %v, want EPERM", err)
	}
	b.expectIDs(before)
}
