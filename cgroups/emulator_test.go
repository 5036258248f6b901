package cgroups

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// dump is what the kernel showed of a real program; testdata/programs/README says whose.
func dump(t testing.TB, name string) []insn {
	t.Helper()
	text, err := os.ReadFile("testdata/programs/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return decode(raw)
}

func TestJudgeRealPrograms(t *testing.T) {
	for _, c := range []struct {
		program string
		rule    Rule
		want    verdict
	}{
		{"runc", Rule{'c', 1, 3, "rwm"}, allows},
		{"runc", Rule{'c', 1, 11, "m"}, allows},
		{"runc", Rule{'c', 1, 11, "r"}, denies},
		{"runc", Rule{'c', 1, 11, "rwm"}, denies},
		{"runc", Rule{'c', 10, 229, "rwm"}, denies},
		{"runc", Rule{'c', 10, 200, "rwm"}, allows},
		{"runc", Rule{'c', 136, Any, "rwm"}, allows},
		{"runc", Rule{'c', 5, Any, "rw"}, denies},
		{"runc", Rule{'b', Any, Any, "m"}, allows},
		{"runc", Rule{'b', Any, Any, "rm"}, denies},
		{"runc", Rule{'c', Any, 3, "m"}, allows},
		{"runc", Rule{'c', Any, 3, "w"}, denies},
		{"crun", Rule{'c', 1, 3, "rwm"}, allows},
		{"crun", Rule{'c', 136, Any, "rwm"}, allows},
		{"crun", Rule{'c', 10, 200, "rw"}, denies},
		{"crun", Rule{'c', Any, Any, "m"}, allows},
		{"crun", Rule{'b', 8, 0, "rw"}, denies},
		{"systemd", Rule{'c', 10, 229, "rwm"}, allows}, // rw by one rule, m by another
		{"systemd", Rule{'c', 1, 5, "r"}, allows},
		{"systemd", Rule{'c', 1, 5, "w"}, denies},
		{"systemd", Rule{'c', 1, 5, "rw"}, denies},
		{"systemd", Rule{'b', 7, Any, "rw"}, allows},
		{"systemd", Rule{'b', 7, Any, "rwm"}, denies},
		{"systemd", Rule{'c', 1, 11, "r"}, denies},
	} {
		code := dump(t, c.program)
		if got := judge(code, c.rule); got != c.want {
			t.Errorf("%s on %s: %v, want %v", c.program, c.rule, got, c.want)
		}
		if got := judge(inFront([]Rule{c.rule}, code), c.rule); got != allows {
			t.Errorf("%s with %s in front: %v", c.program, c.rule, got)
		}
	}
}

// What no prelude names is judged as without one.
func TestPreludeChangesNothingElse(t *testing.T) {
	front := []Rule{{'c', 10, 229, "rw"}, {'b', 7, Any, "r"}}
	for _, name := range []string{"runc", "crun", "systemd"} {
		old := &emulator{code: dump(t, name)}
		both := &emulator{code: inFront(front, dump(t, name))}
		for q := range requests() {
			old.steps, both.steps = maxSteps, maxSteps
			want := old.run(q)
			if named(front, q) {
				want = allows
			}
			if got := both.run(q); got != want {
				t.Fatalf("%s: %+v: %v, want %v", name, q, got, want)
			}
		}
	}
}

func named(rules []Rule, q request) bool {
	for _, r := range rules {
		if uint32(deviceType(r.Type)) == q.kind && within(int64(q.major), r.Major) &&
			within(int64(q.minor), r.Minor) && q.access&^accessOf(r.Access) == 0 {
			return true
		}
	}
	return false
}

// requests are all accesses to a few devices.
func requests() func(yield func(request) bool) {
	return func(yield func(request) bool) {
		for _, kind := range []uint32{deviceBlock, deviceChar} {
			for a := access(0); a <= accessAll; a++ {
				for _, major := range []uint32{0, 1, 5, 7, 8, 10, 136, 195} {
					for _, minor := range []uint32{0, 2, 3, 5, 11, 200, 229, 1<<20 - 1} {
						if !yield(request{kind, a, major, minor}) {
							return
						}
					}
				}
			}
		}
	}
}

func TestJudgeUnclear(t *testing.T) {
	rule, open := Rule{'c', 10, 229, "rwm"}, Rule{'c', 10, Any, "rwm"}
	minorAbove := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 8, asm.Word),
		asm.Mov.Imm(asm.R0, 1),
		asm.JGT.Imm(asm.R2, 100, "end"),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return().WithSymbol("end"),
	}
	for name, c := range map[string]struct {
		code asm.Instructions
		rule Rule
		want verdict
	}{
		"nothing":             {nil, rule, unclear},
		"a map":               {asm.Instructions{asm.LoadMapPtr(asm.R1, 3), asm.Mov.Imm(asm.R0, 1), asm.Return()}, rule, unclear},
		"a call":              {asm.Instructions{asm.FnGetPrandomU32.Call(), asm.Return()}, rule, unclear},
		"the stack":           {asm.Instructions{asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord), asm.Mov.Imm(asm.R0, 1), asm.Return()}, rule, unclear},
		"unset result":        {asm.Instructions{asm.Return()}, rule, unclear},
		"endless":             {asm.Instructions{asm.Mov.Imm(asm.R0, 1).WithSymbol("top"), asm.Ja.Label("top")}, rule, unclear},
		"off its end":         {asm.Instructions{asm.Mov.Imm(asm.R0, 1)}, rule, unclear},
		"range, one number":   {minorAbove, rule, allows},
		"range, open number":  {minorAbove, open, unclear},
		"the minor as result": {asm.Instructions{asm.LoadMem(asm.R0, asm.R1, 8, asm.Word), asm.Return()}, open, unclear},
		"allow all":           {asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}, open, allows},
		"deny all":            {asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, open, denies},
	} {
		if got := judge(assembled(t, c.code), c.rule); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A hole for one number of an open rule is found, however it is spelled.
func TestJudgeFindsHoles(t *testing.T) {
	open := Rule{'c', Any, Any, "r"}
	for name, jump := range map[string]asm.Instruction{
		"64 bit":      asm.JEq.Imm(asm.R2, 511, "deny"),
		"32 bit":      asm.JEq.Imm32(asm.R2, 511, "deny"),
		"by register": asm.JEq.Reg(asm.R2, asm.R3, "deny"),
		"reversed":    asm.JEq.Reg(asm.R3, asm.R2, "deny"),
	} {
		for _, field := range []int16{4, 8} {
			code := asm.Instructions{
				asm.LoadMem(asm.R2, asm.R1, field, asm.Word),
				asm.Mov.Imm(asm.R3, 511),
				jump,
				asm.Mov.Imm(asm.R0, 1),
				asm.Return(),
				asm.Mov.Imm(asm.R0, 0).WithSymbol("deny"),
				asm.Return(),
			}
			if got := judge(assembled(t, code), open); got != denies {
				t.Errorf("%s at %d: %v, want %v", name, field, got, denies)
			}
			if got := judge(assembled(t, code), Rule{'c', 7, 7, "r"}); got != allows {
				t.Errorf("%s at %d: other device: %v, want %v", name, field, got, allows)
			}
		}
	}
}

func TestArithmetic(t *testing.T) {
	const top = uint64(1) << 63
	for _, c := range []struct {
		op           uint8
		wide         bool
		a, b, result uint64
	}{
		{opAdd, true, 1<<32 - 1, 1, 1 << 32},
		{opAdd, false, 1<<32 - 1, 1, 0},
		{opSub, true, 0, 1, 1<<64 - 1},
		{opSub, false, 0, 1, 1<<32 - 1},
		{opMul, true, 1 << 31, 2, 1 << 32},
		{opMul, false, 1 << 31, 2, 0},
		{opOr, true, 5, 1<<64 - 16, 1<<64 - 11},
		{opAnd, true, 0xff, 1<<64 - 16, 0xf0},
		{opAnd, false, 1<<40 | 0xff, 1<<64 - 16, 0xf0},
		{opXor, true, 6, 3, 5},
		{opNeg, true, 1, 0, 1<<64 - 1},
		{opNeg, false, 1, 0, 1<<32 - 1},
		{opLsh, true, 1, 65, 2},
		{opLsh, false, 1, 33, 2},
		{opRsh, true, top, 63, 1},
		{opRsh, false, top | 1<<31, 31, 1},
		{opArsh, true, top, 63, 1<<64 - 1},
		{opArsh, false, 1 << 31, 31, 1<<32 - 1},
	} {
		if got, ok := arithmetic(c.op, c.a, c.b, c.wide); !ok || got != c.result {
			t.Errorf("%#x, wide %v, of %#x and %#x: %#x, want %#x", c.op, c.wide, c.a, c.b, got, c.result)
		}
	}
	if _, ok := arithmetic(0x30, 1, 0, true); ok {
		t.Error("division is understood")
	}
}

func TestCompare(t *testing.T) {
	const minus = 1<<64 - 1                  // and 1<<32-1 to a narrow one
	for op, want := range map[uint8][3]bool{ // 1 with -1, 1 with 1, -1 with 1
		jumpEQ: {false, true, false}, jumpNE: {true, false, true}, jumpSet: {true, true, true},
		jumpGT: {false, false, true}, jumpGE: {false, true, true}, jumpLT: {true, false, false}, jumpLE: {true, true, false},
		jumpSGT: {true, false, false}, jumpSGE: {true, true, false}, jumpSLT: {false, false, true}, jumpSLE: {false, true, true},
	} {
		for at, pair := range [][2]uint64{{1, minus}, {1, 1}, {minus, 1}} {
			for _, wide := range []bool{true, false} {
				if got, ok := compare(op, pair[0], pair[1], wide); !ok || got != want[at] {
					t.Errorf("%#x, wide %v, of %v: %v, want %v", op, wide, pair, got, want[at])
				}
			}
		}
	}
	if _, ok := compare(0xe0, 1, 1, true); ok {
		t.Error("may_goto is understood")
	}
}

// Parts of access_type may be loaded alone; where they lie depends on the byte order.
func TestNarrowLoads(t *testing.T) {
	if !lowNibbleFirst() {
		t.Skip("big endian: the offsets are of little endian")
	}
	code := assembled(t, asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Half),
		asm.LoadMem(asm.R3, asm.R1, 2, asm.Byte),
		asm.Mov.Imm(asm.R0, 0),
		asm.JNE.Imm(asm.R2, deviceChar, "end"),
		asm.JNE.Imm(asm.R3, int32(accessRead), "end"),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return().WithSymbol("end"),
	})
	for r, want := range map[Rule]verdict{
		{'c', 1, 3, "r"}: allows, {'c', 1, 3, "w"}: denies, {'b', 1, 3, "r"}: denies,
	} {
		if got := judge(code, r); got != want {
			t.Errorf("%s: %v, want %v", r, got, want)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, name := range []string{"runc", "crun", "systemd"} {
		f.Add(encode(dump(f, name)), byte('c'), int64(1), int64(11), "rwm")
	}
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, major, minor int64, access string) {
		r := Rule{kind, major, minor, access}
		if r.Validate() != nil {
			return // Allow refuses it before any program is looked at
		}
		code := decode(raw)
		judge(code, r)
		if _, err := reloadable(code); err != nil {
			return
		}
		if got := judge(inFront([]Rule{r}, code), r); got != allows {
			t.Errorf("with %s in front: %v", r, got)
		}
	})
}
