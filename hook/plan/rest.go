package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/hook/device"
)

// Hook stages (runtime-spec, config.md).
const (
	StagePrestart        = "prestart"
	StageCreateRuntime   = "createRuntime"
	StageCreateContainer = "createContainer"
	StageStartContainer  = "startContainer"
	StagePoststart       = "poststart"
	StagePoststop        = "poststop"
)

// IsLater tells of stages that come after this program's own: their hooks are run when the
// engine calls it again.
func IsLater(stage string) bool { return stage == StagePoststart || stage == StagePoststop }

// hooks adds the vendors' hooks in the order in which a runtime runs them.
func (b *builder) hooks(all []device.Hook) {
	if b.c.Running {
		for _, h := range all {
			b.missingHook(h, "the container runs: a program of the host would load the container's libraries as root, and the moment for the hook is past")
		}
		return
	}
	for _, stage := range slices.Concat([]string{StagePrestart, StageCreateRuntime, StageCreateContainer}, b.c.Entries) {
		for _, h := range all {
			if h.Stage == stage {
				b.hook(h)
			}
		}
	}
	for _, h := range all {
		switch {
		case h.Stage == StageStartContainer:
			b.missingHook(h, "it runs in the container after this hook, from the config that the runtime has read")
		case IsLater(h.Stage) && !slices.Contains(b.c.Entries, h.Stage):
			b.missingHook(h, "the engine does not call this program at that stage: its "+h.Stage+" entry is not in hooks.d")
		}
	}
}

func (b *builder) hook(h device.Hook) {
	a := Action{Kind: KindHook, Origin: origin(h.Origin), Hook: &Hook{
		Stage: h.Stage, Path: h.Path, Args: append([]string{}, h.Args...), Env: append([]string{}, h.Env...), Timeout: h.Timeout,
	}}
	a.Satisfied = b.hasHook(h)
	if h.Stage == StageCreateContainer && !a.Satisfied && b.c.UserNamespace && !b.c.CanEnterUserNamespace {
		b.leaveOut("hooks", h.Stage+" "+h.Path, h.Origin, "the host has no nsenter to enter the container's user namespace")
		return
	}
	b.add(a)
}

func (b *builder) missingHook(h device.Hook, reason string) {
	if !b.hasHook(h) {
		b.leaveOut("hooks", h.Stage+" "+h.Path, h.Origin, reason)
	}
}

// hasHook tells whether config.json has the same hook: by stage, path, args and env.
func (b *builder) hasHook(h device.Hook) bool {
	if b.c.Config.Hooks == nil {
		return false
	}
	return slices.ContainsFunc(hooksOf(b.c.Config.Hooks, h.Stage), func(have oci.Hook) bool {
		return have.Path == h.Path && slices.Equal(have.Args, h.Args) && slices.Equal(have.Env, h.Env)
	})
}

func hooksOf(all *oci.Hooks, stage string) []oci.Hook {
	switch stage {
	case StagePrestart:
		return all.Prestart //nolint:staticcheck // deprecated, and still in use
	case StageCreateRuntime:
		return all.CreateRuntime
	case StageCreateContainer:
		return all.CreateContainer
	case StageStartContainer:
		return all.StartContainer
	case StagePoststart:
		return all.Poststart
	case StagePoststop:
		return all.Poststop
	}
	return nil
}

// rest sorts out the edits that only the runtime can make.
func (b *builder) rest(n *device.Native) {
	for _, e := range n.Env {
		if !b.hasEnv(e.Entry) {
			b.leaveOut("env", e.Entry, e.Origin, b.fixed("environment is"))
		}
	}
	for _, g := range n.GIDs {
		if !b.hasGID(g.GID) {
			b.leaveOut("additionalGids", fmt.Sprint(g.GID), g.Origin, b.fixed("groups are"))
		}
	}
	for _, d := range n.NetDevices {
		if !b.hasNetDevice(d) {
			b.leaveOut("netDevices", d.HostName+" as "+d.Name, d.Origin, "not done by this program")
		}
	}
	if r := n.IntelRdt; r != nil {
		if l := b.c.Config.Linux; l == nil || l.IntelRdt == nil || !reflect.DeepEqual(*l.IntelRdt, r.LinuxIntelRdt) {
			b.leaveOut("intelRdt", r.ClosID, r.Origin, "not done by this program")
		}
	}
}

func (b *builder) fixed(what string) string {
	if b.c.Running {
		return "the " + what + " those that its processes were started with"
	}
	return "the " + what + " fixed before a hook runs"
}

func (b *builder) hasEnv(entry string) bool {
	if b.c.Config.Process == nil {
		return false
	}
	name, _, _ := strings.Cut(entry, "=")
	for _, have := range slices.Backward(b.c.Config.Process.Env) {
		if strings.HasPrefix(have, name+"=") {
			return have == entry
		}
	}
	return false
}

func (b *builder) hasGID(gid uint32) bool {
	p := b.c.Config.Process
	return p != nil && (p.User.GID == gid || slices.Contains(p.User.AdditionalGids, gid))
}

func (b *builder) hasNetDevice(d device.NetDevice) bool {
	l := b.c.Config.Linux
	if l == nil {
		return false
	}
	have, ok := l.NetDevices[d.HostName]
	return ok && have.Name == d.Name
}

// remarkOptions tells of option words that do less than they seem to.
func (b *builder) remarkOptions(a Action) {
	remark := func(text string) string {
		return fmt.Sprintf("mount on %s: %s (%s)", a.Mount.Target, text, a.Origin)
	}
	if slices.Contains(a.Mount.Options, "rbind") && slices.Contains(a.Mount.Options, "ro") {
		b.plan.Notes = append(b.plan.Notes,
			remark("ro makes only the top of an rbind read-only; mounts below the source stay as they are (rro reaches them)"))
	}
	for _, word := range a.Mount.Options {
		if !KnownOption(word) {
			b.plan.Warnings = append(b.plan.Warnings, remark(fmt.Sprintf("option %q means nothing on a bind and is ignored", word)))
		}
	}
}

// KnownOption knows the words that mean something on a bind.
func KnownOption(word string) bool {
	switch word {
	case "bind", "rbind", "defaults", "idmap", "ridmap", "tmpcopyup",
		"ro", "rw", "nosuid", "suid", "nodev", "dev", "noexec", "exec", "nosymfollow", "symfollow",
		"noatime", "atime", "nodiratime", "diratime", "relatime", "norelatime", "strictatime", "nostrictatime",
		"sync", "async", "dirsync", "mand", "nomand", "lazytime", "nolazytime", "iversion", "noiversion", "silent", "loud",
		"rro", "rrw", "rnosuid", "rsuid", "rnodev", "rdev", "rnoexec", "rexec", "rnosymfollow", "rsymfollow",
		"rnoatime", "ratime", "rnodiratime", "rdiratime", "rrelatime", "rnorelatime", "rstrictatime", "rnostrictatime",
		"private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable", "runbindable":
		return true
	}
	return false
}
