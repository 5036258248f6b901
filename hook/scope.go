package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/cgroups/systemd"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/hook/settings"
)

// scopeStep is what systemd is to be told, found out before the first change. What goes
// wrong with it is a warning: the device opens all the same, until systemd writes the
// scope's rules anew.
type scopeStep struct {
	bus     *systemd.Bus // nil: systemd has nothing to do with the container's devices
	state   *systemd.State
	changes []systemd.Change
}

func (s *scopeStep) close() { s.bus.Close() }

// record is what the journal has to name.
func (s *scopeStep) record() *record.Scope {
	if s.state == nil {
		return nil
	}
	r := &record.Scope{Unit: s.state.Unit, Programs: s.state.Programs}
	for _, c := range s.changes {
		r.DeviceAllow = append(r.DeviceAllow, record.DeviceAllow{Path: c.Path, Access: c.Access, Before: c.Before})
	}
	return r
}

// checkScope asks systemd about the scope that is the container's alone, if there is one.
func (w *work) checkScope(ctx context.Context) {
	c := &w.cgroups
	if c.scope == "" || len(c.rules) == 0 || w.settings.Systemd == settings.Skip {
		return
	}
	s := &w.scope
	if err := s.find(ctx, c.scope); err != nil {
		w.warnScope(err)
		return
	}
	if s.state == nil || !s.state.Filters() {
		return
	}
	if err := s.plan(c, deviceDecisions(w.container)); err != nil {
		w.warnScope(fmt.Errorf("%s: %w", s.state.Unit, err))
	}
}

// plan finds what systemd has to be told: systemd's rules come beside the runtime's, on v1
// in their place, so what it does not know of those has to be told as well.
func (s *scopeStep) plan(c *cgroupStep, asked []cgroups.Decision) error {
	if c.own.Version() == cgroups.V1 {
		if err := noChildren(c.own.Path()); err != nil {
			return err
		}
	}
	rules, err := allowedOnly(asked)
	if err != nil {
		return err
	}
	rules = slices.DeleteFunc(rules, func(r cgroups.Rule) bool {
		if s.state.Allows(r) {
			return true
		}
		allowed, sure, err := c.own.Allows([]cgroups.Rule{r})
		return err != nil || sure && !allowed // not a default of this runtime's
	})
	s.changes, err = s.state.Missing(append(rules, c.rules...))
	return err
}

func (w *work) warnScope(err error) {
	w.warnings = append(w.warnings, fmt.Sprintf("systemd does not know of the container's devices, which may be lost when it reloads: %v", err))
}

// find connects to systemd and reads the scope's state; without systemd there is none.
func (s *scopeStep) find(ctx context.Context, cgroup string) error {
	unit, _ := systemd.ScopeName(cgroup)
	bus, err := systemd.Connect(ctx)
	if errors.Is(err, systemd.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	state, err := bus.State(unit)
	if err == nil && state.ControlGroup != cgroup {
		err = fmt.Errorf("%s is the unit of cgroup %s, not of %s", unit, state.ControlGroup, cgroup)
	}
	if err != nil {
		bus.Close()
		return err
	}
	s.bus, s.state = bus, state
	return nil
}

// errMixed says that rules are taken back one by one.
var errMixed = errors.New("config.json denies single devices after it allows others, which systemd has no form for")

// allowedOnly is what is left of decisions when their denials are worked in.
func allowedOnly(decisions []cgroups.Decision) (rules []cgroups.Rule, err error) {
	for _, d := range decisions {
		switch all := d.Type == 'a' && d.Major == cgroups.Any && d.Minor == cgroups.Any; {
		case !d.Allow && (all || len(rules) == 0):
			rules = nil
		case !d.Allow:
			return nil, errMixed
		case d.Type == 'a':
			for _, kind := range "bc" {
				r := d.Rule
				r.Type = byte(kind)
				rules = append(rules, r)
			}
		default:
			rules = append(rules, d.Rule)
		}
	}
	return rules, nil
}

// noChildren refuses a cgroup of v1 that has some below: systemd denies all and allows
// anew, and what is denied below stays denied there.
func noChildren(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("cgroup %s would lose its devices", path.Join(dir, e.Name()))
		}
	}
	return nil
}

// applyScope tells systemd, after the programs: it attaches programs of its own as soon
// as it is told, and all must allow.
func (w *work) applyScope() (undo undos) {
	s, c := &w.scope, &w.cgroups
	if s.state == nil {
		return nil
	}
	for _, name := range s.state.Programs {
		u, err := cgroups.AllowPinned(name, c.rules, cgroups.Options{Rebuild: deviceDecisions(w.container)})
		if err != nil {
			w.warnScope(err)
			continue
		}
		undo = append(undo, u)
	}
	if len(s.changes) == 0 {
		return undo
	}
	if err := s.bus.Allow(s.state, s.changes); err != nil {
		w.warnScope(err)
		return undo
	}
	return append(undo, func() error { return s.bus.Withdraw(s.state.Unit, s.changes) })
}
