package cgroups

// With net.core.bpf_jit_harden=2 the kernel blinds each constant K of a program that it
// compiles, behind the verifier's back, and shows the result (or nothing, with
// kernel.kptr_restrict=2 or without CAP_SYSLOG):
//
//	op dst, K   =>   ax = K ^ random; ax ^= random; op dst, ax
//	dst = 0     =>   dst ^= dst
//
// Neither would load again: no program may name ax, nor read what it has not written.
// 4.7, bpf_jit_blind_insn in kernel/bpf/core.c

// unblind puts constants back. Each stays as long as it was, so that no jump moves.
func unblind(code []insn) []insn {
	out := make([]insn, 0, len(code))
	for at := 0; at < len(code); at++ {
		i := code[at]
		if at+2 < len(code) {
			if plain, ok := unblindOne(i, code[at+1], code[at+2]); ok {
				out = append(out, goOn(), goOn(), plain)
				at += 2
				continue
			}
		}
		out = append(out, zero(i))
	}
	return out
}

func unblindOne(move, xor, use insn) (insn, bool) {
	class := move.op & classMask
	switch {
	case class != classALU && class != classALU64,
		move.op != class|opMov || move.dst() != ax,
		xor.op != class|opXor || xor.dst() != ax,
		use.op&srcReg == 0 || use.src() != ax || use.dst() == ax,
		use.op&classMask < classALU, // loads and stores take no constant here
		isWide(use.op) != isWide(move.op):
		return insn{}, false
	}
	use.op &^= srcReg
	use.regs = makeRegs(use.dst(), 0)
	use.imm = move.imm ^ xor.imm
	return use, true
}

func isWide(op uint8) bool { return op&classMask == classALU64 || op&classMask == classJMP }

// zero turns the zero that reads itself back into one that does not.
func zero(i insn) insn {
	if i.op == classALU64|opXor|srcReg && i.dst() == i.src() {
		return insn{op: classALU64 | opMov, regs: makeRegs(i.dst(), 0)}
	}
	return i
}

// goOn is a jump to the next instruction; the verifier takes it out.
func goOn() insn { return insn{op: classJMP | jumpJA} }
