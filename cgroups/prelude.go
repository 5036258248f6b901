package cgroups

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

// inFront is a program that allows what the rules name, and all that the old one allows.
func inFront(rules []Rule, old []insn) []insn {
	return append(prelude(rules), old...)
}
