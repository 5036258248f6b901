package hook

import (
	"context"
	"errors"
	"fmt"
	"os"

	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/cgroups/systemd"
	"oci-cdi-hook/hook/settings"
)

// scopes asks systemd what it knows, over one connection, made for the first container
// that systemd has a scope for. What goes wrong with it, goes wrong for all.
type scopes struct {
	ctx  context.Context
	skip bool
	bus  *systemd.Bus
	err  error
}

func (s *scopes) close() { s.bus.Close() }

// state reads a scope's; errors that are not about this one unit are kept.
func (s *scopes) state(unit string) (*systemd.State, error) {
	if s.bus == nil && s.err == nil {
		s.bus, s.err = systemd.Connect(s.ctx)
	}
	if s.err != nil {
		return nil, s.err
	}
	state, err := s.bus.State(unit)
	if errors.Is(err, systemd.ErrSilent) {
		s.err = err
	}
	return state, err
}

// check finds the rules that a scope's own list, or a program that systemd attaches anew,
// does not have: what the kernel allows now is lost when systemd writes the scope's rules.
func (s *scopes) check(h *held) (faults []Fault, unchecked []error) {
	scope := h.record.Scope
	if scope == nil || s.skip {
		return nil, nil
	}
	rules, of := h.rules()
	fault := func(at int, text string) {
		a := h.actions[of[at]]
		faults = append(faults, Fault{
			Action: of[at], Kind: a.Kind, Origin: a.Origin, What: rules[at].String(), Fault: FaultForgotten, Text: text, Unit: scope.Unit,
		})
	}
	state, err := s.state(scope.Unit)
	if err != nil {
		return nil, []error{err}
	}
	for at, r := range rules {
		if !state.Allows(r) {
			fault(at, fmt.Sprintf("systemd's %s does not list it any more, and it is lost when systemd writes its rules", scope.Unit))
		}
	}
	for _, name := range state.Programs {
		for at, r := range rules {
			switch allowed, sure, err := cgroups.PinnedAllows(name, []cgroups.Rule{r}); {
			case errors.Is(err, os.ErrNotExist): // nothing to attach
			case err != nil:
				unchecked = append(unchecked, err)
			case !allowed && sure:
				fault(at, fmt.Sprintf("program %s, which systemd attaches to %s, denies it", name, scope.Unit))
			case !allowed:
				unchecked = append(unchecked, fmt.Errorf("program %s, which systemd attaches to %s: it cannot be told what it allows", name, scope.Unit))
			}
		}
	}
	return faults, unchecked
}

func (h *held) rules() (rules []cgroups.Rule, of []int) {
	if h.record.RulesSkipped {
		return nil, nil
	}
	for i, a := range h.actions {
		if a.Rule != nil {
			rules, of = append(rules, ruleOf(a.Rule)), append(of, i)
		}
	}
	return rules, of
}

func (s Settings) scopes(ctx context.Context) scopes {
	return scopes{ctx: ctx, skip: s.Systemd == settings.Skip}
}
