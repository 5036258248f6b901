package hook

import (
	"context"
	"errors"
	"fmt"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/record"
)

// StateRepaired is that of a container that differed, and has now what it was given.
const StateRepaired = "repaired"

// Repairs is what [Repair] has done.
type Repairs struct {
	Containers []Repaired     `json:"containers"`
	Errors     []BrokenRecord `json:"errors"`

	asked bool // for some container
}

// Repaired is one container as it is now, and what was done to it.
type Repaired struct {
	Verified
	// Mended are the faults that were, and are no more.
	Mended []Fault `json:"mended"`
	// Failed says why others are left.
	Failed   []string `json:"failed"`
	Warnings []string `json:"warnings"`
}

// Err is what a caller has to tell apart, and nil where every container that runs has what
// it was given.
func (r *Repairs) Err() error {
	v := Verification{Errors: r.Errors, asked: r.asked}
	for _, c := range r.Containers {
		if c.State == StateRepaired {
			c.State = StateAsGiven
		}
		v.Containers = append(v.Containers, c.Verified)
	}
	return v.Err()
}

// Repair puts back what running containers were given and have no more: those that an id
// means (see [Status]), or all for an empty one. What stands in the way, because somebody
// put it there, is left and said. Nodes get the numbers that the host has now, and mounts
// its files. No vendor's hook is run. The caller is root; a rule that denies a device holds.
//
// It can be called at any time, and again after it was cut short.
func Repair(ctx context.Context, s Settings, id string) (*Repairs, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	if err := mayWorkOnRunning(); err != nil {
		return nil, err
	}
	found, err := s.choose(id)
	if err != nil {
		return nil, err
	}
	result := &Repairs{Containers: []Repaired{}, Errors: append([]BrokenRecord{}, found.broken...), asked: id != ""}
	if len(found.found) == 0 {
		return result, nil
	}
	v, err := newVerifier(ctx, s)
	if err != nil {
		return nil, err
	}
	defer v.close()
	for _, n := range found.found {
		result.Containers = append(result.Containers, s.repair(ctx, v, n.record))
	}
	return result, nil
}

func (s Settings) repair(ctx context.Context, v *verifier, r *record.Record) Repaired {
	c := Repaired{Verified: v.verify(r), Mended: []Fault{}, Failed: []string{}, Warnings: []string{}}
	switch {
	case c.State != StateDiffers && c.State != StateUnderWay && len(r.Leaving) == 0:
		return c
	case c.State == StateGone || c.State == StateStarting:
		return c
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	m := &mending{verifier: v, result: &c}
	err := m.run(ctx, s, r)
	if errors.Is(err, oci.ErrEnded) || errors.Is(err, errGone) {
		c.State, c.Faults = StateGone, []Fault{}
		return c
	}
	if err != nil {
		c.Failed = append(c.Failed, err.Error())
	}
	return c
}

// run mends under the container's lock, and looks at it again.
func (m *mending) run(ctx context.Context, s Settings, r *record.Record) (err error) {
	c, err := s.takeUp(referenceOf(r))
	if err != nil {
		return err
	}
	defer c.Close()
	dir, err := record.OpenExisting(s.stateDir())
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := trusted("state directory", s.stateDir()); err != nil {
		return err
	}
	m.direct = direct{settings: s, container: c, running: true}
	if m.entry, err = dir.Lock(ctx, r.ID, r.Bundle); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.entry.Unlock()) }()
	err = m.mend(ctx)
	m.result.Warnings = append(m.result.Warnings, m.warnings...)
	return errors.Join(err, m.look())
}

// look tells how the container is now.
func (m *mending) look() error {
	r, err := m.entry.Read()
	if err != nil {
		return fmt.Errorf("container %s: record: %w", m.container.ID, err)
	}
	clear(m.verifier.host)
	was := m.result.State
	m.result.Verified = m.verifier.verify(r)
	if m.result.State == StateAsGiven && (was != StateAsGiven || len(m.result.Mended) > 0) {
		m.result.State = StateRepaired
	}
	return nil
}
