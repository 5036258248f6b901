package cgroups

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Refused lists which of the rules this cgroup does not let pass, or one above it: all
// programs that count for it must allow. It is one question where everything is allowed.
func (c *Cgroup) Refused(rules []Rule) ([]Denial, error) {
	if err := validate(rules); err != nil {
		return nil, err
	}
	if c.version == V1 {
		// One above that denies has taken the exception away here too (devices.rst,
		// "Hierarchy").
		return denyingV1([]*Cgroup{c}, rules)
	}
	effective, err := c.kernel.query(c.dir, unix.BPF_F_QUERY_EFFECTIVE)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	verdicts, err := c.evaluate(effective.ids, rules)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	var left []Rule
	for at, v := range verdicts {
		if v != allows {
			left = append(left, rules[at])
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	return c.whoRefuses(left)
}

func (c *Cgroup) whoRefuses(rules []Rule) ([]Denial, error) {
	own, err := c.kernel.query(c.dir, 0)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	denials, err := c.denials(c.Path(), own.ids, rules)
	if err != nil {
		return nil, err
	}
	above, err := c.Denying(rules)
	return append(denials, above...), err
}
