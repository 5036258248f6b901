package hook

import (
	"errors"
	"fmt"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/hook/runtimes"
)

// Target names a container that runs: by id, or by the pid of its first process.
type Target struct {
	ID  string
	Pid int
	// Roots are the state directories of runtimes to search; the default ones where empty.
	Roots []string
}

// find looks the container up: first what this program has a record of, then what the
// runtimes say.
func (s *Settings) find(t Target) (oci.Reference, error) {
	roots := t.Roots
	if len(roots) == 0 {
		roots = runtimes.DefaultRoots()
	}
	if t.Pid != 0 {
		return s.findPid(t.Pid, roots)
	}
	c, err := runtimes.ByID(t.ID, roots)
	var unknown *runtimes.UnknownError
	if errors.As(err, &unknown) && len(unknown.Could) == 0 {
		// One that was given something by its pid is known by the id of its record.
		if ref, ok := s.recorded(func(r *record.Record) bool { return r.ID == t.ID }); ok {
			return ref, nil
		}
	}
	if err != nil {
		return oci.Reference{}, err
	}
	return referenceTo(c)
}

func referenceTo(c *runtimes.Container) (oci.Reference, error) {
	if c.Pid == 0 {
		return oci.Reference{}, fmt.Errorf("container %s: it does not run", c.ID)
	}
	return oci.Reference{
		State:     oci.State{ID: c.ID, Pid: c.Pid, Bundle: c.Bundle, Annotations: c.Annotations},
		StartTime: c.StartTime,
	}, nil
}

// findPid finds the container of a process: one that no runtime knows is called by its pid
// and start time, which no other will have until the next boot.
func (s *Settings) findPid(pid int, roots []string) (oci.Reference, error) {
	p, err := oci.OpenProcess(pid)
	if err != nil {
		return oci.Reference{}, err
	}
	start := p.StartTime
	_ = p.Close()
	if c := runtimes.ByPid(pid, roots); c != nil && (c.StartTime == 0 || c.StartTime == start) {
		ref, err := referenceTo(c)
		ref.StartTime = start
		return ref, err
	}
	if ref, ok := s.recorded(func(r *record.Record) bool { return r.Pid == pid && r.StartTime == start }); ok {
		return ref, nil
	}
	return oci.Reference{State: oci.State{ID: fmt.Sprintf("pid-%d-%d", pid, start), Pid: pid}, StartTime: start}, nil
}

// recorded finds a container that lives among the records.
func (s *Settings) recorded(is func(*record.Record) bool) (ref oci.Reference, found bool) {
	dir, err := record.OpenExisting(s.stateDir())
	if err != nil {
		return ref, false
	}
	defer dir.Close()
	_ = dir.All(func(_ string, r *record.Record, err error) {
		if err != nil || found || !is(r) || isGone(r) {
			return
		}
		ref, found = referenceOf(r), true
	})
	return ref, found
}

func referenceOf(r *record.Record) oci.Reference {
	return oci.Reference{State: oci.State{ID: r.ID, Pid: r.Pid, Bundle: r.Bundle}, StartTime: r.StartTime}
}
