package device

import (
	"encoding/json"
	"slices"
	"strings"
)

// Listing is everything that the spec directories hold.
type Listing struct {
	Devices   []Listed   `json:"devices"`
	Shadowed  []Listed   `json:"shadowed"`
	Conflicts []Conflict `json:"conflicts"`
	Errors    []Unusable `json:"errors"`
}

// Listed is one definition of a device.
type Listed struct {
	Name     string `json:"name"`
	Spec     string `json:"spec"`
	Priority int    `json:"priority"`
	// By is, for a shadowed definition, the spec file that counts instead.
	By string `json:"by,omitempty"`
}

// Conflict is a device that no one gets, since spec files of one directory
// disagree about it.
type Conflict struct {
	Name     string   `json:"name"`
	Priority int      `json:"priority"`
	Specs    []string `json:"specs"`
	// Voided are definitions of other priorities, which the conflict takes
	// out as well.
	Voided []string `json:"voided,omitempty"`
}

// Unusable is a spec file or directory that could not be used.
type Unusable struct {
	Path string
	Err  error
}

// MarshalJSON gives the error as one line.
func (u Unusable) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path  string `json:"path"`
		Error string `json:"error"`
	}{u.Path, u.Reason()})
}

// Reason returns the error as one printable, bounded line.
func (u Unusable) Reason() string { return oneLine(u.Err.Error(), maxReason) }

// List reads every spec file. The result is sorted: devices by name, what
// could not be used in the order of the scan. A missing directory is no
// error.
func (r Registry) List() *Listing {
	var (
		s       scanner
		defs    = map[string][]*loadedSpec{}
		listing = &Listing{Devices: []Listed{}, Shadowed: []Listed{}, Conflicts: []Conflict{}, Errors: []Unusable{}}
	)
	s.scan(r.dirs(), func(raw rawSpec) {
		spec, err := load(raw)
		if err != nil {
			s.bad = append(s.bad, FileError{Path: raw.path, Err: err})
			return
		}
		for i := range spec.Devices {
			name := spec.Kind + "=" + spec.Devices[i].Name
			defs[name] = append(defs[name], spec)
		}
	})
	for name, specs := range defs {
		listing.add(name, specs)
	}
	for _, dir := range s.dirs {
		if dir.Err != nil {
			listing.Errors = append(listing.Errors, Unusable{dir.Path, dir.Err})
		}
	}
	for _, bad := range s.bad {
		listing.Errors = append(listing.Errors, Unusable(bad))
	}
	listing.sort()
	return listing
}

func (l *Listing) add(name string, defs []*loadedSpec) {
	winner, conflict := settle(defs)
	if conflict != nil {
		c := Conflict{Name: name, Priority: conflict[0].priority}
		for _, def := range defs {
			if slices.Contains(conflict, def) {
				c.Specs = append(c.Specs, def.path)
			} else {
				c.Voided = append(c.Voided, def.path)
			}
		}
		l.Conflicts = append(l.Conflicts, c)
		return
	}
	for _, def := range defs {
		if def == winner {
			l.Devices = append(l.Devices, Listed{Name: name, Spec: def.path, Priority: def.priority})
			continue
		}
		l.Shadowed = append(l.Shadowed, Listed{Name: name, Spec: def.path, Priority: def.priority, By: winner.path})
	}
}

func (l *Listing) sort() {
	// Stable: definitions of one name are in order of priority already.
	byName := func(a, b Listed) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(l.Devices, byName)
	slices.SortStableFunc(l.Shadowed, byName)
	slices.SortFunc(l.Conflicts, func(a, b Conflict) int { return strings.Compare(a.Name, b.Name) })
}
