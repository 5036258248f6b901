package cgroups

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPasses bounds how often the programs of a cgroup may change while we look at them.
const maxPasses = 10

var errChanged = errors.New("its programs keep changing, or a BPF link holds one")

func (c *Cgroup) allowV2(rules []Rule, opts Options) (Undo, error) {
	dir, err := duplicate(c.dir)
	if err != nil {
		return noUndo, err
	}
	done := &swaps{kernel: c.kernel, dir: dir}
	err = c.swapAll(done, func(alone bool) successor {
		return builder{kernel: c.kernel, rules: rules, opts: opts, alone: alone}.replacement
	})
	if err != nil {
		return noUndo, errors.Join(err, done.undo())
	}
	if len(done.list) == 0 {
		return noUndo, dir.Close()
	}
	return once(done.undo), nil
}

// successor loads what takes the place of a program; nil where it is right as it is.
type successor func(old *os.File) (*os.File, error)

// swapAll puts successors in the place of all programs that need one. How they are made
// may depend on whether the cgroup has one program alone.
func (c *Cgroup) swapAll(done *swaps, of func(alone bool) successor) (err error) {
	for range maxPasses {
		err = c.pass(of, done)
		if !errors.Is(err, errChanged) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	return nil
}

// pass makes ready all that is to be put in place of what is attached now, and then does
// it; errChanged asks for another pass, which finds done what this one did.
func (c *Cgroup) pass(of func(alone bool) successor, done *swaps) error {
	now, err := c.kernel.query(c.dir, 0)
	if err != nil {
		return err
	}
	planned, err := c.plan(now, of(len(now.ids) == 1))
	if err != nil {
		return err
	}
	for at, s := range planned {
		if err := done.do(s); err != nil {
			closeSwaps(planned[at:])
			return c.refuseLink(s, err)
		}
	}
	return nil
}

// plan loads what takes the place of each program that needs a successor.
func (c *Cgroup) plan(now attached, of successor) (planned []swap, err error) {
	defer func() {
		if err != nil {
			closeSwaps(planned)
			planned = nil
		}
	}()
	for _, id := range now.ids {
		old, err := c.kernel.program(id)
		if errors.Is(err, unix.ENOENT) {
			return planned, errChanged
		}
		if err != nil {
			return planned, err
		}
		next, err := of(old)
		if err != nil || next == nil {
			if err := errors.Join(err, old.Close()); err != nil {
				return planned, fmt.Errorf("program %d: %w", id, err)
			}
			continue
		}
		planned = append(planned, swap{id: id, old: old, new: next, flags: now.flags & modeFlags, revision: now.revision})
	}
	return planned, nil
}

// refuseLink explains the ENOENT of a program that is still there: a link holds it, and
// only the link's owner may change that.
func (c *Cgroup) refuseLink(s swap, err error) error {
	if !errors.Is(err, errChanged) {
		return err
	}
	if link, found := c.kernel.linkOf(s.id); found {
		return fmt.Errorf("program %d: BPF link %d holds it, so that nobody else can replace it: "+
			"ask for the device in the container's configuration instead", s.id, link)
	}
	return err
}

// evaluate judges the rules by programs of a cgroup.
func (c *Cgroup) evaluate(ids []uint32, rules []Rule) ([]verdict, error) {
	all := make([]verdict, len(rules))
	for at := range all {
		all[at] = allows
	}
	for _, id := range ids {
		info, err := inspectID(c.kernel, id)
		if errors.Is(err, unix.ENOENT) {
			continue // no longer there to deny
		}
		if err != nil && !errors.Is(err, os.ErrPermission) {
			return nil, err
		}
		for at, r := range rules {
			all[at] = worst(all[at], judge(info.code, r))
		}
	}
	return all, nil
}

func inspectID(k kernel, id uint32) (programInfo, error) {
	prog, err := k.program(id)
	if err != nil {
		return programInfo{}, err
	}
	defer prog.Close()
	return k.inspect(prog)
}

func (c *Cgroup) allowsV2(rules []Rule) (allowed, sure bool, err error) {
	now, err := c.kernel.query(c.dir, 0)
	if err != nil {
		return false, false, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	verdicts, err := c.evaluate(now.ids, rules)
	if err != nil {
		return false, false, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	all := allows
	for _, v := range verdicts {
		all = worst(all, v)
	}
	return all == allows, all != unclear, nil
}

// denyingV2 takes of each ancestor the programs that count for this cgroup: one attached
// without MULTI does not where a nearer cgroup has programs.
func (c *Cgroup) denyingV2(above []*Cgroup, rules []Rule) ([]Denial, error) {
	effective, err := c.kernel.query(c.dir, unix.BPF_F_QUERY_EFFECTIVE)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	left := map[uint32]int{} // one program may be attached at several cgroups
	for _, id := range effective.ids {
		left[id]++
	}
	if _, err := c.take(left); err != nil {
		return nil, err
	}
	var all []Denial
	top := c
	for _, up := range above {
		ids, err := up.take(left)
		if err != nil {
			return nil, err
		}
		denials, err := up.denials(up.Path(), ids, rules)
		if err != nil {
			return nil, err
		}
		all = append(all, denials...)
		top = up
	}
	unseen, err := top.denials("above "+top.Path()+", outside the mount,", inOrder(effective.ids, left), rules)
	return append(all, unseen...), err
}

// take returns which of the programs left are attached here, and strikes them off.
func (c *Cgroup) take(left map[uint32]int) ([]uint32, error) {
	now, err := c.kernel.query(c.dir, 0)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", c.Path(), err)
	}
	here := inOrder(now.ids, left)
	for _, id := range here {
		left[id]--
	}
	return here, nil
}

func inOrder(ids []uint32, of map[uint32]int) (some []uint32) {
	for _, id := range ids {
		if of[id] > 0 {
			some = append(some, id)
		}
	}
	return some
}

func (c *Cgroup) denials(name string, ids []uint32, rules []Rule) ([]Denial, error) {
	verdicts, err := c.evaluate(ids, rules)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", name, err)
	}
	var all []Denial
	for at, v := range verdicts {
		if v != allows {
			all = append(all, Denial{Cgroup: strings.TrimSpace(name), Rule: rules[at], Sure: v == denies})
		}
	}
	return all, nil
}
