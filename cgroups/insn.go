package cgroups

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// insn is one slot of a BPF program, as the kernel has it. Programs are kept in this raw
// form, not disassembled and assembled again: what stands behind a prelude stays as it
// was, bit for bit, since jumps are relative.
type insn struct {
	op   uint8
	regs uint8
	off  int16
	imm  int32
}

const insnSize = 8

// Opcode parts, from linux/bpf_common.h and linux/bpf.h.
const (
	classMask  = 0x07
	classLD    = 0x00
	classLDX   = 0x01
	classALU   = 0x04
	classJMP   = 0x05
	classJMP32 = 0x06
	classALU64 = 0x07

	opMask   = 0xf0
	srcReg   = 0x08
	opAdd    = 0x00
	opSub    = 0x10
	opMul    = 0x20
	opOr     = 0x40
	opAnd    = 0x50
	opLsh    = 0x60
	opRsh    = 0x70
	opNeg    = 0x80
	opXor    = 0xa0
	opMov    = 0xb0
	opArsh   = 0xc0
	jumpJA   = 0x00
	jumpEQ   = 0x10
	jumpGT   = 0x20
	jumpGE   = 0x30
	jumpSet  = 0x40
	jumpNE   = 0x50
	jumpSGT  = 0x60
	jumpSGE  = 0x70
	jumpCall = 0x80
	jumpExit = 0x90
	jumpLT   = 0xa0
	jumpLE   = 0xb0
	jumpSLT  = 0xc0
	jumpSLE  = 0xd0

	loadWord  = classLDX | 0x60
	loadHalf  = classLDX | 0x68
	loadByte  = classLDX | 0x70
	loadImm64 = classLD | 0x18 // two slots
	call      = classJMP | jumpCall
	exit      = classJMP | jumpExit
)

// Register ax holds blinded constants; no program may name it.
const (
	r0 = iota
	r1
	r2
	r3
	r4
	r5
	ax        = 11
	registers = 12
)

// The two registers are bit fields of one byte: their order is that of the machine.
func lowNibbleFirst() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

func makeRegs(dst, src uint8) uint8 {
	if lowNibbleFirst() {
		return src<<4 | dst
	}
	return dst<<4 | src
}

func (i insn) dst() uint8 {
	if lowNibbleFirst() {
		return i.regs & 0xf
	}
	return i.regs >> 4
}

func (i insn) src() uint8 {
	if lowNibbleFirst() {
		return i.regs >> 4
	}
	return i.regs & 0xf
}

func decode(raw []byte) []insn {
	code := make([]insn, 0, len(raw)/insnSize)
	for ; len(raw) >= insnSize; raw = raw[insnSize:] {
		code = append(code, insn{
			op: raw[0], regs: raw[1],
			off: int16(binary.NativeEndian.Uint16(raw[2:])),
			imm: int32(binary.NativeEndian.Uint32(raw[4:])),
		})
	}
	return code
}

func encode(code []insn) []byte {
	raw := make([]byte, 0, len(code)*insnSize)
	for _, i := range code {
		raw = append(raw, i.op, i.regs)
		raw = binary.NativeEndian.AppendUint16(raw, uint16(i.off))
		raw = binary.NativeEndian.AppendUint32(raw, uint32(i.imm))
	}
	return raw
}

var (
	errBlinded = errors.New("its constants are blinded")
	errMaps    = errors.New("it uses maps")
	errCalls   = errors.New("it calls functions")
)

// reloadable turns what the kernel shows of a program into what it would take again, or
// says what cannot be had back: the map and function addresses that the kernel has put
// in, and blinded constants.
func reloadable(code []insn) ([]insn, error) {
	code = unblind(code)
	out := make([]insn, 0, len(code))
	for at := 0; at < len(code); at++ {
		i := code[at]
		switch {
		case i.dst() == ax || i.src() == ax:
			return nil, errBlinded
		case i.op == call:
			return nil, errCalls
		case i.op == loadImm64 && i.src() != 0:
			return nil, errMaps
		case i.op == loadImm64 && at+1 < len(code):
			out = append(out, i)
			at++
			i = code[at]
		case i.op == classALU|opMov|srcReg && i.imm == 1:
			// A zero-extension that the kernel adds for some machines: 1 marks it,
			// and is refused from others.
			i.imm = 0
		}
		out = append(out, i)
	}
	return out, nil
}

func (i insn) String() string {
	return fmt.Sprintf("%#02x r%d r%d %d %d", i.op, i.dst(), i.src(), i.off, i.imm)
}
