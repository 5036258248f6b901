package plan

import (
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"oci-cdi-hook/hook/device"
)

// checkEmpty refuses a device of which nothing is left. What config.json has already
// counts as applied.
func (b *builder) checkEmpty(r *device.Resolution) error {
	for _, name := range r.Devices {
		if !b.anyApplies(name, r.Edits) {
			return &EmptyDeviceError{Device: name, Unsupported: b.leftOutOf(name, r.Edits)}
		}
	}
	return nil
}

// specOf finds the file that defines a device.
func specOf(name string, all []device.Edits) string {
	for _, e := range all {
		if e.Device == name && !e.SpecLevel {
			return e.SpecPath
		}
	}
	return ""
}

// anyApplies looks at the device's own edits and those of its whole spec file.
func (b *builder) anyApplies(name string, all []device.Edits) bool {
	spec := specOf(name, all)
	return slices.ContainsFunc(all, func(e device.Edits) bool {
		mine := e.Device == name || e.SpecLevel
		return mine && e.SpecPath == spec && b.applies(e.Edits.ContainerEdits)
	})
}

func (b *builder) applies(e *specs.ContainerEdits) bool {
	return e != nil && (len(e.DeviceNodes) > 0 ||
		slices.ContainsFunc(e.Mounts, b.appliesMount) ||
		slices.ContainsFunc(e.Hooks, b.appliesHook) ||
		slices.ContainsFunc(e.Env, b.hasEnv) ||
		slices.ContainsFunc(e.AdditionalGIDs, b.hasGID) ||
		slices.ContainsFunc(e.NetDevices, func(d *specs.LinuxNetDevice) bool {
			return b.hasNetDevice(device.NetDevice{HostName: d.HostInterfaceName, Name: d.Name})
		}) ||
		e.IntelRdt != nil && !b.leavesOut("intelRdt"))
}

func (b *builder) appliesMount(m *specs.Mount) bool {
	bind := slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
	return b.unmountable(m.Type, bind) == "" ||
		b.hasMount(device.Mount{Source: m.HostPath, Destination: m.ContainerPath, Type: m.Type, Options: m.Options}, bind)
}

func (b *builder) appliesHook(h *specs.Hook) bool {
	switch {
	case b.c.Running:
	case h.HookName == StagePrestart, h.HookName == StageCreateRuntime:
		return true
	case h.HookName == StageCreateContainer:
		if !b.c.UserNamespace || b.c.CanEnterUserNamespace {
			return true
		}
	case IsLater(h.HookName):
		if slices.Contains(b.c.Entries, h.HookName) {
			return true
		}
	}
	return b.hasHook(device.Hook{Stage: h.HookName, Path: h.Path, Args: h.Args, Env: h.Env})
}

func (b *builder) leavesOut(edit string) bool {
	return slices.ContainsFunc(b.plan.Unsupported, func(u Unsupported) bool { return u.Edit == edit })
}

func (b *builder) leftOutOf(name string, all []device.Edits) []Unsupported {
	spec := specOf(name, all)
	var left []Unsupported
	for _, u := range b.plan.Unsupported {
		if u.Device == name || u.Spec == spec {
			left = append(left, u)
		}
	}
	return left
}
