package hook

import (
	"io"
	"os"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/trust"
	"oci-cdi-hook/hook/vendor"
)

// Listing is what the spec directories define, and which of it is refused all the same.
type Listing struct {
	*device.Listing
	// Untrusted are spec files that are not root's alone.
	Untrusted []Untrusted `json:"untrusted"`
	// Searched are the directories.
	Searched []string `json:"searched"`
}

// Untrusted is a spec file and why it is not trusted.
type Untrusted struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// List says what devices the spec directories define.
func List(s Settings) (*Listing, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	l := &Listing{Listing: device.Registry{Dirs: s.SpecDirs}.List(), Untrusted: []Untrusted{}, Searched: s.SpecDirs}
	var checker trust.Checker
	seen := map[string]bool{}
	for _, d := range l.Devices {
		if seen[d.Spec] {
			continue
		}
		seen[d.Spec] = true
		if err := checker.Check(d.Spec); err != nil {
			l.Untrusted = append(l.Untrusted, Untrusted{Path: d.Spec, Error: err.Error()})
		}
	}
	return l, checker.Close()
}

// Planned is a plan and what the host's policy says of it.
type Planned struct {
	*plan.Plan
	// Refused says why the host's configuration does not let the container have it; empty
	// if it does.
	Refused string `json:"refused,omitempty"`
	// Refusal is the same as an error.
	Refusal error `json:"-"`
}

// PlanFor plans names for a container that has the config of a file, or for one of which
// nothing is known. Nothing is changed and no container is looked for.
func PlanFor(s Settings, names []string, configFile string) (*Planned, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	c := ForConfig(nil)
	var annotations map[string]string
	if configFile != "" {
		config, err := oci.ReadConfigFile(configFile)
		if err != nil {
			return nil, err
		}
		c, annotations = ForConfig(config), config.Annotations
	}
	p, err := PlanNames(s, names, c)
	if err != nil {
		return nil, err
	}
	p.Notes = append(p.Notes, drift(p)...)
	refused := s.Allow(annotations, names)
	if refused == nil {
		refused = s.vetPlan(p)
	}
	planned := &Planned{Plan: p, Refusal: refused}
	if refused != nil {
		planned.Refused = refused.Error()
	}
	return planned, nil
}

// Hidden verbs, by which this program runs itself: behind the first is [ExecVendorHook],
// behind the second [SuperviseVendorHooks].
const (
	ExecVerb      = vendor.ExecVerb
	SuperviseVerb = vendor.SuperviseVerb
)

// SuperviseVendorHooks runs vendors' hooks inside a container, on the order of another
// process of this program.
func SuperviseVendorHooks(in io.Reader, out io.Writer) error { return vendor.Supervise(in, out) }

// ExecVendorHook becomes a vendor's hook, in the namespaces that the caller is in.
func ExecVendorHook(args []string) error { return vendor.Exec(args, os.Environ()) }
