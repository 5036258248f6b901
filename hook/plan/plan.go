// Package plan turns the edits of requested devices and what is known of a container into
// the actions that give the container its devices, in order. A plan is a value: the same
// one is printed, written to the journal and applied.
//
// It is pure. It looks at nothing but its input, so that it cannot know whether a target
// exists or a rule is needed; who applies the plan finds out, before the first change.
package plan

import (
	"fmt"
	"path"
	"slices"
	"strconv"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/hook/device"
)

// Kinds of actions, in the order in which they are done.
const (
	KindMount = "mount"
	KindNode  = "node"
	KindRule  = "rule"
	KindHook  = "hook"
)

// Plan is what would be done for a request.
type Plan struct {
	Devices     []string      `json:"devices"`
	Actions     []Action      `json:"actions"`
	Unsupported []Unsupported `json:"unsupported"`
	// Warnings are worth telling at every start, Notes to who looks at the plan.
	Warnings []string `json:"warnings,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// Origin says which device brought an action, from which spec file.
type Origin struct {
	Device string `json:"device"`
	Spec   string `json:"spec"`
}

// String names both for an error or a log line.
func (o Origin) String() string { return fmt.Sprintf("device %s of spec %s", o.Device, o.Spec) }

// Action is one thing to do. Only the part of its kind is set.
type Action struct {
	Kind string `json:"kind"`
	Origin
	Mount *Mount `json:"mount,omitempty"`
	Node  *Node  `json:"node,omitempty"`
	Rule  *Rule  `json:"rule,omitempty"`
	Hook  *Hook  `json:"hook,omitempty"`
	// Satisfied says that the runtime does it already, because config.json has it.
	Satisfied bool `json:"satisfied,omitempty"`
	// Found says that it was there with the same effect before anything was done.
	Found bool `json:"found,omitempty"`
	// Serves are other devices that the action serves too.
	Serves []string `json:"serves,omitempty"`
}

// IsOurs tells of an action that this program has done.
func (a Action) IsOurs() bool { return !a.Satisfied && !a.Found }

// Mount is a bind, or a filesystem where Bind is false.
type Mount struct {
	Source  string   `json:"source"`
	Target  string   `json:"target"`
	Type    string   `json:"type,omitempty"`
	Options []string `json:"options"`
	Bind    bool     `json:"bind"`
}

// Node is a device node. Owner ids are the container's.
type Node struct {
	Path     string `json:"path"`
	HostPath string `json:"hostPath"`
	Type     string `json:"type"` // b, c, u or p
	Major    int64  `json:"major"`
	Minor    int64  `json:"minor"`
	Mode     Mode   `json:"mode"`
	UID      uint32 `json:"uid"`
	GID      uint32 `json:"gid"`
}

// Mode is the permission bits of a node, in JSON an octal string.
type Mode uint32

// MarshalText gives the bits as ls(1) users know them.
func (m Mode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

// UnmarshalText reads what MarshalText wrote.
func (m *Mode) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 8, 32)
	*m = Mode(v)
	return err
}

// Rule allows a device in the container's cgroup.
type Rule struct {
	Type   string `json:"type"` // b or c
	Major  int64  `json:"major"`
	Minor  int64  `json:"minor"`
	Access string `json:"access"`
}

// Hook is a vendor's hook that is run in place of the runtime.
type Hook struct {
	Stage   string   `json:"stage"`
	Path    string   `json:"path"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Timeout *int     `json:"timeout,omitempty"` // seconds
}

// Unsupported is an edit that cannot be had from a hook and that config.json does not
// have already.
type Unsupported struct {
	Edit  string `json:"edit"` // CDI's name: env, additionalGids, hooks, mounts, netDevices, intelRdt
	Value string `json:"value"`
	Origin
	Reason string `json:"reason"`
	// Quiet: known to be harmless, nobody is told unless they ask.
	Quiet bool `json:"quiet,omitempty"`
}

// String is one line about it.
func (u Unsupported) String() string {
	return fmt.Sprintf("%s %s (%s): %s", u.Edit, u.Value, u.Origin, u.Reason)
}

// Container is what a plan depends on.
type Container struct {
	Config *oci.Spec // never nil; empty where it is unknown
	// UserNamespace: the container has one of its own.
	UserNamespace bool
	// CanEnterUserNamespace: hooks can be run in it.
	CanEnterUserNamespace bool
	// Running: it has started, and has its own root.
	Running bool
	// IgnoreEnv lists variables, NAME=value, whose absence harms nothing.
	IgnoreEnv []string
	// Entries are the later stages, poststart and poststop, at which the engine calls
	// this program again for the container.
	Entries []string
}

// EmptyDeviceError says that nothing at all of a device can be applied.
type EmptyDeviceError struct {
	Device      string
	Unsupported []Unsupported
}

func (e *EmptyDeviceError) Error() string {
	why := "it has no edits"
	if len(e.Unsupported) > 0 {
		why = e.Unsupported[0].String()
	}
	return fmt.Sprintf("device %s: nothing of it can be applied in this mode: %s", e.Device, why)
}

// ExitCode is that of a refused request.
func (e *EmptyDeviceError) ExitCode() int { return device.ExitRequest }

// Build orders what a request means for a container.
func Build(r *device.Resolution, n *device.Native, c Container) (*Plan, error) {
	b := builder{c: c, plan: &Plan{Devices: r.Devices, Actions: []Action{}, Unsupported: []Unsupported{}}}
	for _, m := range n.Mounts {
		if err := b.mount(m); err != nil {
			return nil, err
		}
	}
	for _, d := range n.Nodes {
		b.node(d)
	}
	for _, d := range n.Rules {
		b.add(Action{Kind: KindRule, Origin: origin(d.Origin), Rule: &Rule{
			Type: d.Type, Major: d.Major, Minor: d.Minor, Access: d.Access,
		}})
	}
	b.hooks(n.Hooks)
	b.rest(n)
	b.serves(r)
	return b.plan, b.checkEmpty(r)
}

type builder struct {
	c    Container
	plan *Plan
}

func origin(o device.Origin) Origin { return Origin{Device: o.Device, Spec: o.SpecPath} }

func (b *builder) add(a Action) { b.plan.Actions = append(b.plan.Actions, a) }

func (b *builder) leaveOut(edit, value string, o device.Origin, reason string) {
	b.plan.Unsupported = append(b.plan.Unsupported, Unsupported{
		Edit: edit, Value: value, Origin: origin(o), Reason: reason,
		Quiet: edit == "env" && slices.Contains(b.c.IgnoreEnv, value),
	})
}

func (b *builder) node(n device.Node) {
	b.add(Action{Kind: KindNode, Origin: origin(n.Origin), Node: &Node{
		Path: n.Path, HostPath: n.HostPath, Type: n.Type, Major: n.Major, Minor: n.Minor,
		Mode: Mode(n.Mode), UID: n.UID, GID: n.GID,
	}})
}

func (b *builder) mount(m device.Mount) error {
	bind := slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
	a := Action{Kind: KindMount, Origin: origin(m.Origin), Mount: &Mount{
		Source: m.Source, Target: m.Destination, Type: m.Type, Options: append([]string{}, m.Options...), Bind: bind,
	}}
	a.Satisfied = b.hasMount(m, bind)
	if a.Satisfied {
		b.add(a)
		return nil
	}
	if slices.Contains(m.Options, "remount") {
		return fmt.Errorf("mount on %s: option remount changes another mount, which no device may (%s)", m.Destination, a.Origin)
	}
	if !bind && (m.Type == "" || m.Type == "none" || m.Type == "bind") {
		return fmt.Errorf("mount %s on %s: no such device: add bind or rbind to its options (%s)", m.Source, m.Destination, a.Origin)
	}
	if reason := b.unmountable(m.Type, bind); reason != "" {
		b.leaveOut("mounts", m.Type+" on "+m.Destination, m.Origin, reason)
		return nil
	}
	if bind {
		b.remarkOptions(a)
	}
	b.add(a)
	return nil
}

// WithoutLocks is why a container that runs in a user namespace is given no mounts.
const WithoutLocks = "mounted into a user namespace from outside it would lack the locks that keep the container from changing it; ask for it before the container is created"

// unmountable says why a mount cannot be made from outside the container; empty if it can.
func (b *builder) unmountable(fstype string, bind bool) string {
	switch {
	case b.c.Running && b.c.UserNamespace:
		return WithoutLocks
	case bind:
		return ""
	case slices.Contains([]string{"proc", "sysfs", "mqueue", "devpts", "cgroup", "cgroup2"}, fstype):
		return "its content depends on the namespaces of the process that mounts it"
	case fstype != "tmpfs" && fstype != "efivarfs":
		return "of filesystems only tmpfs and efivarfs are mounted from outside a container"
	case b.c.UserNamespace:
		return "a filesystem for a user namespace has to be mounted from inside it"
	}
	return ""
}

// hasMount tells whether the last mount of config.json on a place is the same one.
func (b *builder) hasMount(m device.Mount, bind bool) bool {
	for _, have := range slices.Backward(b.c.Config.Mounts) {
		if path.Clean(have.Destination) != path.Clean(m.Destination) {
			continue
		}
		return have.Source == m.Source && (bind || have.Type == m.Type) && slices.Equal(have.Options, m.Options)
	}
	return false
}
