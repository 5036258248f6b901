package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/policy"
)

// mending is the repair of one container: fault by fault, so that one that cannot be
// mended keeps no other from it. Each is journalled and undone like any other work.
type mending struct {
	direct
	verifier *verifier
	result   *Repaired
}

// remedy is what mends some faults: actions of the record that are taken away first, by
// index, because they name what the host has no more, and what is done then.
type remedy struct {
	faults []Fault
	away   []int
	give   []plan.Action
}

// mend takes one fault after the other, and looks anew after each: one remedy may help, or
// renumber, several.
func (m *mending) mend(ctx context.Context) error {
	if err := m.take(ctx); err != nil || m.old == nil {
		return err
	}
	if err := m.settings.Policy.CheckDenied(m.old.Devices, policy.WhoIs(m.container.Annotations)); err != nil {
		return err
	}
	tried := map[string]bool{}
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		faults, h, err := m.faults()
		if err != nil {
			return err
		}
		next := slices.IndexFunc(faults, func(f Fault) bool { return !tried[f.key()] })
		if next < 0 {
			h.close()
			return m.finish()
		}
		tried[faults[next].key()] = true
		err = m.mendOne(ctx, h, faults, faults[next])
		h.close()
		if err != nil {
			m.result.Failed = append(m.result.Failed, err.Error())
		}
		if m.old, err = m.entry.Read(); err != nil {
			return err
		}
	}
}

// key is the same for all faults that one remedy is for: rules are put back at once.
func (f *Fault) key() string {
	if f.isRule() {
		return "rules"
	}
	return f.Kind + " " + f.What
}

func (f *Fault) isRule() bool { return f.Fault == FaultDenied || f.Fault == FaultForgotten }

// take reads the record under the lock, and ends what a detach has begun. Without a record
// of this process nothing is to be done.
func (m *mending) take(ctx context.Context) (err error) {
	m.old, err = m.entry.Read()
	if errors.Is(err, os.ErrNotExist) || err == nil && !m.isThisRun(m.old) {
		m.old = nil
		return errGone
	}
	if err != nil || len(m.old.Leaving) == 0 {
		return err
	}
	m.plan = &plan.Plan{}
	if _, err := m.leave(ctx, nil); err != nil {
		return err
	}
	if m.old, err = m.entry.Read(); errors.Is(err, os.ErrNotExist) {
		m.old = nil
		return errGone
	}
	return err
}

func (m *mending) faults() ([]Fault, *held, error) {
	clear(m.verifier.host)
	h, err := m.verifier.hold(m.old)
	if err != nil {
		return nil, nil, err
	}
	faults, _ := m.verifier.check(h) // what could not be compared is said at the end
	return faults, h, nil
}

// finish makes a journal that was cut short a record: all that it names has been looked at.
func (m *mending) finish() error {
	if m.old.Done {
		return nil
	}
	r := *m.old
	r.Done = true
	return m.entry.Write(&r)
}

func (m *mending) mendOne(ctx context.Context, h *held, faults []Fault, f Fault) error {
	r, err := m.remedy(h, faults, f)
	if err != nil {
		return fmt.Errorf("%s (%s): %w", f.String(), f.Spec, err)
	}
	if err := m.settings.vetPlan(&plan.Plan{Actions: r.give}); err != nil {
		return err
	}
	before := m.old
	if len(r.away) > 0 {
		if err := m.clear(ctx, r.away); err != nil {
			return err
		}
	}
	m.plan = &plan.Plan{Devices: before.Devices, Actions: r.give, Unsupported: []plan.Unsupported{}}
	if err := m.give(ctx); err != nil {
		// The record names what the container should have, also where it was taken away.
		return errors.Join(err, m.entry.Write(before))
	}
	m.result.Mended = append(m.result.Mended, r.faults...)
	return nil
}

// clear takes actions away that the host has outlived. The record on disk still names
// them: where this is cut short they are missing, and put back as the host has them then.
func (m *mending) clear(ctx context.Context, away []int) error {
	r := *m.old
	parts, err := divide(&r)
	if err != nil {
		return err
	}
	for _, i := range away {
		parts.going[i] = true
	}
	m.plan = &plan.Plan{}
	w, err := m.prepare(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.removeAll(ctx, parts); err != nil {
		return err
	}
	m.old, err = parts.rest()
	return err
}

// errInTheWay is about what somebody else put there: it is not ours to remove.
var errInTheWay = errors.New("left as it is")

func (m *mending) remedy(h *held, faults []Fault, f Fault) (*remedy, error) {
	again := func(i int) plan.Action {
		a := h.actions[i]
		a.Found, a.Satisfied = false, false
		return a
	}
	switch a := h.actions[f.Action]; {
	case f.isRule():
		r := &remedy{}
		for _, o := range faults {
			if !o.isRule() {
				continue
			}
			r.faults = append(r.faults, o)
			if again := again(o.Action); !slices.ContainsFunc(r.give, func(g plan.Action) bool { return g.Same(&again) }) {
				r.give = append(r.give, again)
			}
		}
		return r, nil
	case f.Fault == FaultOther:
		return nil, errInTheWay
	case a.Node != nil:
		return m.nodeRemedy(h, f, again)
	case m.container.UserNamespace:
		return nil, errors.New(plan.WithoutLocks)
	default:
		return m.mountRemedy(h, f, again(f.Action))
	}
}

// mountRemedy mounts what the host has now, in place of what it had.
func (m *mending) mountRemedy(h *held, f Fault, a plan.Action) (*remedy, error) {
	r := &remedy{faults: []Fault{f}, give: []plan.Action{a}}
	if f.Fault != FaultStale {
		return r, nil
	}
	host, err := m.verifier.hostAt(a.Mount.Source, true)
	if err != nil {
		return nil, err
	}
	now, err := h.files.At(a.Mount.Target)
	if err != nil {
		return nil, err
	}
	if (now.Type == 'd') != (host.Type == 'd') {
		return nil, fmt.Errorf("the host's is %s now, and the container has %s", host, now)
	}
	r.away = []int{f.Action}
	return r, nil
}

// nodeRemedy gives a node the numbers that the host's has now, and its rule with it.
func (m *mending) nodeRemedy(h *held, f Fault, again func(int) plan.Action) (*remedy, error) {
	a := again(f.Action)
	r := &remedy{faults: []Fault{f}}
	host, err := m.verifier.hostAt(a.Node.HostPath, false)
	switch {
	case isNothing(err) && slices.Contains(h.record.Hostless, f.Action):
		r.give = []plan.Action{a}
		return r, nil
	case err != nil:
		return nil, err
	case host.Type != kindOf(a.Node):
		return nil, fmt.Errorf("the host's %s is another kind of file, %s", a.Node.HostPath, host)
	case host.Type == 'p', int64(host.Major) == a.Node.Major && int64(host.Minor) == a.Node.Minor:
		r.give = []plan.Action{a}
		return r, nil
	}
	old := *a.Node
	node := old
	node.Major, node.Minor = int64(host.Major), int64(host.Minor)
	a.Node = &node
	r.give, r.away = []plan.Action{a}, []int{f.Action}
	for i, o := range h.actions {
		if o.Rule == nil || o.Rule.Type != string(kindOf(&old)) || o.Rule.Major != old.Major || o.Rule.Minor != old.Minor {
			continue
		}
		moved := again(i)
		rule := *moved.Rule
		rule.Major, rule.Minor = node.Major, node.Minor
		moved.Rule = &rule
		r.give, r.away = append(r.give, moved), append(r.away, i)
	}
	return r, nil
}

// kindOf is the type of a node as stat(2) tells it: 'u' is an unbuffered 'c'.
func kindOf(n *plan.Node) byte {
	if n.Type == "u" {
		return 'c'
	}
	return n.Type[0]
}
