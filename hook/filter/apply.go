package filter

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"oci-cdi-hook/hook/device"
)

// application runs the library over the config.
type application struct {
	*config
	bindNodes bool
	native    *device.Native // all that is wanted
	binds     []oci.Mount    // in the place of nodes
}

func (a *application) apply(r *device.Resolution) (err error) {
	mapped := a.userNamespace && len(a.spec.Linux.UIDMappings) > 0 && len(a.spec.Linux.GIDMappings) > 0
	user := a.spec.Process.User
	// What a host lacks is found here, with every node that is missing.
	a.native, err = r.Native(device.Container{UID: user.UID, GID: user.GID, IDMapped: mapped})
	if err != nil {
		return err
	}
	if err := a.checkText(); err != nil {
		return err
	}
	if err := a.checkGIDs(); err != nil {
		return err
	}
	if err := a.findBinds(); err != nil {
		return err
	}
	a.dropReplacedDevices()
	mountsAreThere := a.mountsAreThere()
	for _, e := range r.Edits {
		if err := a.applyEdits(e, !mountsAreThere); err != nil {
			return err
		}
	}
	a.dropBoundDevices()
	if !mountsAreThere {
		a.addBinds()
	}
	a.sortMounts()
	return nil
}

func (a *application) applyEdits(e device.Edits, withMounts bool) error {
	if e.Edits == nil || e.Edits.ContainerEdits == nil {
		return nil
	}
	edits := *e.Edits.ContainerEdits
	if !withMounts {
		edits.Mounts = nil
	}
	if err := (&cdi.ContainerEdits{ContainerEdits: &edits}).Apply(&a.spec); err != nil {
		return fmt.Errorf("device %q of spec %q: %w", e.Device, e.SpecPath, err)
	}
	return nil
}

// checkGIDs refuses groups that the container's user namespace does not have:
// the runtime's setgroups would fail with no word of where they come from.
func (a *application) checkGIDs() error {
	mappings := a.spec.Linux.GIDMappings
	if !a.userNamespace || len(mappings) == 0 {
		return nil
	}
	for _, g := range a.native.GIDs {
		isMapped := slices.ContainsFunc(mappings, func(m oci.LinuxIDMapping) bool {
			return g.GID >= m.ContainerID && uint64(g.GID) < uint64(m.ContainerID)+uint64(m.Size)
		})
		if !isMapped {
			return fmt.Errorf("additional group %d of device %q, spec %q: not in the linux.gidMappings of the container's user namespace", g.GID, g.Device, g.SpecPath)
		}
	}
	return nil
}

// checkText refuses what JSON cannot carry: another text would take its place.
func (a *application) checkText() error {
	var err error
	check := func(o device.Origin, texts ...string) {
		for _, text := range texts {
			if !utf8.ValidString(text) && err == nil {
				err = fmt.Errorf("%q of device %q, spec %q: not UTF-8, as JSON must be", text, o.Device, o.SpecPath)
			}
		}
	}
	n := a.native
	for _, e := range n.Env {
		check(e.Origin, e.Entry)
	}
	for _, d := range n.Nodes {
		check(d.Origin, d.Path, d.HostPath)
	}
	for _, m := range n.Mounts {
		check(m.Origin, append([]string{m.Source, m.Destination, m.Type}, m.Options...)...)
	}
	for _, h := range n.Hooks {
		check(h.Origin, slices.Concat([]string{h.Path}, h.Args, h.Env)...)
	}
	for _, d := range n.NetDevices {
		check(d.Origin, d.HostName, d.Name)
	}
	if r := n.IntelRdt; r != nil {
		check(r.Origin, append([]string{r.ClosID, r.L3CacheSchema, r.MemBwSchema}, r.Schemata...)...)
	}
	return err
}

// dropReplacedDevices drops what the config has for the paths of wanted nodes.
// The library would drop the first of each alone.
func (a *application) dropReplacedDevices() {
	isWanted := map[string]bool{}
	for _, n := range a.native.Nodes {
		isWanted[n.Path] = true
	}
	a.spec.Linux.Devices = slices.DeleteFunc(a.spec.Linux.Devices, func(d oci.LinuxDevice) bool { return isWanted[d.Path] })
}

// wantedMounts are those of the library and the binds.
func (a *application) wantedMounts() []oci.Mount {
	wanted := slices.Clone(a.binds)
	for _, m := range a.native.Mounts {
		if !slices.ContainsFunc(a.binds, func(b oci.Mount) bool { return b.Destination == m.Destination }) {
			wanted = append(wanted, oci.Mount{Destination: m.Destination, Type: m.Type, Source: m.Source, Options: m.Options})
		}
	}
	return wanted
}

// mountsAreThere reports whether the config has every wanted mount, on top of
// others of its destination. The library removes one of these others with each
// run, not always its own.
func (a *application) mountsAreThere() bool {
	last := map[string]mount{}
	for _, m := range a.oldMounts {
		last[m.Destination] = m
	}
	for _, want := range a.wantedMounts() {
		have, ok := last[want.Destination]
		if !ok || have.Source != want.Source || have.Type != want.Type || !slices.Equal(have.Options, want.Options) {
			return false
		}
	}
	return true
}

// sortMounts sorts as the library does after each mount; mounts that are
// already there and binds have not come through it.
func (a *application) sortMounts() {
	if len(a.native.Mounts) == 0 {
		return
	}
	slices.SortStableFunc(a.spec.Mounts, func(x, y oci.Mount) int { return depth(x) - depth(y) })
}

func depth(m oci.Mount) int { return strings.Count(filepath.Clean(m.Destination), "/") }

// newHooks returns the hooks that the library has added, of one stage, without
// those that the config has had. What is wanted twice is there twice.
func newHooks(old []hook, added []oci.Hook) []oci.Hook {
	old = slices.Clone(old)
	var fresh []oci.Hook
	for _, h := range added {
		i := slices.IndexFunc(old, func(o hook) bool {
			return o.Path == h.Path && slices.Equal(o.Args, h.Args) && slices.Equal(o.Env, h.Env)
		})
		if i < 0 {
			fresh = append(fresh, h)
			continue
		}
		old = slices.Delete(old, i, i+1)
	}
	return fresh
}

// newRules returns the rules that the library has added, without empty ones and
// without repetitions. A rule counts as there if no later one denies anything.
func newRules(old, added []oci.LinuxDeviceCgroup) []oci.LinuxDeviceCgroup {
	var known []oci.LinuxDeviceCgroup
	for _, r := range old {
		if !r.Allow {
			known = nil
			continue
		}
		known = append(known, r)
	}
	var fresh []oci.LinuxDeviceCgroup
	for _, r := range added {
		isKnown := slices.ContainsFunc(known, func(k oci.LinuxDeviceCgroup) bool { return sameRule(k, r) })
		if r.Access == "" || isKnown {
			continue
		}
		known = append(known, r)
		fresh = append(fresh, r)
	}
	return fresh
}

func sameRule(a, b oci.LinuxDeviceCgroup) bool {
	return a.Allow == b.Allow && a.Type == b.Type && a.Access == b.Access && same(a.Major, b.Major) && same(a.Minor, b.Minor)
}

func same(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
