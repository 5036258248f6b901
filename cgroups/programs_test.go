package cgroups

import (
	"encoding/binary"
	"strconv"

	"github.com/cilium/ebpf/asm"
)

func byteOrder() binary.ByteOrder {
	if lowNibbleFirst() {
		return binary.LittleEndian
	}
	return binary.BigEndian
}

// runcLike is the shape of runc's programs: an allow list over four registers.
func runcLike(rules ...Rule) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.And.Imm32(asm.R2, 0xffff),
		asm.LoadMem(asm.R3, asm.R1, 0, asm.Word),
		asm.RSh.Imm32(asm.R3, 16),
		asm.LoadMem(asm.R4, asm.R1, 4, asm.Word),
		asm.LoadMem(asm.R5, asm.R1, 8, asm.Word),
	}
	for at, r := range rules {
		code = append(code, runcBlock(r, "next-"+strconv.Itoa(at))...)
		code = append(code, asm.Mov.Imm32(asm.R0, 0).WithSymbol("next-"+strconv.Itoa(at)))
	}
	return append(code, asm.Mov.Imm32(asm.R0, 0), asm.Return())
}

func runcBlock(r Rule, next string) asm.Instructions {
	code := asm.Instructions{asm.JNE.Imm(asm.R2, deviceType(r.Type), next)}
	if a := accessOf(r.Access); a != accessAll {
		code = append(code,
			asm.Mov.Reg32(asm.R1, asm.R3),
			asm.And.Imm32(asm.R1, int32(a)),
			asm.JNE.Reg(asm.R1, asm.R3, next))
	}
	if r.Major != Any {
		code = append(code, asm.JNE.Imm(asm.R4, int32(r.Major), next))
	}
	if r.Minor != Any {
		code = append(code, asm.JNE.Imm(asm.R5, int32(r.Minor), next))
	}
	return append(code, asm.Mov.Imm32(asm.R0, 1), asm.Return())
}

// runcDefault allows what runc allows every container: /dev/null, zero, full, random,
// urandom, tty, the ptys, and to make any node.
func runcDefault() asm.Instructions {
	rules := []Rule{{'c', Any, Any, "m"}, {'b', Any, Any, "m"}, {'c', 136, Any, "rwm"}, {'c', 5, 2, "rwm"}, {'c', 5, 0, "rwm"}}
	for _, minor := range []int64{3, 5, 7, 8, 9} {
		rules = append(rules, Rule{'c', 1, minor, "rwm"})
	}
	return runcLike(rules...)
}
