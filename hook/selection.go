package hook

import (
	"fmt"
	"slices"
	"strings"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/record"
)

// selection is what an id means among the records of a state directory.
type selection struct {
	found  []named
	broken []BrokenRecord
}

// named is a record with the name of its files.
type named struct {
	name   string
	record *record.Record
}

// BrokenRecord is a record that says nothing: cut short, or of a newer version.
type BrokenRecord struct {
	// ID is the container's as far as the file's name tells it.
	ID    string `json:"id"`
	Error string `json:"error"`
}

// UnknownContainerError says that no record has what was asked for, or that several do.
type UnknownContainerError struct {
	Asked string
	// IDs are those that it could mean.
	IDs []string
}

func (e *UnknownContainerError) Error() string {
	if len(e.IDs) == 0 {
		return fmt.Sprintf("container %q: no record of it: it was given nothing by this program, or has ended since", e.Asked)
	}
	return fmt.Sprintf("container %q: could be %s", e.Asked, strings.Join(e.IDs, ", "))
}

// ExitCode is that of a refused request.
func (e *UnknownContainerError) ExitCode() int { return device.ExitRequest }

// choose finds the records that an id means: all for an empty one, else those of the
// container with this id, this name, or the only id that begins so. Two bundles may have
// one id, under two roots of a runtime.
func choose(dir *record.Dir, asked string) (*selection, error) {
	var all selection
	err := dir.All(func(name string, r *record.Record, err error) {
		if err != nil {
			all.broken = append(all.broken, BrokenRecord{ID: record.IDOf(name), Error: err.Error()})
			return
		}
		all.found = append(all.found, named{name, r})
	})
	if err != nil {
		return nil, err
	}
	return all.narrow(asked)
}

func (s *selection) narrow(asked string) (*selection, error) {
	if asked == "" {
		return s, nil
	}
	for _, means := range []func(id, name string) bool{
		func(id, _ string) bool { return id == asked },
		func(_, name string) bool { return name == asked },
		func(id, _ string) bool { return strings.HasPrefix(id, asked) },
	} {
		some, ids := s.that(means)
		if len(ids) > 1 {
			some, ids = some.living()
		}
		switch len(ids) {
		case 0:
		case 1:
			return some, nil
		default:
			return nil, &UnknownContainerError{Asked: asked, IDs: ids}
		}
	}
	return nil, &UnknownContainerError{Asked: asked}
}

func (s *selection) that(means func(id, name string) bool) (some *selection, ids []string) {
	some = &selection{}
	for _, n := range s.found {
		if means(n.record.ID, n.record.Name) {
			some.found = append(some.found, n)
			ids = append(ids, n.record.ID)
		}
	}
	for _, b := range s.broken {
		if means(b.ID, "") {
			some.broken = append(some.broken, b)
			ids = append(ids, b.ID)
		}
	}
	slices.Sort(ids)
	return some, slices.Compact(ids)
}

// living leaves out containers that have ended, if others remain: engines give names
// again.
func (s *selection) living() (*selection, []string) {
	living, ids := s.that(func(string, string) bool { return true })
	living.found = slices.DeleteFunc(living.found, func(n named) bool { return isGone(n.record) })
	if len(living.found)+len(living.broken) == 0 {
		return s, ids
	}
	return living.that(func(string, string) bool { return true })
}
