package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/cgroups/systemd"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/hook/settings"
	"oci-cdi-hook/mounts"
)

// removeAll takes away what goes, in the order opposite to that of giving it.
func (w *work) removeAll(ctx context.Context, p *division) error {
	if err := w.removeRules(ctx, p); err != nil {
		return err
	}
	return w.thread.Do(func() error {
		for i := len(p.actions) - 1; i >= 0; i-- {
			if !p.going[i] || !p.actions[i].IsOurs() {
				continue
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := w.remove(p, i); err != nil {
				return fmt.Errorf("%w (%s)", err, p.actions[i].Origin)
			}
		}
		return w.root.RemoveLeftovers(p.points())
	})
}

// remove takes one node or mount away. What is not as it was given is not ours any more.
func (w *work) remove(p *division, index int) (err error) {
	a := p.actions[index]
	switch {
	case a.Node != nil:
		err = w.root.RemoveNode(nodeOf(a.Node))
	case a.Mount != nil:
		given, known := givenMount(p.record, index, a.Mount)
		if !known {
			return nil
		}
		err = w.root.RemoveMount(a.Mount.Target, given)
	}
	var different *mounts.DifferentError
	if errors.As(err, &different) || errors.Is(err, mounts.ErrNotGiven) {
		w.warnings = append(w.warnings, fmt.Sprintf("left as it is: %v (%s)", err, a.Origin))
		return nil
	}
	return err
}

func nodeOf(n *plan.Node) mounts.Node {
	return mounts.Node{UnsafePath: n.Path, Type: n.Type[0], Major: uint32(n.Major), Minor: uint32(n.Minor)}
}

// givenMount is the file that a mount showed when it was made; without a word of it in the
// record, its source.
func givenMount(r *record.Record, index int, m *plan.Mount) (mounts.Sight, bool) {
	for _, have := range r.Mounted {
		if have.Action == index {
			return mounts.Sight{Dev: have.Dev, Ino: have.Ino}, true
		}
	}
	if !m.Bind {
		return mounts.Sight{}, false
	}
	source, err := mounts.HostAt(m.Source, true)
	return source, err == nil
}

// points are the directories and mount points that were made for what goes alone.
func (p *division) points() []mounts.Leftover {
	var all []mounts.Leftover
	for _, m := range p.record.Missing {
		if !p.isNeeded(m.Path) && !p.isNode(m.Path) {
			all = append(all, mounts.Leftover{UnsafePath: m.Path, Elsewhere: m.Elsewhere})
		}
	}
	return all
}

func (p *division) isNode(name string) bool {
	return slices.ContainsFunc(p.actions, func(a plan.Action) bool { return a.Node != nil && targetOf(a) == name })
}

// removeRules takes rules off the container's cgroups, and off systemd's list, that nothing
// that stays needs: none of its devices, and not its config.
func (w *work) removeRules(ctx context.Context, p *division) error {
	c := &w.cgroups
	away := p.away()
	if len(away) == 0 || p.record.RulesSkipped || w.settings.Cgroup == settings.Skip {
		return nil
	}
	if err := w.openCgroups(); err != nil {
		return err
	}
	options := cgroups.Options{Rebuild: deviceDecisions(w.container)}
	keep := rulesOf(p.stays(), needsRule)
	if c.own.Version() == cgroups.V1 {
		for _, d := range options.Rebuild {
			if d.Allow && d.Type != 'a' {
				keep = append(keep, d.Rule)
			}
		}
	}
	w.withdraw(ctx, p, away, keep, options)
	var errs []error
	for _, cg := range c.alone {
		errs = append(errs, cg.Disallow(away, keep, options))
	}
	return errors.Join(errs...)
}

func (p *division) away() []cgroups.Rule { return rulesOf(p.goes(), plan.Action.IsOurs) }

// needsRule tells of actions that need their rule from us: one that was found may have been
// there because of another device.
func needsRule(a plan.Action) bool { return !a.Satisfied }

func rulesOf(actions []plan.Action, of func(plan.Action) bool) (rules []cgroups.Rule) {
	for _, a := range actions {
		if a.Rule != nil && of(a) {
			rules = append(rules, ruleOf(a.Rule))
		}
	}
	return rules
}

// withdraw tells systemd. What goes wrong with it is a warning: the container's programs
// deny the device all the same.
func (w *work) withdraw(ctx context.Context, p *division, away, keep []cgroups.Rule, options cgroups.Options) {
	scope := p.record.Scope
	if scope == nil || w.cgroups.scope == "" || w.settings.Systemd == settings.Skip {
		return
	}
	warn := func(err error) {
		w.warnings = append(w.warnings, fmt.Sprintf("systemd may still have rules of a device that is taken away: %v", err))
	}
	for _, name := range scope.Programs {
		if err := cgroups.DisallowPinned(name, away, keep, options); err != nil {
			warn(err)
		}
	}
	changes := p.changesOf(away, keep)
	if len(changes) == 0 {
		return
	}
	if err := w.scope.find(ctx, w.cgroups.scope); err != nil || w.scope.bus == nil {
		if err != nil {
			warn(err)
		}
		return
	}
	if err := w.scope.bus.Withdraw(scope.Unit, changes); err != nil {
		warn(err)
	}
}

// changesOf are those that systemd was told for rules that go.
func (p *division) changesOf(away, keep []cgroups.Rule) (changes []systemd.Change) {
	goes := pathsOf(away)
	for name := range pathsOf(keep) {
		delete(goes, name)
	}
	for _, d := range p.record.Scope.DeviceAllow {
		if goes[d.Path] {
			changes = append(changes, systemd.Change{Rule: systemd.Rule{Path: d.Path, Access: d.Access}, Before: d.Before})
		}
	}
	return changes
}

func pathsOf(rules []cgroups.Rule) map[string]bool {
	all := map[string]bool{}
	for _, r := range rules {
		if name, err := systemd.PathOf(r); err == nil {
			all[name] = true
		}
	}
	return all
}

// scopeLeft is what systemd still has of what it was told.
func (p *division) scopeLeft() *record.Scope {
	s := p.record.Scope
	if s == nil {
		return nil
	}
	left := &record.Scope{Unit: s.Unit, Programs: s.Programs}
	gone := p.changesOf(p.away(), rulesOf(p.stays(), needsRule))
	for _, d := range s.DeviceAllow {
		stays := true
		for _, c := range gone {
			stays = stays && c.Path != d.Path
		}
		if stays {
			left.DeviceAllow = append(left.DeviceAllow, d)
		}
	}
	return left
}
