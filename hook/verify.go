package hook

import (
	"context"
	"errors"
	"fmt"
	"os"

	"oci-cdi-hook/hook/record"
)

// States of a container in [Verification].
const (
	StateAsGiven   = "as-given"
	StateDiffers   = "differs"
	StateUnchecked = "unchecked" // nothing was seen to differ, but not all could be seen
	StateGone      = "gone"
	StateStarting  = "starting"
	StateUnderWay  = "unfinished" // a hook works on it, or was killed while it did
)

// Verification compares what containers were given with what they have.
type Verification struct {
	Containers []Verified     `json:"containers"`
	Errors     []BrokenRecord `json:"errors"`

	asked bool // for some container
}

// Verified is one container.
type Verified struct {
	ID      string   `json:"id"`
	Name    string   `json:"name,omitempty"`
	Pod     string   `json:"pod,omitempty"`
	Pid     int      `json:"pid"`
	State   string   `json:"state"`
	Devices []string `json:"devices"`
	Faults  []Fault  `json:"faults"`
	// Unchecked says what could not be compared.
	Unchecked []string `json:"unchecked"`
}

// Err is what a caller has to tell apart, and nil where all is as it was given.
func (v *Verification) Err() error {
	if n := v.count(StateDiffers); n > 0 {
		return &DiffersError{Containers: n}
	}
	n := v.count(StateUnchecked) + len(v.Errors)
	if v.asked && v.count(StateAsGiven) == 0 {
		n = max(1, len(v.Containers)+len(v.Errors))
	}
	if n > 0 {
		return &UncheckedError{Containers: n}
	}
	return nil
}

func (v *Verification) count(state string) (n int) {
	for _, c := range v.Containers {
		if c.State == state {
			n++
		}
	}
	return n
}

// Verify compares the running containers with their records: those that an id means (see
// [Status]), or all for an empty one. It changes nothing.
func Verify(ctx context.Context, s Settings, id string) (*Verification, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	found, err := s.choose(id)
	if err != nil {
		return nil, err
	}
	result := &Verification{Containers: []Verified{}, Errors: append([]BrokenRecord{}, found.broken...), asked: id != ""}
	if len(found.found) == 0 {
		return result, nil
	}
	v, err := newVerifier(ctx, s)
	if err != nil {
		return nil, err
	}
	defer v.close()
	for _, n := range found.found {
		result.Containers = append(result.Containers, v.verify(n.record))
	}
	return result, nil
}

// choose is [choose] where there may be no state directory yet.
func (s Settings) choose(id string) (*selection, error) {
	dir, err := record.OpenExisting(s.stateDir())
	if errors.Is(err, os.ErrNotExist) {
		return (&selection{}).narrow(id)
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return choose(dir, id)
}

func (v *verifier) verify(r *record.Record) Verified {
	c := Verified{
		ID: r.ID, Name: r.Name, Pod: r.Pod, Pid: r.Pid, State: StateAsGiven,
		Devices: append([]string{}, r.Devices...), Faults: []Fault{}, Unchecked: []string{},
	}
	h, err := v.hold(r)
	switch {
	case errors.Is(err, errGone):
		c.State = StateGone
	case errors.Is(err, errStarting):
		c.State = StateStarting
	case err != nil:
		c.State, c.Unchecked = StateUnchecked, []string{err.Error()}
	}
	if err != nil {
		return c
	}
	defer h.close()
	if !r.Done {
		c.State = StateUnderWay
		return c
	}
	faults, unchecked := v.check(h)
	if len(faults)+len(unchecked) > 0 && !h.process.Alive() {
		c.State = StateGone // and its mounts with it
		return c
	}
	for _, err := range unchecked {
		c.State = StateUnchecked
		c.Unchecked = append(c.Unchecked, err.Error())
	}
	if len(faults) > 0 {
		c.State, c.Faults = StateDiffers, faults
	}
	return c
}

// ExitDiffers is the exit code for what is valid, but not as it should be on this host.
const ExitDiffers = 4

// DiffersError says that containers have not what they were given.
type DiffersError struct{ Containers int }

func (e *DiffersError) Error() string { return count(e.Containers, "container") + " not as given" }

// ExitCode tells it from a failure.
func (e *DiffersError) ExitCode() int { return ExitDiffers }

// UncheckedError says that nothing was seen to differ, and not all could be seen.
type UncheckedError struct{ Containers int }

func (e *UncheckedError) Error() string {
	return count(e.Containers, "container") + " could not be compared in full"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
