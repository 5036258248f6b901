package cgroups

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// listed is a line of devices.list. Type 'a' is the whole list of a cgroup that allows by
// default: it shows none of its exceptions.
type listed struct {
	kind         byte
	major, minor int64
	access       access
}

// covers says whether the kernel would find the whole rule in this one line; it joins
// no two lines (match_exception in security/device_cgroup.c).
func (l listed) covers(r Rule) bool {
	if l.kind == 'a' {
		return true
	}
	return l.kind == r.Type && within(r.Major, l.major) && within(r.Minor, l.minor) &&
		accessOf(r.Access)&^l.access == 0
}

func within(n, of int64) bool { return of == Any || n == of }

func covered(list []listed, r Rule) bool {
	for _, l := range list {
		if l.covers(r) {
			return true
		}
	}
	return false
}

// exactly is the access that the list has for just these numbers, wildcards not counted.
func exactly(list []listed, r Rule) access {
	var a access
	for _, l := range list {
		if l.kind == r.Type && l.major == r.Major && l.minor == r.Minor {
			a |= l.access
		}
	}
	return a
}

func parseList(data string) ([]listed, error) {
	var list []listed
	for line := range strings.Lines(data) {
		l, err := parseLine(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		list = append(list, l)
	}
	return list, nil
}

func parseLine(line string) (listed, error) {
	kind, rest, ok1 := strings.Cut(line, " ")
	numbers, acc, ok2 := strings.Cut(rest, " ")
	major, minor, ok3 := strings.Cut(numbers, ":")
	if !ok1 || !ok2 || !ok3 || len(kind) != 1 || !strings.Contains("abc", kind) {
		return listed{}, errors.New("not of the form \"c 1:3 rwm\"")
	}
	l := listed{kind: kind[0], access: accessOf(acc)}
	if strings.Trim(acc, "rwm") != "" {
		return listed{}, fmt.Errorf("access %q is not of \"rwm\"", acc)
	}
	var err1, err2 error
	l.major, err1 = parseNumber(major)
	l.minor, err2 = parseNumber(minor)
	return l, errors.Join(err1, err2)
}

func parseNumber(s string) (int64, error) {
	if s == "*" {
		return Any, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	return int64(n), err
}

func (c *Cgroup) list() ([]listed, error) {
	data, err := readAt(c.dir, "devices.list")
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	list, err := parseList(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s/devices.list: %w", c.Path(), err)
	}
	return list, nil
}

func (c *Cgroup) allowV1(rules []Rule) (Undo, error) {
	list, err := c.list()
	if err != nil {
		return noUndo, err
	}
	var added []Rule
	for _, r := range rules {
		if covered(list, r) && !allowsByDefault(list) {
			continue
		}
		if err := writeAt(c.dir, "devices.allow", r.String()); err != nil {
			return noUndo, errors.Join(c.explainV1(r, err), c.takeBackV1(added))
		}
		if undo, ok := takenBackBy(list, r); ok {
			added = append(added, undo)
		}
		list = append(list, listed{r.Type, r.Major, r.Minor, accessOf(r.Access)})
	}
	return c.undoV1(added)
}

// allowsByDefault says that a rule's line may be hidden: then it is written, which at
// most removes a hidden exception and never adds one, and stays, since nobody can tell
// whether there was one.
func allowsByDefault(list []listed) bool {
	return len(list) > 0 && list[0].kind == 'a'
}

// takenBackBy is what to deny so that the list is again as it was: the kernel takes
// access off the line with just these numbers and lets wildcards be.
func takenBackBy(list []listed, r Rule) (Rule, bool) {
	if allowsByDefault(list) {
		return Rule{}, false
	}
	added := accessOf(r.Access) &^ exactly(list, r)
	r.Access = added.String()
	return r, added != 0
}

func (c *Cgroup) undoV1(added []Rule) (Undo, error) {
	if len(added) == 0 {
		return noUndo, nil
	}
	dir, err := duplicate(c.dir)
	if err != nil {
		return noUndo, errors.Join(err, c.takeBackV1(added))
	}
	held := &Cgroup{dir: dir, version: V1}
	return once(func() error { return errors.Join(held.takeBackV1(added), dir.Close()) }), nil
}

func (c *Cgroup) takeBackV1(added []Rule) error {
	var errs []error
	for i := len(added) - 1; i >= 0; i-- {
		err := writeAt(c.dir, "devices.deny", added[i].String())
		if err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("take back device rule: %w", err))
		}
	}
	return errors.Join(errs...)
}

func once(do func() error) Undo {
	return func() error {
		if do == nil {
			return nil
		}
		err := do()
		do = nil
		return err
	}
}

// isGone says that a cgroup was removed while we held it.
func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// explainV1 finds who stands behind an EPERM.
func (c *Cgroup) explainV1(r Rule, err error) error {
	err = fmt.Errorf("cgroup %s: allow device %s: %w", c.Path(), r, err)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	denials, walkErr := c.Denying([]Rule{r})
	if walkErr != nil {
		return errors.Join(err, walkErr)
	}
	for _, d := range denials {
		return &DeniedError{Cgroup: c.Path(), By: d, Err: err}
	}
	return fmt.Errorf("%w (no cgroup above is seen to deny it: one denies by an exception that devices.list hides, or CAP_SYS_ADMIN is missing)", err)
}
