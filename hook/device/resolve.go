package device

import (
	"slices"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// Registry is the set of spec directories of a host. The zero value has the
// default ones, /etc/cdi and /var/run/cdi.
type Registry struct {
	// Dirs in order of priority: a later one wins.
	Dirs []string
}

// Resolution is what a request means on this host.
type Resolution struct {
	// Devices are the requested names without repetitions, in the order of
	// their first mention.
	Devices []string
	// Edits in the order of application.
	Edits []Edits
}

// Edits are container edits and where they come from.
type Edits struct {
	Device    string // the qualified name that brought them
	SpecLevel bool   // of the whole spec file, else of the device alone
	SpecPath  string
	Edits     *cdi.ContainerEdits
}

// Resolve looks up qualified names. Of several definitions of a name the one
// in the last directory counts; two of the same directory make it
// unresolvable, also where a later directory defines it too (the library's
// rule).
//
// A spec's own edits come once, at the first mention of one of its devices. A
// device's edits come at the last mention of its name: the library applies
// repeated devices repeatedly, so that the last application decides, and once
// is enough for everything but hooks, which must not run twice.
//
// Names that do not resolve are a [*RequestError] with all of them, and no
// Resolution.
func (r Registry) Resolve(names []string) (*Resolution, error) {
	if len(names) == 0 {
		return &Resolution{}, nil
	}
	l := lookup{kinds: kindsOf(names)}
	l.scan(r.dirs(), l.visit)

	found := map[string]*loadedSpec{}
	for _, name := range names {
		winner, conflict := settle(l.definitions(name))
		if winner == nil || conflict != nil {
			return nil, l.unresolved(names)
		}
		found[name] = winner
	}
	return order(names, found), nil
}

func (r Registry) dirs() []string {
	if len(r.Dirs) == 0 {
		return cdi.DefaultSpecDirs
	}
	return r.Dirs
}

// lookup holds the spec files of some kinds.
type lookup struct {
	scanner
	kinds  []string
	specs  []*loadedSpec
	failed []failedSpec
}

// failedSpec is a file that the library refuses, with the requested kinds
// that it could be of.
type failedSpec struct {
	file  FileError
	kinds []string
}

func (l *lookup) visit(raw rawSpec) {
	if !mayNameAny(raw.data, l.kinds) {
		return
	}
	spec, err := load(raw)
	if err != nil {
		failed := failedSpec{file: FileError{Path: raw.path, Err: err}}
		for _, kind := range l.kinds {
			if mayName(raw.data, kind) {
				failed.kinds = append(failed.kinds, kind)
			}
		}
		l.failed = append(l.failed, failed)
		return
	}
	if slices.Contains(l.kinds, spec.Kind) {
		l.specs = append(l.specs, spec)
	}
}

// definitions returns the specs that define a name, in order of priority.
func (l *lookup) definitions(name string) []*loadedSpec {
	vendor, class, device := parser.ParseDevice(name)
	var defs []*loadedSpec
	for _, spec := range l.specs {
		if spec.GetVendor() == vendor && spec.GetClass() == class && spec.GetDevice(device) != nil {
			defs = append(defs, spec)
		}
	}
	return defs
}

// settle picks the definition that counts out of all definitions of one name,
// which come in order of priority. If two have the same priority nothing
// counts, and they are returned as the conflict.
func settle(defs []*loadedSpec) (winner *loadedSpec, conflict []*loadedSpec) {
	for i, def := range defs {
		if i > 0 && defs[i-1].priority == def.priority {
			if len(conflict) == 0 {
				conflict = append(conflict, defs[i-1])
			}
			if conflict[0].priority == def.priority {
				conflict = append(conflict, def)
			}
		}
		winner = def
	}
	if len(conflict) > 0 {
		return nil, conflict
	}
	return winner, nil
}

// kindsOf returns the distinct kinds of qualified names.
func kindsOf(names []string) []string {
	var kinds []string
	for _, name := range names {
		if kind := kindOf(name); kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func kindOf(name string) string {
	vendor, class, _ := parser.ParseDevice(name)
	if vendor == "" {
		return ""
	}
	return vendor + "/" + class
}

// order lists the edits of the names in the order of application.
func order(names []string, found map[string]*loadedSpec) *Resolution {
	last := make(map[string]int, len(names))
	for i, name := range names {
		last[name] = i
	}
	res := &Resolution{}
	seenSpec := map[*loadedSpec]bool{}
	seenName := make(map[string]bool, len(names))
	for i, name := range names {
		spec := found[name]
		if !seenSpec[spec] {
			seenSpec[spec] = true
			res.Edits = append(res.Edits, editsOf(name, spec, true, &spec.ContainerEdits))
		}
		if last[name] == i {
			_, _, device := parser.ParseDevice(name)
			res.Edits = append(res.Edits, editsOf(name, spec, false, &spec.GetDevice(device).ContainerEdits))
		}
		if !seenName[name] {
			seenName[name] = true
			res.Devices = append(res.Devices, name)
		}
	}
	return res
}

func editsOf(name string, spec *loadedSpec, specLevel bool, edits *specs.ContainerEdits) Edits {
	return Edits{
		Device:    name,
		SpecLevel: specLevel,
		SpecPath:  spec.path,
		Edits:     &cdi.ContainerEdits{ContainerEdits: edits},
	}
}
