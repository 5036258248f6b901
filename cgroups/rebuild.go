package cgroups

import (
	"errors"
	"fmt"
	"math"
)

// rebuilt is a program that means what every runtime makes of an ordered list. Runtimes
// differ in lists where one rule takes a part out of another: such lists are refused.
func rebuilt(list []Decision) ([]insn, error) {
	var set ruleSet
	for _, d := range list {
		if err := set.add(d); err != nil {
			return nil, fmt.Errorf("rule %q: %w", d, err)
		}
	}
	code := prelude(nil)
	other := int32(1)
	if set.allowAll {
		other = 0
	}
	for _, r := range set.exceptions {
		code = append(code, verdictBlock(r, other)...)
	}
	return append(code, returns(1-other)...), nil
}

// ruleSet is a verdict for all devices and the exceptions from it.
type ruleSet struct {
	allowAll   bool // a runtime that is told nothing denies
	exceptions []Rule
}

var errAmbiguous = errors.New("it takes a part out of an earlier one, which runtimes do in different ways")

func (s *ruleSet) add(d Decision) error {
	if d.Type == 'a' {
		if d.Major != Any || d.Minor != Any || accessOf(d.Access) != accessAll {
			return errors.New("of type a, but not for all access to all devices")
		}
		*s = ruleSet{allowAll: d.Allow}
		return nil
	}
	if d.Major > math.MaxInt32 || d.Minor > math.MaxInt32 {
		return nil // there is no such device
	}
	if err := d.Validate(); err != nil {
		return err
	}
	if d.Allow != s.allowAll {
		return s.addException(d)
	}
	return s.removeException(d.Rule)
}

func (s *ruleSet) addException(d Decision) error {
	if !d.Allow && accessOf(d.Access) != accessAll {
		// To deny reading only: runtimes differ in whether opening for both is denied.
		return errAmbiguous
	}
	for at, e := range s.exceptions {
		if sameNumbers(e, d.Rule) {
			s.exceptions[at].Access = (accessOf(e.Access) | accessOf(d.Access)).String()
			return nil
		}
	}
	s.exceptions = append(s.exceptions, d.Rule)
	return nil
}

// removeException has nothing to do where nothing was excepted.
func (s *ruleSet) removeException(r Rule) error {
	var kept []Rule
	for _, e := range s.exceptions {
		switch {
		case !overlap(e, r):
			kept = append(kept, e)
		case !sameNumbers(e, r) || accessOf(e.Access)&^accessOf(r.Access) != 0:
			return errAmbiguous
		}
	}
	s.exceptions = kept
	return nil
}

func sameNumbers(a, b Rule) bool {
	return a.Type == b.Type && a.Major == b.Major && a.Minor == b.Minor
}

func overlap(a, b Rule) bool {
	meet := func(x, y int64) bool { return x == Any || y == Any || x == y }
	return a.Type == b.Type && meet(a.Major, b.Major) && meet(a.Minor, b.Minor) &&
		accessOf(a.Access)&accessOf(b.Access) != 0
}
