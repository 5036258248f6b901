package hook

import (
	"encoding/json"
	"fmt"
	"slices"

	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
)

// merge makes r, the record of what is being done now, tell also of what the same process
// was given before. Without keep that is no more than which of it is our own work: the
// stage is run again, and does all of it again.
func merge(r, old *record.Record, keep bool) error {
	had, err := recordedActions(old)
	if err != nil {
		return err
	}
	now, err := recordedActions(r)
	if err != nil {
		return err
	}
	var all []plan.Action
	if keep {
		all = slices.Clone(had)
	} else {
		all = slices.Clone(now)
		for i := range all {
			if j := indexOf(had, &all[i]); j >= 0 {
				all[i].Found = all[i].Found && had[j].Found
			}
		}
	}
	at := map[int]int{} // of an action of now among all
	for i := range now {
		j := indexOf(all, &now[i])
		if j < 0 && now[i].Found {
			// In other words, and with the same effect.
			j = slices.IndexFunc(all, func(o plan.Action) bool { return o.Mount != nil && o.SamePlace(&now[i]) })
		}
		if j < 0 {
			all, j = append(all, now[i]), len(all)
		} else if keep {
			all[j].Join(&now[i])
		}
		at[i] = j
	}
	if r.Actions, err = json.Marshal(all); err != nil || !keep {
		return err
	}
	return keepOld(r, old, at)
}

func indexOf(all []plan.Action, a *plan.Action) int {
	return slices.IndexFunc(all, func(o plan.Action) bool { return o.Same(a) })
}

// keepOld takes over the rest of the old record; at tells where actions have gone.
func keepOld(r, old *record.Record, at map[int]int) error {
	r.Mounted, r.Hostless = slices.Clone(r.Mounted), slices.Clone(r.Hostless)
	for i := range r.Mounted {
		r.Mounted[i].Action = at[r.Mounted[i].Action]
	}
	for _, m := range old.Mounted {
		if !slices.ContainsFunc(r.Mounted, func(n record.Mounted) bool { return n.Action == m.Action }) {
			r.Mounted = append(r.Mounted, m)
		}
	}
	for i := range r.Hostless {
		r.Hostless[i] = at[r.Hostless[i]]
	}
	r.Hostless = union(old.Hostless, r.Hostless)
	r.Leaving = slices.DeleteFunc(slices.Clone(old.Leaving), func(name string) bool { return slices.Contains(r.Devices, name) })
	r.Devices, r.Targets, r.Missing = union(old.Devices, r.Devices), union(old.Targets, r.Targets), union(old.Missing, r.Missing)
	r.Started = old.Started
	r.Scope = joinScopes(old.Scope, r.Scope)
	r.RulesSkipped = r.RulesSkipped || old.RulesSkipped
	if old.Root != "" {
		r.Root, r.RootBorn = old.Root, old.RootBorn
	}
	var before, now []plan.Unsupported
	for raw, list := range map[*json.RawMessage]*[]plan.Unsupported{&old.Unsupported: &before, &r.Unsupported: &now} {
		if len(*raw) == 0 {
			continue
		}
		if err := json.Unmarshal(*raw, list); err != nil {
			return fmt.Errorf("record of container %s: %w", r.ID, err)
		}
	}
	var err error
	r.Unsupported, err = json.Marshal(union(before, now))
	return err
}

// joinScopes keeps what systemd was told before: a path has the access it had at first.
func joinScopes(old, now *record.Scope) *record.Scope {
	if old == nil || now == nil || old.Unit != now.Unit {
		if now == nil {
			return old
		}
		return now
	}
	all := &record.Scope{Unit: now.Unit, Programs: union(old.Programs, now.Programs), DeviceAllow: slices.Clone(old.DeviceAllow)}
	for _, d := range now.DeviceAllow {
		at := slices.IndexFunc(all.DeviceAllow, func(o record.DeviceAllow) bool { return o.Path == d.Path })
		if at < 0 {
			all.DeviceAllow = append(all.DeviceAllow, d)
		} else {
			all.DeviceAllow[at].Access = d.Access
		}
	}
	return all
}

func union[T comparable](a, b []T) []T {
	all := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
