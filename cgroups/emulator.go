package cgroups

import "encoding/binary"

// verdict is what a program says to one access.
type verdict int

const (
	unclear verdict = iota // not understood: maps, calls, arithmetic on a number left open
	denies
	allows
)

// request is one access as the kernel asks for it.
type request struct {
	kind         uint32
	access       access
	major, minor uint32
}

// origin says that a value is a device number, just as the kernel gave it.
type origin int

const (
	elsewhere origin = iota
	fromMajor
	fromMinor
)

type valueKind int

const (
	unset valueKind = iota
	scalar
	context // r1 or a copy
)

type value struct {
	kind valueKind
	n    uint64 // of a scalar
	from origin // of a scalar
}

// emulator runs device programs without the kernel, which cannot test-run them
// (ENOTSUPP). It is pure, and ends: steps are counted over all its runs.
type emulator struct {
	code  []insn
	steps int

	// open are the numbers that a rule leaves open. A program may only compare them for
	// being equal to a constant; each is reported.
	open     [3]bool // by origin
	compared func(from origin, with uint64)

	reg [registers]value
	ctx [12]byte
}

func (e *emulator) run(q request) verdict {
	e.reg = [registers]value{r1: {kind: context}}
	binary.NativeEndian.PutUint32(e.ctx[offsetAccessType:], uint32(q.access)<<16|q.kind)
	binary.NativeEndian.PutUint32(e.ctx[offsetMajor:], q.major)
	binary.NativeEndian.PutUint32(e.ctx[offsetMinor:], q.minor)
	for at := 0; at >= 0 && at < len(e.code); {
		if e.steps--; e.steps < 0 {
			return unclear
		}
		i := e.code[at]
		if i.op == exit {
			return e.result()
		}
		next, ok := e.step(at, i)
		if !ok {
			return unclear
		}
		at = next
	}
	return unclear
}

func (e *emulator) result() verdict {
	r := e.reg[r0]
	switch {
	case r.kind != scalar || e.open[r.from]:
		return unclear
	case uint32(r.n)&1 == 0:
		return denies
	}
	return allows
}

func (e *emulator) step(at int, i insn) (next int, ok bool) {
	if i.dst() >= registers || i.src() >= registers {
		return 0, false
	}
	switch i.op & classMask {
	case classLD:
		return at + 2, e.loadConstant(at, i)
	case classLDX:
		return at + 1, e.load(i)
	case classALU, classALU64:
		return at + 1, e.calculate(i)
	case classJMP, classJMP32:
		return e.jump(at, i)
	}
	return 0, false // stores: no known device program has any
}

func (e *emulator) loadConstant(at int, i insn) bool {
	if i.op != loadImm64 || i.src() != 0 || at+1 >= len(e.code) {
		return false
	}
	e.reg[i.dst()] = value{kind: scalar, n: uint64(uint32(i.imm)) | uint64(uint32(e.code[at+1].imm))<<32}
	return true
}

func (e *emulator) load(i insn) bool {
	at := int(i.off)
	if e.reg[i.src()].kind != context || at < 0 {
		return false
	}
	v := value{kind: scalar}
	switch {
	case i.op == loadWord && at%4 == 0 && at <= offsetMinor:
		v.n = uint64(binary.NativeEndian.Uint32(e.ctx[at:]))
		v.from = fieldAt(at)
	case i.op == loadHalf && at%2 == 0 && at < offsetMajor:
		v.n = uint64(binary.NativeEndian.Uint16(e.ctx[at:]))
	case i.op == loadByte && at < offsetMajor:
		v.n = uint64(e.ctx[at])
	default:
		return false
	}
	e.reg[i.dst()] = v
	return true
}

func fieldAt(offset int) origin {
	switch offset {
	case offsetMajor:
		return fromMajor
	case offsetMinor:
		return fromMinor
	}
	return elsewhere
}

// operand is the second one of arithmetic and jumps.
func (e *emulator) operand(i insn) value {
	if i.op&srcReg != 0 {
		return e.reg[i.src()]
	}
	return value{kind: scalar, n: uint64(int64(i.imm))}
}

func (e *emulator) calculate(i insn) bool {
	wide := i.op&classMask == classALU64
	op, src, dst := i.op&opMask, e.operand(i), &e.reg[i.dst()]
	if i.off != 0 || src.kind == unset {
		return false // signed forms; a register never written
	}
	if op == opMov {
		if src.kind == context && !wide {
			return false
		}
		*dst = src
		if !wide {
			dst.n = uint64(uint32(dst.n))
		}
		return true
	}
	if dst.kind != scalar || src.kind != scalar || e.open[dst.from] || e.open[src.from] {
		return false
	}
	n, ok := arithmetic(op, dst.n, src.n, wide)
	*dst = value{kind: scalar, n: n}
	return ok
}

func arithmetic(op uint8, a, b uint64, wide bool) (n uint64, ok bool) {
	bits := uint64(64)
	if !wide {
		a, b, bits = uint64(uint32(a)), uint64(uint32(b)), 32
	}
	switch op {
	case opAdd:
		n = a + b
	case opSub:
		n = a - b
	case opMul:
		n = a * b
	case opOr:
		n = a | b
	case opAnd:
		n = a & b
	case opXor:
		n = a ^ b
	case opLsh:
		n = a << (b & (bits - 1))
	case opRsh:
		n = a >> (b & (bits - 1))
	case opNeg:
		n = -a
	case opArsh:
		if n = uint64(int64(a) >> (b & 63)); !wide {
			n = uint64(int32(a) >> (b & 31))
		}
	default:
		return 0, false
	}
	if !wide {
		n = uint64(uint32(n))
	}
	return n, true
}

func (e *emulator) jump(at int, i insn) (next int, ok bool) {
	wide := i.op&classMask == classJMP
	op, a, b := i.op&opMask, e.reg[i.dst()], e.operand(i)
	if op == jumpJA {
		if wide {
			return at + 1 + int(i.off), i.op == classJMP
		}
		return at + 1 + int(i.imm), i.op == classJMP32
	}
	if op == jumpCall || op == jumpExit || a.kind != scalar || b.kind != scalar {
		return 0, false
	}
	if !e.report(op, a, b, wide) {
		return 0, false
	}
	taken, ok := compare(op, a.n, b.n, wide)
	if taken {
		return at + 1 + int(i.off), ok
	}
	return at + 1, ok
}

// report tells which constant an open number is compared with; false if the comparison
// is of another kind.
func (e *emulator) report(op uint8, a, b value, wide bool) bool {
	if e.open[b.from] {
		a, b = b, a
	}
	if !e.open[a.from] {
		return true
	}
	if e.open[b.from] || op != jumpEQ && op != jumpNE {
		return false
	}
	if !wide {
		b.n = uint64(uint32(b.n))
	}
	e.compared(a.from, b.n)
	return true
}

func compare(op uint8, a, b uint64, wide bool) (taken, ok bool) {
	sa, sb := int64(a), int64(b)
	if !wide {
		a, b = uint64(uint32(a)), uint64(uint32(b))
		sa, sb = int64(int32(a)), int64(int32(b))
	}
	switch op {
	case jumpEQ:
		return a == b, true
	case jumpNE:
		return a != b, true
	case jumpSet:
		return a&b != 0, true
	case jumpGT:
		return a > b, true
	case jumpGE:
		return a >= b, true
	case jumpLT:
		return a < b, true
	case jumpLE:
		return a <= b, true
	case jumpSGT:
		return sa > sb, true
	case jumpSGE:
		return sa >= sb, true
	case jumpSLT:
		return sa < sb, true
	case jumpSLE:
		return sa <= sb, true
	}
	return false, false
}
