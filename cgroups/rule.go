package cgroups

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Any stands for every major or minor number.
const Any = -1

// Rule is access to device nodes: all those that match type and numbers.
type Rule struct {
	Type         byte   // 'b' or 'c'
	Major, Minor int64  // or Any
	Access       string // of "rwm", in any order, at least one
}

// String is the form of devices.allow: "c 10:229 rwm".
func (r Rule) String() string {
	return fmt.Sprintf("%c %s:%s %s", r.Type, number(r.Major), number(r.Minor), accessOf(r.Access))
}

// Validate says why a rule is none.
func (r Rule) Validate() error {
	if r.Type != 'b' && r.Type != 'c' {
		return fmt.Errorf("device rule: type %q is neither b nor c", r.Type)
	}
	return r.validateRest()
}

func (r Rule) validateRest() error {
	for _, n := range []int64{r.Major, r.Minor} {
		// A kernel's major has 12 bits, its minor 20.
		if n < Any || n > math.MaxInt32 {
			return fmt.Errorf("device rule %c %d:%d: %d is no device number", r.Type, r.Major, r.Minor, n)
		}
	}
	if r.Access == "" || strings.Trim(r.Access, "rwm") != "" {
		return fmt.Errorf("device rule %c %d:%d: access %q is not of \"rwm\"", r.Type, r.Major, r.Minor, r.Access)
	}
	return nil
}

func validate(rules []Rule) error {
	for _, r := range rules {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	return nil
}

func number(n int64) string {
	if n == Any {
		return "*"
	}
	return strconv.FormatInt(n, 10)
}

// access is a set of BPF_DEVCG_ACC_*; cgroup v1 has the same three.
type access uint32

const (
	accessMknod access = 1 << iota
	accessRead
	accessWrite
	accessAll = accessMknod | accessRead | accessWrite
)

func accessOf(s string) access {
	var a access
	for _, c := range s {
		switch c {
		case 'm':
			a |= accessMknod
		case 'r':
			a |= accessRead
		case 'w':
			a |= accessWrite
		}
	}
	return a
}

func (a access) String() string {
	s := ""
	for _, one := range []struct {
		bit  access
		name string
	}{{accessRead, "r"}, {accessWrite, "w"}, {accessMknod, "m"}} {
		if a&one.bit != 0 {
			s += one.name
		}
	}
	return s
}

// A Decision allows or denies. In a list the later one wins.
type Decision struct {
	Allow bool
	Rule  // Type may be 'a' with Any numbers and all access: every device
}

// String is "allow" or "deny" and the rule.
func (d Decision) String() string {
	if d.Allow {
		return "allow " + d.Rule.String()
	}
	return "deny " + d.Rule.String()
}
