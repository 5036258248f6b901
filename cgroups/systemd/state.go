package systemd

import (
	"errors"
	"fmt"

	godbus "github.com/godbus/dbus/v5"

	"oci-cdi-hook/cgroups"
)

// Rule is one DeviceAllow= as systemd has it.
type Rule struct {
	Path   string // a node, or char-NAME, block-NAME with a wildcard
	Access string // of "rwm"
}

// State is what a scope says of devices.
type State struct {
	Unit string
	// ControlGroup is its path below the root of systemd's cgroup namespace.
	ControlGroup string
	Policy       string // auto, closed or strict
	Allow        []Rule
	// Programs are the paths in bpffs that systemd attaches device programs from.
	Programs []string
}

// ErrNoUnit says that systemd has no such scope, or has it no more.
var ErrNoUnit = errors.New("systemd has no such scope")

// State reads a scope's properties.
func (b *Bus) State(unit string) (*State, error) {
	s := &State{Unit: unit}
	var programs []struct{ Kind, Path string }
	err := b.timed(func() error {
		for _, p := range []struct {
			name string
			into any
		}{
			{"ControlGroup", &s.ControlGroup}, {"DevicePolicy", &s.Policy}, {"DeviceAllow", &s.Allow}, {"BPFProgram", &programs},
		} {
			if err := b.property(unit, p.name, p.into); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("systemd, %s: %w", unit, err)
	}
	// Of a unit that it does not know systemd shows the defaults.
	if s.ControlGroup == "" {
		return nil, fmt.Errorf("%s: %w", unit, ErrNoUnit)
	}
	for _, p := range programs {
		if p.Kind == "device" {
			s.Programs = append(s.Programs, p.Path)
		}
	}
	return s, nil
}

// Names of D-Bus errors for a property, and a unit, that are not there.
const (
	unknownProperty = "org.freedesktop.DBus.Error.UnknownProperty"
	unknownObject   = "org.freedesktop.DBus.Error.UnknownObject"
	noSuchUnit      = "org.freedesktop.systemd1.NoSuchUnit"
)

// property leaves what systemd does not know (BPFProgram before 249) as it is.
func (b *Bus) property(unit, name string, into any) error {
	p, err := b.conn.GetUnitTypePropertyContext(b.ctx, unit, "Scope", name)
	switch {
	case isError(err, unknownProperty):
		return nil
	case isError(err, unknownObject), isError(err, noSuchUnit):
		return ErrNoUnit
	case err != nil:
		return err
	}
	return p.Value.Store(into)
}

func isError(err error, name string) bool {
	var e godbus.Error
	return errors.As(err, &e) && e.Name == name
}

// Filters tells whether systemd denies the scope any device. Where it does not, a first
// DeviceAllow would make it.
func (s *State) Filters() bool { return s.Policy != policyAuto || len(s.Allow) > 0 }

// Values of DevicePolicy=; systemd.resource-control(5).
const (
	policyAuto   = "auto"
	policyStrict = "strict"
)

// Allows tells whether systemd lets all of the rule's access pass.
func (s *State) Allows(r cgroups.Rule) bool {
	return !s.Filters() || s.lists(r)
}
