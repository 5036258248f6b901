package device

import (
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
)

// unresolved explains every name that did not resolve.
func (l *lookup) unresolved(names []string) error {
	e := &RequestError{Dirs: l.dirs, Files: slices.Clone(l.bad)}
	seenName := make(map[string]bool, len(names))
	seenKind := map[string]bool{}
	for _, name := range names {
		if seenName[name] {
			continue
		}
		seenName[name] = true
		// Names beyond those shown are counted only.
		item, bad := l.explain(name, len(e.Items) < maxItems)
		if !bad {
			continue
		}
		e.Items = append(e.Items, item)
		if kind := kindOf(name); !seenKind[kind] {
			seenKind[kind] = true
			e.Files = append(e.Files, l.failuresOf(kind, e.Files)...)
		}
	}
	return e
}

// explain reports whether a name is unresolvable and why; near names are
// looked for only where asked.
func (l *lookup) explain(name string, wantNear bool) (RequestItem, bool) {
	item := RequestItem{Name: name}
	if _, _, _, err := parser.ParseQualifiedName(name); err != nil {
		item.Reason = malformed(name, err)
		return item, true
	}
	defs := l.definitions(name)
	winner, conflict := settle(defs)
	switch {
	case conflict != nil:
		item.Reason = conflictReason(conflict, defs)
		return item, true
	case winner == nil:
		known := l.namesOf(kindOf(name))
		if wantNear {
			item.Near = near(name, known)
		}
		item.Reason = missingReason(kindOf(name), known, item.Near)
		return item, true
	}
	return item, false
}

func missingReason(kind string, known, near []string) string {
	switch {
	case len(known) == 0:
		return "unknown, no usable spec of kind " + shown(kind)
	case len(near) == 0:
		return fmt.Sprintf("unknown, not among the %d devices of kind %s", len(known), shown(kind))
	}
	return "unknown"
}

func conflictReason(conflict, defs []*loadedSpec) string {
	reason := "conflicting device, defined at the same priority by " + joinPaths(conflict)
	var others []*loadedSpec
	for _, def := range defs {
		if !slices.Contains(conflict, def) {
			others = append(others, def)
		}
	}
	if len(others) > 0 {
		reason += "; a conflict also voids the definition in " + joinPaths(others)
	}
	return reason
}

// namesOf returns the sorted qualified names that the kind has.
func (l *lookup) namesOf(kind string) []string {
	var names []string
	for _, spec := range l.specs {
		if spec.Kind != kind {
			continue
		}
		for i := range spec.Devices {
			names = append(names, kind+"="+spec.Devices[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// failuresOf returns the files that could be of the kind but were refused,
// without those already listed.
func (l *lookup) failuresOf(kind string, listed []FileError) []FileError {
	var files []FileError
	for _, failed := range l.failed {
		isListed := slices.ContainsFunc(listed, func(f FileError) bool { return f.Path == failed.file.Path })
		if slices.Contains(failed.kinds, kind) && !isListed {
			files = append(files, failed.file)
		}
	}
	return files
}

func joinPaths(specs []*loadedSpec) string {
	var paths []string
	for _, spec := range specs {
		paths = append(paths, shown(spec.path))
	}
	return joinWord(paths, " and ")
}

// joinWord joins with commas, and with word before the last item.
func joinWord(items []string, word string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + word + items[last]
}
