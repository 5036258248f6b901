package cgroups

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// disassembled prints a program by the library, one instruction a line.
func disassembled(t *testing.T, code []insn) string {
	t.Helper()
	list, err := asm.AppendInstructions(nil, bytes.NewReader(encode(code)), byteOrder(), "linux")
	must(t, err)
	var lines []string
	for at, i := range list {
		lines = append(lines, fmt.Sprintf("%d: %v", at, i))
	}
	return strings.Join(lines, "\n")
}

func TestPrelude(t *testing.T) {
	rules := []Rule{{'c', 10, 229, "rwm"}, {'b', 7, Any, "r"}, {'c', Any, Any, "mr"}}
	want := strings.TrimSpace(`
0: LdXMemW dst: r2 src: r1 off: 0 imm: 0
1: AndImm32 dst: r2 imm: 65535
2: LdXMemW dst: r3 src: r1 off: 0 imm: 0
3: RShImm32 dst: r3 imm: 16
4: LdXMemW dst: r4 src: r1 off: 4 imm: 0
5: LdXMemW dst: r5 src: r1 off: 8 imm: 0
6: JNEImm dst: r2 off: 4 imm: 2
7: JNEImm dst: r4 off: 3 imm: 10
8: JNEImm dst: r5 off: 2 imm: 229
9: MovImm32 dst: r0 imm: 1
10: Exit
11: JNEImm dst: r2 off: 6 imm: 1
12: MovReg32 dst: r0 src: r3
13: AndImm32 dst: r0 imm: 5
14: JNEImm dst: r0 off: 3 imm: 0
15: JNEImm dst: r4 off: 2 imm: 7
16: MovImm32 dst: r0 imm: 1
17: Exit
18: JNEImm dst: r2 off: 5 imm: 2
19: MovReg32 dst: r0 src: r3
20: AndImm32 dst: r0 imm: 4
21: JNEImm dst: r0 off: 2 imm: 0
22: MovImm32 dst: r0 imm: 1
23: Exit`)
	if got := disassembled(t, prelude(rules)); got != want {
		t.Errorf("prelude:\n%s\nwant\n%s", got, want)
	}
}

func TestInFrontKeepsTheRest(t *testing.T) {
	old := assembled(t, runcDefault())
	rules := []Rule{{'c', 10, 229, "rwm"}}
	code := inFront(rules, old)
	front := 1 + len(prelude(rules))
	if !bytes.Equal(encode(code[front:]), encode(old)) {
		t.Error("what stands behind the prelude changed")
	}
}

func TestReloadable(t *testing.T) {
	zext := insn{op: classALU | opMov | srcReg, regs: makeRegs(r2, r2), imm: 1}
	got, err := reloadable([]insn{zext})
	if err != nil || got[0].imm != 0 {
		t.Errorf("the kernel's zero-extension: %v, %v", got, err)
	}
	constant := assembled(t, asm.Instructions{asm.LoadImm(asm.R0, 1<<40, asm.DWord), asm.Return()})
	if got, err := reloadable(constant); err != nil || !bytes.Equal(encode(got), encode(constant)) {
		t.Errorf("a 64-bit constant: %v, %v", got, err)
	}
	for want, code := range map[error]asm.Instructions{
		errMaps:    {asm.LoadMapPtr(asm.R1, 3), asm.Return()},
		errCalls:   {asm.FnMapLookupElem.Call(), asm.Return()},
		errBlinded: {asm.Mov.Imm(asm.Register(ax), 3), asm.Return()},
	} {
		if _, err := reloadable(assembled(t, code)); !errors.Is(err, want) {
			t.Errorf("%v: error %v, want %v", code, err, want)
		}
	}
}
