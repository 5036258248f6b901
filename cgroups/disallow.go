package cgroups

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Disallow takes back rules that Allow gave, perhaps in another process, and nothing that
// somebody else gave. Keep lists what is still needed of all that Allow gave, and on cgroup
// v1, where a cgroup has one list for all, what others gave. A cgroup that is gone has
// nothing to take back.
//
// On cgroup v2 a rule that a program of somebody else allows stays allowed. On v1 the same
// is so of a cgroup that allows by default.
func (c *Cgroup) Disallow(rules, keep []Rule, opts Options) error {
	if err := errors.Join(validate(rules), validate(keep)); err != nil || len(rules) == 0 {
		return err
	}
	if c.version == V1 {
		return c.disallowV1(rules, keep)
	}
	dir, err := duplicate(c.dir)
	if err != nil {
		return err
	}
	done := &swaps{kernel: c.kernel, dir: dir}
	err = c.swapAll(done, func(alone bool) successor {
		return reducer{builder{kernel: c.kernel, rules: keep, opts: opts, alone: alone}, rules}.replacement
	})
	if isGone(err) {
		err = nil
	}
	if err != nil {
		return errors.Join(err, done.undo())
	}
	closeSwaps(done.list)
	return dir.Close()
}

// disallowV1 takes off each line just the access that nobody else needs.
func (c *Cgroup) disallowV1(rules, keep []Rule) error {
	list, err := c.list()
	if isGone(err) || err == nil && allowsByDefault(list) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range rules {
		left := exactly(list, r) & accessOf(r.Access) &^ needed(keep, r)
		if left == 0 {
			continue
		}
		r.Access = left.String()
		if err := writeAt(c.dir, "devices.deny", r.String()); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("cgroup %s: take back device rule %s: %w", c.Path(), r, err))
		}
	}
	return errors.Join(errs...)
}

// needed is the access that rules with the same numbers need.
func needed(keep []Rule, r Rule) (a access) {
	for _, k := range keep {
		if sameNumbers(k, r) {
			a |= accessOf(k.Access)
		}
	}
	return a
}

// reducer makes the successors of programs that allow too much by what we put in front.
type reducer struct {
	builder        // its rules are those to keep
	away    []Rule // those to take away
}

func (b reducer) replacement(old *os.File) (*os.File, error) {
	info, err := b.kernel.inspect(old)
	if err != nil {
		return nil, err
	}
	if info.name != ourName {
		return nil, nil
	}
	if info.hidden != "" {
		return b.rebuildReduced(info.hidden)
	}
	code, err := reloadable(info.code)
	if errors.Is(err, errBlinded) {
		return b.rebuildReduced(err.Error() + " (sysctl net.core.bpf_jit_harden)")
	}
	if err != nil {
		return nil, err
	}
	had, rest := behind(code)
	left := b.reduced(had)
	if slices.Equal(left, had) {
		return nil, nil
	}
	if len(left) == 0 {
		return b.kernel.load(rest)
	}
	return b.kernel.load(inFront(left, rest))
}

// reduced is what is left of our rules.
func (b reducer) reduced(had []Rule) (left []Rule) {
	for _, r := range had {
		if slices.ContainsFunc(b.away, func(a Rule) bool { return sameNumbers(a, r) }) {
			r.Access = (accessOf(r.Access) & needed(b.rules, r)).String()
		}
		if r.Access != "" {
			left = append(left, r)
		}
	}
	return left
}

// rebuildReduced serves where our program cannot be read: it is made anew from what the
// runtime was asked for and what is to be kept.
func (b reducer) rebuildReduced(why string) (*os.File, error) {
	if b.opts.Rebuild == nil || !b.alone {
		return nil, fmt.Errorf("%w: %s; what it was made of is not known for sure", ErrUnreadable, why)
	}
	code, err := rebuilt(b.opts.Rebuild)
	if err != nil {
		return nil, fmt.Errorf("%w: %s; %w", ErrUnreadable, why, err)
	}
	if len(b.rules) > 0 {
		code = inFront(b.rules, code)
	}
	return b.kernel.load(code)
}

// DisallowPinned does to a device program that is pinned in bpffs what Disallow does to
// those that are attached. The path is trusted.
func DisallowPinned(name string, rules, keep []Rule, opts Options) error {
	if err := errors.Join(validate(rules), validate(keep)); err != nil || len(rules) == 0 {
		return err
	}
	name = filepath.Clean(name)
	old, err := getPinned(name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer old.Close()
	next, err := reducer{builder{kernel: syscalls{}, rules: keep, opts: opts, alone: true}, rules}.replacement(old)
	if err != nil || next == nil {
		return err
	}
	return errors.Join(pinOver(next, name), next.Close())
}
