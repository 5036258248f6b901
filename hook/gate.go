package hook

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/policy"
	"oci-cdi-hook/hook/settings"
	"oci-cdi-hook/hook/trust"
)

// configure reads the configuration, if there is one to read and something to read it for.
func (s *Settings) configure(annotations map[string]string) (asked bool, err error) {
	if !settings.Needed(annotations) {
		return false, nil
	}
	return true, s.load()
}

func (s *Settings) load() error {
	spareGC()
	if s.Load == nil {
		return nil
	}
	return s.Load(s)
}

// spareGC lets this process, which ends in milliseconds, collect garbage only if it needs
// an unusual lot of memory. It comes after the question whether there is anything to do:
// it stops the world twice.
func spareGC() {
	const enough = 64 << 20
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(enough)
}

// requested finds out what a container asks for and whether it may have it, before any
// spec is opened. What was asked for comes back also where it may not be had.
func (s *Settings) requested(annotations map[string]string) ([]string, error) {
	names, err := device.Requested(annotations, s.AnnotationPrefixes, annotations[containerNameKey])
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return names, s.Allow(annotations, names)
}

// Allow tells whether a container may have names: those that its annotations ask for by
// their origin, and others as its own.
func (s *Settings) Allow(annotations map[string]string, names []string) error {
	who := policy.WhoIs(annotations)
	asked := map[string]bool{}
	var requests []policy.Request
	divided := policy.ByOrigin(annotations, who)
	for _, origin := range policy.Origins() {
		found, err := device.Requested(divided[origin], s.AnnotationPrefixes, annotations[containerNameKey])
		if err != nil {
			return err
		}
		for _, name := range found {
			asked[name] = true
			requests = append(requests, policy.Request{Name: name, Origin: origin})
		}
	}
	for _, name := range names {
		if !asked[name] {
			requests = append(requests, policy.Request{Name: name, Origin: policy.FromContainer})
		}
	}
	return s.Policy.Check(requests, who)
}

// Vet tells whether the spec files of a resolution are root's alone. With "warn" what is
// not comes back as warnings.
func (s *Settings) Vet(r *device.Resolution) (warnings []string, err error) {
	var checker trust.Checker
	defer func() { err = errors.Join(err, checker.Close()) }()
	seen := map[string]bool{}
	for _, e := range r.Edits {
		if seen[e.SpecPath] {
			continue
		}
		seen[e.SpecPath] = true
		err := checker.Check(e.SpecPath)
		if err == nil {
			continue
		}
		if s.TrustedSpecs != settings.Warn {
			return nil, fmt.Errorf("spec %w (device %s)", err, e.Device)
		}
		warnings = append(warnings, fmt.Sprintf("spec %v (device %s)", err, e.Device))
	}
	return warnings, nil
}

// vetPlan tells whether a plan keeps to what the host's administrator allows of it. Mounts
// come from where their sources lead to when that is looked at.
func (s *Settings) vetPlan(p *plan.Plan) error {
	if s.Unsupported == settings.Fail {
		for _, u := range p.Unsupported {
			if !u.Quiet {
				return &UnsupportedError{u}
			}
		}
	}
	if len(s.Policy.Sources) == 0 {
		return nil
	}
	var sources []policy.Source
	resolved := map[string]string{}
	resolve := func(name string) (string, error) {
		to, err := filepath.EvalSymlinks(name)
		resolved[name] = to
		return to, err
	}
	for _, a := range p.Actions {
		if a.Mount != nil && a.Mount.Bind && !a.Satisfied {
			sources = append(sources, policy.Source{Device: a.Device, Path: a.Mount.Source})
		}
	}
	if err := s.Policy.CheckSources(sources, resolve); err != nil {
		return err
	}
	for _, a := range p.Actions {
		if a.Mount != nil && resolved[a.Mount.Source] != "" {
			a.Mount.Source = resolved[a.Mount.Source]
		}
	}
	return nil
}

// UnsupportedError says that an edit cannot be made, on a host that wants all or nothing.
type UnsupportedError struct{ Edit plan.Unsupported }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("unsupported = %q is set: %s", settings.Fail, e.Edit)
}

// ExitCode is that of a refused request.
func (e *UnsupportedError) ExitCode() int { return device.ExitRequest }

// trusted tells whether a path is root's alone, whatever TrustedSpecs says.
func trusted(what, name string) (err error) {
	var checker trust.Checker
	defer func() { err = errors.Join(err, checker.Close()) }()
	if err := checker.Check(name); err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	return nil
}
