package cgroups

import "fmt"

// Denial is one rule that a cgroup does not allow.
type Denial struct {
	Cgroup string
	Rule   Rule
	// Sure is false where a program of the cgroup could not be understood: it may allow.
	Sure bool
}

func (d Denial) String() string {
	if d.Sure {
		return fmt.Sprintf("cgroup %s denies device %s", d.Cgroup, d.Rule)
	}
	return fmt.Sprintf("cgroup %s may deny device %s (its program cannot be understood)", d.Cgroup, d.Rule)
}

// DeniedError says that a cgroup cannot be allowed what one above it denies. Those above
// are shared with others and never changed.
type DeniedError struct {
	Cgroup string // the one that was to be allowed
	By     Denial
	Err    error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("cgroup %s: %s; it is shared with others and not changed: allow the device there first", e.Cgroup, e.By)
}

func (e *DeniedError) Unwrap() error { return e.Err }

// Denying lists which cgroups above this one deny what, up to the root of the mount,
// nearest first; this one is left out.
func (c *Cgroup) Denying(rules []Rule) ([]Denial, error) {
	if err := validate(rules); err != nil {
		return nil, err
	}
	above, err := c.ancestors()
	if err != nil {
		return nil, err
	}
	defer closeAll(above)
	if c.version == V1 {
		return denyingV1(above, rules)
	}
	return c.denyingV2(above, rules)
}

func denyingV1(above []*Cgroup, rules []Rule) ([]Denial, error) {
	var all []Denial
	for _, up := range above {
		list, err := up.list()
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if !covered(list, r) {
				all = append(all, Denial{Cgroup: up.Path(), Rule: r, Sure: true})
			}
		}
	}
	return all, nil
}

// Allows says whether this cgroup, those above left out, lets all of the rules' access
// pass. It is not sure where a program could not be understood.
func (c *Cgroup) Allows(rules []Rule) (allowed, sure bool, err error) {
	if err := validate(rules); err != nil {
		return false, false, err
	}
	if c.version == V2 {
		return c.allowsV2(rules)
	}
	list, err := c.list()
	if err != nil {
		return false, false, err
	}
	for _, r := range rules {
		if !covered(list, r) {
			return false, true, nil
		}
	}
	return true, true, nil
}
