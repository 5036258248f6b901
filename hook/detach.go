package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
)

// Detach takes devices away from a container that runs: what this program gave it, at its
// start or since, and no other device that it keeps needs. What was changed meanwhile by
// somebody else stays, with a warning. Descriptors of a device that are open stay open.
func Detach(ctx context.Context, s Settings, t Target, names []string) (*Outcome, error) {
	out := &Outcome{ContainerID: t.ID, Asked: names}
	if err := s.load(); err != nil {
		return out, err
	}
	ref, err := s.find(t)
	if err != nil {
		return out, err
	}
	return s.detach(ctx, ref, names)
}

func (s Settings) detach(ctx context.Context, ref oci.Reference, names []string) (*Outcome, error) {
	out := &Outcome{ContainerID: ref.ID, ContainerName: ref.Annotations[containerNameKey], Pid: ref.Pid, Asked: names}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	c, err := s.takeUp(ref)
	if err != nil {
		return out, err
	}
	defer c.Close()
	d := direct{settings: s, container: c, plan: &plan.Plan{}, running: true}
	out.Plan, err = d.takeAway(ctx, names)
	out.Warnings = d.warnings
	return out, err
}

// takeAway does it under the lock.
func (d *direct) takeAway(ctx context.Context, names []string) (gone *plan.Plan, err error) {
	dir, err := record.OpenExisting(d.settings.stateDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, d.notGiven(names, nil)
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if d.entry, err = dir.Lock(ctx, d.container.ID, d.container.Bundle); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.entry.Unlock()) }()
	d.old, err = d.entry.Read()
	if errors.Is(err, os.ErrNotExist) || err == nil && !d.isThisRun(d.old) {
		return nil, d.notGiven(names, nil)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.Contains(d.old.Devices, name) {
			return nil, d.notGiven([]string{name}, d.old.Devices)
		}
	}
	return d.leave(ctx, names)
}

func (d *direct) notGiven(names, has []string) error {
	text := fmt.Sprintf("container %s: this program gave it no %s", d.container.ID, strings.Join(names, ", "))
	if len(has) > 0 {
		text += ", but " + strings.Join(has, ", ")
	}
	return &RefusedError{text}
}

// leave journals what goes, takes it away, and writes what stays. Where it is cut short,
// or fails, it can be done again.
func (d *direct) leave(ctx context.Context, names []string) (*plan.Plan, error) {
	r := *d.old
	r.Leaving = union(r.Leaving, names)
	parts, err := divide(&r)
	if err != nil {
		return nil, err
	}
	gone := &plan.Plan{Devices: r.Leaving, Actions: parts.goes(), Unsupported: []plan.Unsupported{}}
	if err := d.entry.Write(&r); err != nil {
		return gone, err
	}
	w, err := d.prepare(ctx)
	if err != nil {
		return gone, err
	}
	defer w.close()
	if err := w.removeAll(ctx, parts); err != nil {
		return gone, err
	}
	left, err := parts.rest()
	if err != nil {
		return gone, err
	}
	if len(left.Devices) == 0 && len(parts.stays()) == 0 {
		return gone, d.entry.Remove()
	}
	return gone, d.entry.Write(left)
}

// division is the actions of a record, and which of them go with the devices that leave.
type division struct {
	record  *record.Record
	actions []plan.Action
	going   []bool
}

// divide sorts out what only the devices that leave need. Their hooks of poststop stay:
// those clean up after hooks that were run when the container was created.
func divide(r *record.Record) (*division, error) {
	actions, err := recordedActions(r)
	if err != nil {
		return nil, err
	}
	p := &division{record: r, actions: actions}
	leaves := func(name string) bool { return slices.Contains(r.Leaving, name) }
	for i := range p.actions {
		a := &p.actions[i]
		needed := slices.DeleteFunc(append([]string{a.Device}, a.Serves...), leaves)
		p.going = append(p.going, len(needed) == 0 && (a.Hook == nil || !plan.IsLater(a.Hook.Stage)))
		if len(needed) > 0 {
			a.Device, a.Serves = needed[0], needed[1:]
		}
	}
	return p, nil
}

func (p *division) choose(going bool) (some []plan.Action) {
	for i, a := range p.actions {
		if p.going[i] == going {
			some = append(some, a)
		}
	}
	return some
}

func (p *division) goes() []plan.Action  { return p.choose(true) }
func (p *division) stays() []plan.Action { return p.choose(false) }

// rest is the record without what has gone.
func (p *division) rest() (*record.Record, error) {
	r := *p.record
	leaves := func(name string) bool { return slices.Contains(p.record.Leaving, name) }
	r.Devices = slices.DeleteFunc(slices.Clone(r.Devices), leaves)
	r.Leaving, r.Mounted, r.Hostless, r.Targets, r.Missing = nil, nil, nil, nil, nil
	at := map[int]int{}
	for i := range p.actions {
		if !p.going[i] {
			at[i] = len(at)
		}
	}
	for _, m := range p.record.Mounted {
		if to, stays := at[m.Action]; stays {
			r.Mounted = append(r.Mounted, record.Mounted{Action: to, Dev: m.Dev, Ino: m.Ino})
		}
	}
	for _, i := range p.record.Hostless {
		if to, stays := at[i]; stays {
			r.Hostless = append(r.Hostless, to)
		}
	}
	for _, t := range p.record.Targets {
		if !p.isGone(t) {
			r.Targets = append(r.Targets, t)
		}
	}
	for _, m := range p.record.Missing {
		if p.isNeeded(m.Path) {
			r.Missing = append(r.Missing, m)
		}
	}
	r.Scope = p.scopeLeft()
	var err error
	r.Actions, err = json.Marshal(p.stays())
	return &r, err
}

func targetOf(a plan.Action) string {
	switch {
	case a.Mount != nil:
		return path.Join("/", a.Mount.Target)
	case a.Node != nil:
		return path.Join("/", a.Node.Path)
	}
	return ""
}

// isGone tells whether a target is of something that goes, and of nothing that stays.
func (p *division) isGone(target string) bool {
	is := func(a plan.Action) bool { return targetOf(a) == target }
	return slices.ContainsFunc(p.goes(), is) && !slices.ContainsFunc(p.stays(), is)
}

// isNeeded tells whether a path that was made is at or above something that stays.
func (p *division) isNeeded(made string) bool {
	return slices.ContainsFunc(p.record.Targets, func(t string) bool {
		return !p.isGone(t) && (t == made || strings.HasPrefix(t, strings.TrimSuffix(made, "/")+"/"))
	})
}
