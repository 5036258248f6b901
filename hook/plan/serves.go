package plan

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"oci-cdi-hook/hook/device"
)

// serves says of each action which of the other requested devices need it too: those that
// have the same edit, and for an edit of a whole spec file all of that file. One device can
// be taken away then without what the others need.
func (b *builder) serves(r *device.Resolution) {
	if len(r.Devices) < 2 {
		return
	}
	n := needs{}
	for _, e := range r.Edits {
		n.add(e, devicesOf(e, r))
	}
	// The numbers of a rule are those of a node of the plan: a spec need not have them.
	for _, a := range b.plan.Actions {
		if a.Node != nil {
			n.all(ruleKey(a.Node.Type, a.Node.Major, a.Node.Minor), append(n[a.need()], a.Device))
		}
	}
	for i := range b.plan.Actions {
		a := &b.plan.Actions[i]
		for _, name := range n[a.need()] {
			if name != a.Device {
				a.Serves = append(a.Serves, name)
			}
		}
	}
}

// devicesOf names the requested devices that edits are for.
func devicesOf(e device.Edits, r *device.Resolution) []string {
	if !e.SpecLevel {
		return []string{e.Device}
	}
	var names []string
	for _, name := range r.Devices {
		if specOf(name, r.Edits) == e.SpecPath {
			names = append(names, name)
		}
	}
	return names
}

// needs are the devices that need what an edit brings.
type needs map[string][]string

func (n needs) all(key string, names []string) {
	for _, name := range names {
		if !slices.Contains(n[key], name) {
			n[key] = append(n[key], name)
		}
	}
}

func (n needs) add(e device.Edits, names []string) {
	if e.Edits == nil || e.Edits.ContainerEdits == nil {
		return
	}
	for _, m := range e.Edits.Mounts {
		n.all(mountKey(m.ContainerPath), names)
	}
	for _, d := range e.Edits.DeviceNodes {
		n.all(nodeKey(d.Path), names)
	}
	for _, h := range e.Edits.Hooks {
		n.all(hookKey(h.HookName, h.Path, h.Args), names)
	}
}

func mountKey(target string) string { return "mount " + path.Clean(target) }

func nodeKey(name string) string { return "node " + path.Clean(name) }

func hookKey(stage, name string, args []string) string {
	return "hook " + stage + " " + name + "\x00" + strings.Join(args, "\x00")
}

func ruleKey(kind string, major, minor int64) string {
	if kind == "u" {
		kind = "c"
	}
	return "rule " + (&Rule{Type: kind, Major: major, Minor: minor}).numbers()
}

// need is what the action is known by among edits.
func (a *Action) need() string {
	switch {
	case a.Mount != nil:
		return mountKey(a.Mount.Target)
	case a.Node != nil:
		return nodeKey(a.Node.Path)
	case a.Rule != nil:
		return ruleKey(a.Rule.Type, a.Rule.Major, a.Rule.Minor)
	case a.Hook != nil:
		return hookKey(a.Hook.Stage, a.Hook.Path, a.Hook.Args)
	}
	return ""
}

// Same tells whether two actions have the same effect on the container: the same mount on
// the same place, the same node, the same access.
func (a *Action) Same(o *Action) bool {
	if a.Kind != o.Kind || a.need() != o.need() {
		return false
	}
	switch {
	case a.Mount != nil:
		return a.Mount.Source == o.Mount.Source && a.Mount.Type == o.Mount.Type && slices.Equal(a.Mount.Options, o.Mount.Options)
	case a.Node != nil:
		return ruleKey(a.Node.Type, a.Node.Major, a.Node.Minor) == ruleKey(o.Node.Type, o.Node.Major, o.Node.Minor)
	case a.Rule != nil:
		return a.Rule.Access == o.Rule.Access
	case a.Hook != nil:
		return slices.Equal(a.Hook.Env, o.Hook.Env)
	}
	return true
}

// SamePlace tells whether two actions are for one place in the container.
func (a *Action) SamePlace(o *Action) bool { return a.Kind == o.Kind && a.need() == o.need() }

// Join takes on that the same action was planned for other devices too.
func (a *Action) Join(o *Action) {
	a.Found, a.Satisfied = a.Found && o.Found, a.Satisfied && o.Satisfied
	for _, name := range append([]string{o.Device}, o.Serves...) {
		if name != a.Device && !slices.Contains(a.Serves, name) {
			a.Serves = append(a.Serves, name)
		}
	}
}

func (r *Rule) numbers() string {
	return r.Type + " " + strconv.FormatInt(r.Major, 10) + ":" + strconv.FormatInt(r.Minor, 10)
}
