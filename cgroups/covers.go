package cgroups

// maxSteps bounds one question to a program: far more than any device filter takes.
const maxSteps = 1 << 20

// asked are the accesses the kernel asks about: mknod alone, and the ways to open.
var asked = [...]access{accessMknod, accessRead, accessWrite, accessRead | accessWrite}

// judge says whether a program allows all that a rule names. It denies if it denies any
// of it, and for sure only then.
func judge(code []insn, r Rule) verdict {
	e := &emulator{code: unblind(code), steps: maxSteps}
	e.open[fromMajor] = r.Major == Any
	e.open[fromMinor] = r.Minor == Any
	all := allows
	for _, a := range asked {
		if a&^accessOf(r.Access) != 0 {
			continue
		}
		q := request{kind: uint32(deviceType(r.Type)), access: a, major: uint32(r.Major), minor: uint32(r.Minor)}
		if all = worst(all, judgeNumbers(e, q)); all == denies {
			return denies
		}
	}
	return all
}

func worst(a, b verdict) verdict {
	switch {
	case a == denies || b == denies:
		return denies
	case a == unclear || b == unclear:
		return unclear
	}
	return allows
}

// judgeNumbers tries each number that the program could tell from others. A program that
// only compares an open number with constants treats all numbers alike but those
// constants: so these and one other number stand for all.
func judgeNumbers(e *emulator, q request) verdict {
	majors, minors := newCandidates(), newCandidates()
	e.compared = func(from origin, with uint64) {
		switch {
		case with > 1<<32-1: // equals no device number
		case from == fromMajor:
			majors.add(uint32(with))
		default:
			minors.add(uint32(with))
		}
	}
	if !e.open[fromMajor] {
		return judgeMinors(e, q, minors)
	}
	return majors.each(func(n uint32) verdict {
		q.major = n
		return judgeMinors(e, q, minors)
	})
}

func judgeMinors(e *emulator, q request, minors *candidates) verdict {
	if !e.open[fromMinor] {
		return e.run(q)
	}
	return minors.each(func(n uint32) verdict {
		q.minor = n
		return e.run(q)
	})
}

// candidates are numbers met in comparisons, in the order met.
type candidates struct {
	list  []uint32
	known map[uint32]bool
}

func newCandidates() *candidates { return &candidates{known: map[uint32]bool{}} }

func (c *candidates) add(n uint32) {
	if !c.known[n] {
		c.known[n] = true
		c.list = append(c.list, n)
	}
}

// each asks for a number that no comparison names and for all that are named, until
// none is new.
func (c *candidates) each(ask func(n uint32) verdict) verdict {
	all := allows
	for at := 0; all != denies; {
		other := c.unnamed()
		all = worst(all, ask(other))
		for ; at < len(c.list) && all != denies; at++ {
			all = worst(all, ask(c.list[at]))
		}
		if !c.known[other] {
			break
		}
	}
	return all
}

func (c *candidates) unnamed() uint32 {
	n := uint32(0)
	for c.known[n] {
		n++
	}
	return n
}
