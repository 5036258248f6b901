package cgroups

import "slices"

// Types of struct bpf_cgroup_dev_ctx: access_type is access<<16 | type, then come major
// and minor, all u32.
const (
	deviceBlock = 1
	deviceChar  = 2

	offsetAccessType = 0
	offsetMajor      = 4
	offsetMinor      = 8
)

func deviceType(t byte) int32 {
	if t == 'b' {
		return deviceBlock
	}
	return deviceChar
}

// prelude is code that allows what the rules name and else goes on behind its end with r1
// untouched; r0 and r2 to r5 are anyone's there. Only what 4.15 knew is used.
func prelude(rules []Rule) []insn {
	code := []insn{
		{op: loadWord, regs: makeRegs(r2, r1), off: offsetAccessType},
		{op: classALU | opAnd, regs: makeRegs(r2, 0), imm: 0xffff},
		{op: loadWord, regs: makeRegs(r3, r1), off: offsetAccessType},
		{op: classALU | opRsh, regs: makeRegs(r3, 0), imm: 16},
		{op: loadWord, regs: makeRegs(r4, r1), off: offsetMajor},
		{op: loadWord, regs: makeRegs(r5, r1), off: offsetMinor},
	}
	for _, r := range rules {
		code = append(code, verdictBlock(r, 1)...)
	}
	return code
}

// verdictBlock ends the program with a verdict for what the rule covers in full.
func verdictBlock(r Rule, verdict int32) []insn {
	block := []insn{jumpIfNot(r2, deviceType(r.Type))}
	if other := accessAll &^ accessOf(r.Access); other != 0 {
		block = append(block,
			insn{op: classALU | opMov | srcReg, regs: makeRegs(r0, r3)},
			insn{op: classALU | opAnd, regs: makeRegs(r0, 0), imm: int32(other)},
			jumpIfNot(r0, 0))
	}
	if r.Major != Any {
		block = append(block, jumpIfNot(r4, int32(r.Major)))
	}
	if r.Minor != Any {
		block = append(block, jumpIfNot(r5, int32(r.Minor)))
	}
	block = append(block, returns(verdict)...)
	for at := range block {
		if block[at].op == classJMP|jumpNE {
			block[at].off = int16(len(block) - at - 1)
		}
	}
	return block
}

// jumpIfNot has its target set when the block's end is known.
func jumpIfNot(reg uint8, value int32) insn {
	return insn{op: classJMP | jumpNE, regs: makeRegs(reg, 0), imm: value}
}

func returns(verdict int32) []insn {
	return []insn{
		{op: classALU | opMov, regs: makeRegs(r0, 0), imm: verdict},
		{op: exit},
	}
}

// mark begins what we put in front of a program, so that it is known again: runc's own
// programs begin as our preludes do. It has no effect.
func mark() insn { return insn{op: classALU | opMov, regs: makeRegs(r0, 0), imm: 0x0c1cd1} }

// inFront is a program that allows what the rules name, and all that the old one allows.
func inFront(rules []Rule, old []insn) []insn {
	return append(append([]insn{mark()}, prelude(rules)...), old...)
}

// behind takes off all that was put in front: the rules of it, and the program behind.
func behind(code []insn) (rules []Rule, rest []insn) {
	start := append([]insn{mark()}, prelude(nil)...)
	for len(code) >= len(start) && slices.Equal(code[:len(start)], start) {
		code = code[len(start):]
		for {
			r, ok := ruleOf(code)
			if !ok {
				break
			}
			rules = append(rules, r)
			code = code[len(verdictBlock(r, 1)):]
		}
	}
	return rules, code
}

// ruleOf reads the rule of a block that begins code.
func ruleOf(code []insn) (Rule, bool) {
	if len(code) == 0 || code[0].op != classJMP|jumpNE || code[0].off < 0 || int(code[0].off) >= len(code) {
		return Rule{}, false
	}
	r := Rule{Type: 'c', Major: Any, Minor: Any, Access: "rwm"}
	if code[0].imm == deviceBlock {
		r.Type = 'b'
	}
	for _, i := range code[1 : 1+code[0].off] {
		switch {
		case i.op == classALU|opAnd:
			r.Access = (accessAll &^ access(i.imm)).String()
		case i.op == classJMP|jumpNE && i.dst() == r4:
			r.Major = int64(i.imm)
		case i.op == classJMP|jumpNE && i.dst() == r5:
			r.Minor = int64(i.imm)
		}
	}
	block := verdictBlock(r, 1)
	return r, len(code) >= len(block) && slices.Equal(code[:len(block)], block)
}
