package systemd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"oci-cdi-hook/cgroups"
)

// Change is a DeviceAllow= that is added, and what access its path had before, if any.
type Change struct {
	Rule
	Before string
}

// PathOf is the path that a rule has in DeviceAllow=.
func PathOf(r cgroups.Rule) (string, error) { return deviceAllow(r) }

// Missing lists what has to be added so that systemd allows the rules; nothing where it
// filters nothing. A path that is listed already keeps the access that it has.
func (s *State) Missing(rules []cgroups.Rule) ([]Change, error) {
	var all []Change
	for _, r := range rules {
		if s.Allows(r) {
			continue
		}
		name, err := deviceAllow(r)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(c Change) bool { return c.Path == name })
		if at < 0 {
			before := s.accessOf(name)
			all = append(all, Change{Rule{name, before}, before})
			at = len(all) - 1
		}
		// Of a path's rules systemd takes the last: each comes once, with all its access.
		all[at].Access = union(all[at].Access, r.Access)
	}
	return all, nil
}

func (s *State) accessOf(name string) string {
	if at := slices.IndexFunc(s.Allow, func(r Rule) bool { return r.Path == name }); at >= 0 {
		return s.Allow[at].Access
	}
	return ""
}

func union(a, b string) string {
	all := ""
	for _, c := range "rwm" {
		if strings.ContainsRune(a+b, c) {
			all += string(c)
		}
	}
	return all
}

// ErrNoFilter says that a rule would take all other devices away.
var ErrNoFilter = errors.New("systemd does not filter its devices, and DeviceAllow would make it")

// Allow adds rules to a scope for as long as it lives. It does not wait until they are in
// the kernel.
func (b *Bus) Allow(s *State, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	if !s.Filters() {
		return fmt.Errorf("%s: %w", s.Unit, ErrNoFilter)
	}
	var rules []Rule
	for _, c := range changes {
		rules = append(rules, c.Rule)
	}
	return b.set(s.Unit, rules)
}

// Withdraw takes back changes that Allow has made: a path gets the access that it had
// before, unless somebody has changed it since. A scope that is gone has none to take back.
func (b *Bus) Withdraw(unit string, changes []Change) error {
	s, err := b.State(unit)
	if errors.Is(err, ErrNoUnit) {
		return nil
	}
	if err != nil {
		return err
	}
	rest := s.without(changes)
	switch {
	case slices.Equal(rest, s.Allow):
		return nil
	case len(rest) == 0 && s.Policy == policyAuto:
		return fmt.Errorf("%s: its last DeviceAllow stays, without any it could open every device", unit)
	}
	// An empty list resets (systemd.resource-control(5)); systemd applies both at once.
	return b.set(unit, []Rule{}, rest)
}

func (s *State) without(changes []Change) []Rule {
	rest := []Rule{}
	for _, r := range s.Allow {
		at := slices.IndexFunc(changes, func(c Change) bool { return c.Rule == r })
		if at >= 0 {
			r.Access = changes[at].Before
		}
		if r.Access != "" {
			rest = append(rest, r)
		}
	}
	return rest
}

func (b *Bus) set(unit string, lists ...[]Rule) error {
	var properties []dbus.Property
	for _, l := range lists {
		properties = append(properties, dbus.Property{Name: "DeviceAllow", Value: godbus.MakeVariant(l)})
	}
	err := b.timed(func() error {
		return b.conn.SetUnitPropertiesContext(b.ctx, unit, true, properties...)
	})
	if isError(err, noSuchUnit) {
		err = ErrNoUnit
	}
	if err != nil {
		return fmt.Errorf("systemd, DeviceAllow of %s: %w", unit, err)
	}
	return nil
}
