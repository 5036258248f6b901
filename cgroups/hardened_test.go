package cgroups

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

const (
	jitHarden = "/proc/sys/net/core/bpf_jit_harden"
	hideAll   = "/proc/sys/kernel/kptr_restrict"
)

// withSysctl sets a sysctl of the host for as short as do takes.
func withSysctl(t *testing.T, path, value string, do func()) {
	t.Helper()
	old, err := os.ReadFile(path)
	must(t, err)
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Skipf("%s cannot be set, so that no program is blinded: %v", path, err)
	}
	defer func() { must(t, os.WriteFile(path, []byte(strings.TrimSpace(string(old))), 0)) }()
	do()
}

// loadBlinded loads a program that the kernel hardens.
func loadBlinded(t *testing.T, code asm.Instructions) (prog *ebpf.Program) {
	t.Helper()
	if on, _ := os.ReadFile("/proc/sys/net/core/bpf_jit_enable"); strings.TrimSpace(string(on)) == "0" {
		t.Skip("the BPF JIT is off, so that no program is blinded")
	}
	withSysctl(t, jitHarden, "2", func() { prog = load(t, code) })
	return prog
}

func TestBlinded(t *testing.T) {
	b := newBed(t, V2)
	b.attach(b.cgroup, loadBlinded(t, runcDefault()), unix.BPF_F_ALLOW_MULTI)
	before := b.ids(b.cgroup)
	info, err := inspectID(syscalls{}, before[0])
	must(t, err)
	if len(info.code) <= len(assembled(t, runcDefault())) {
		t.Fatal("the kernel did not blind the program")
	}
	undo, err := b.open(b.cgroup).Allow(kmsgRule, Options{})
	must(t, err)
	b.expect("ok ok EPERM", random, kmsg, mem)
	must(t, undo())
	b.expectIDs(before)
}

// What is shown of a blinded program means what the program meant, constant for constant.
func TestUnblind(t *testing.T) {
	needRoot(t)
	code := append(asm.Instructions{
		asm.Mov.Imm(asm.R0, 0),
		asm.Mov.Imm(asm.R2, -7),
		asm.Add.Imm32(asm.R2, -1),
		asm.JSGT.Imm(asm.R2, -9, "go"),
		asm.JEq.Imm32(asm.R2, -8, "go"),
		asm.Return(),
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word).WithSymbol("go"),
	}, runcDefault()...)
	info, err := inspectID(syscalls{}, programID(t, loadBlinded(t, code)))
	must(t, err)
	var plain []insn
	for _, i := range unblind(info.code) {
		if i != goOn() {
			i.off = 0 // jumps are longer, by what was left in place
			plain = append(plain, i)
		}
	}
	shown, err := inspectID(syscalls{}, programID(t, load(t, code)))
	must(t, err)
	for at := range shown.code {
		shown.code[at].off = 0
	}
	loads := func(code []insn) (list []string) {
		for _, i := range code {
			list = append(list, i.String())
		}
		return list
	}
	if got, want := strings.Join(loads(plain), "\n"), strings.Join(loads(shown.code), "\n"); normalZero(got) != normalZero(want) {
		t.Errorf("unblinded:\n%s\nwant\n%s", got, want)
	}
}

// normalZero: the kernel takes a 64-bit zero for a 32-bit one.
func normalZero(text string) string {
	return strings.ReplaceAll(text, insn{op: classALU64 | opMov}.String(), insn{op: classALU | opMov}.String())
}

func programID(t *testing.T, prog *ebpf.Program) uint32 {
	t.Helper()
	info, err := prog.Info()
	must(t, err)
	id, ok := info.ID()
	if !ok {
		t.Fatal("no program id")
	}
	return uint32(id)
}

func TestHiddenByTheKernel(t *testing.T) {
	b := newBed(t, V2)
	b.attach(b.cgroup, loadBlinded(t, runcDefault()), unix.BPF_F_ALLOW_MULTI)
	before := b.ids(b.cgroup)
	withSysctl(t, hideAll, "2", func() {
		_, err := b.open(b.cgroup).Allow(kmsgRule, Options{})
		expectError(t, err, b.cgroup, "bpf_jit_harden", "precreate")
		if !errors.Is(err, ErrUnreadable) {
			t.Errorf("%v is not ErrUnreadable", err)
		}
		b.expectIDs(before)
	})
}

// hidden is a kernel that shows no instructions at all.
func hidden() kernel {
	return patched{onInspect: func(info programInfo) programInfo {
		info.code, info.hidden = nil, "hidden by the test"
		return info
	}}
}

func TestRebuild(t *testing.T) {
	b, c := multi(t, runcDefault())
	c.kernel = hidden()
	before := b.ids(b.cgroup)
	undo, err := c.Allow(kmsgRule, Options{Rebuild: runtimeList()})
	must(t, err)
	b.expect("ok ok EPERM", random, kmsg, mem)

	after := b.ids(b.cgroup)
	again, err := c.Allow(kmsgRule, Options{Rebuild: runtimeList()})
	must(t, err)
	must(t, again())
	b.expectIDs(after)

	_, err = c.Allow([]Rule{{'c', 1, 1, "r"}}, Options{Rebuild: runtimeList()})
	expectError(t, err, "already extended with other rules")
	b.expectIDs(after)

	must(t, undo())
	b.expectIDs(before)
}

func TestRebuildRefused(t *testing.T) {
	b, c := multi(t, runcDefault())
	c.kernel = hidden()
	before := b.ids(b.cgroup)
	part := append(runtimeList(), deny(Rule{'c', 1, 3, "w"}))
	for want, opts := range map[string]Options{"is not known": {}, "runtimes do in different ways": {Rebuild: part}} {
		_, err := c.Allow(kmsgRule, opts)
		expectError(t, err, b.cgroup, "hidden by the test", want)
		b.expectIDs(before)
	}
	// The config asks for the device already: then the program allows it.
	_, err := c.Allow(kmsgRule, Options{Rebuild: append(runtimeList(), allow(kmsgRule[0]))})
	must(t, err)
	b.expectIDs(before)

	b.attach(b.cgroup, load(t, runcDefault()), unix.BPF_F_ALLOW_MULTI)
	_, err = c.Allow(kmsgRule, Options{Rebuild: runtimeList()})
	expectError(t, err, "others are attached beside it")
}
