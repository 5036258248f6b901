package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// application runs the library over edits, one after the other, and keeps
// where each item came from. Applied one by one the edits give the same
// config as applied at once: the library's order of mounts is stable.
type application struct {
	config  oci.Spec
	native  Native
	sources map[string]source // by node path
	mounts  map[string]Origin // by destination
	env     map[string]Origin // by variable name
	nets    map[string]Origin // by host interface
	allNets []*specs.LinuxNetDevice
	missing HostError
}

// source is what a config's node does not tell of its definition.
type source struct {
	hostPath string
	origin   Origin
}

func newApplication(c Container) *application {
	a := &application{
		sources: map[string]source{},
		mounts:  map[string]Origin{},
		env:     map[string]Origin{},
		nets:    map[string]Origin{},
	}
	a.config.Process = &oci.Process{User: oci.User{UID: c.UID, GID: c.GID}}
	a.config.Linux = &oci.Linux{Resources: &oci.LinuxResources{}}
	if c.IDMapped {
		// The library asks only whether these exist.
		mapping := []oci.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 1}}
		a.config.Linux.UIDMappings, a.config.Linux.GIDMappings = mapping, mapping
		a.config.Linux.Namespaces = []oci.LinuxNamespace{{Type: oci.UserNamespace}}
	}
	return a
}

func (a *application) apply(e Edits) error {
	if e.Edits == nil || e.Edits.ContainerEdits == nil {
		return nil
	}
	origin := Origin{Device: e.Device, SpecPath: e.SpecPath}
	for _, node := range e.Edits.DeviceNodes {
		a.applyNode(node, origin)
	}
	rest := *e.Edits.ContainerEdits
	rest.DeviceNodes = nil
	rest.Mounts = withOwnOptions(rest.Mounts)
	if err := a.applyToConfig(&rest); err != nil {
		return fmt.Errorf("device %s of spec %s: %s", shown(e.Device), shown(e.SpecPath), oneLine(err.Error(), maxReason))
	}
	a.note(&rest, origin)
	return nil
}

func (a *application) applyToConfig(edits *specs.ContainerEdits) error {
	return (&cdi.ContainerEdits{ContainerEdits: edits}).Apply(&a.config)
}

// applyNode applies one node alone, so that an error and a cgroup rule are
// known to be of this node.
func (a *application) applyNode(node *specs.DeviceNode, origin Origin) {
	hostPath := node.HostPath
	if hostPath == "" {
		hostPath = node.Path
	}
	known := len(a.config.Linux.Resources.Devices)
	if err := a.applyToConfig(&specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{node}}); err != nil {
		a.missing.Nodes = append(a.missing.Nodes, NodeError{Path: node.Path, HostPath: hostPath, Origin: origin, Err: err})
		return
	}
	a.sources[node.Path] = source{hostPath, origin}
	for _, rule := range a.config.Linux.Resources.Devices[known:] {
		a.allow(rule, origin)
	}
}

// allow adds a rule, or its access to the rule of the same device. The
// library writes one per node and an empty access for permissions "none".
func (a *application) allow(rule oci.LinuxDeviceCgroup, origin Origin) {
	if rule.Access == "" || rule.Major == nil || rule.Minor == nil {
		return
	}
	for i := range a.native.Rules {
		r := &a.native.Rules[i]
		if r.Type == rule.Type && r.Major == *rule.Major && r.Minor == *rule.Minor {
			r.Access = accessUnion(r.Access, rule.Access)
			return
		}
	}
	a.native.Rules = append(a.native.Rules, Rule{
		Type: rule.Type, Major: *rule.Major, Minor: *rule.Minor,
		Access: accessUnion(rule.Access, ""), Origin: origin,
	})
}

func accessUnion(a, b string) string {
	var union strings.Builder
	for _, access := range "rwm" {
		if strings.ContainsRune(a, access) || strings.ContainsRune(b, access) {
			union.WriteRune(access)
		}
	}
	return union.String()
}

// withOwnOptions copies mounts, since the library appends to their options.
func withOwnOptions(mounts []*specs.Mount) []*specs.Mount {
	var own []*specs.Mount
	for _, m := range mounts {
		c := *m
		c.Options = slices.Clone(m.Options)
		own = append(own, &c)
	}
	return own
}

// note remembers the origin of everything but nodes.
func (a *application) note(edits *specs.ContainerEdits, origin Origin) {
	for _, m := range edits.Mounts {
		a.mounts[m.ContainerPath] = origin
	}
	for _, entry := range edits.Env {
		a.env[envName(entry)] = origin
	}
	for _, net := range edits.NetDevices {
		a.nets[net.HostInterfaceName] = origin
		a.allNets = append(a.allNets, net)
	}
	for _, h := range edits.Hooks {
		a.native.Hooks = append(a.native.Hooks, Hook{
			Stage: h.HookName, Path: h.Path,
			Args: slices.Clone(h.Args), Env: slices.Clone(h.Env), Timeout: h.Timeout,
			Origin: origin,
		})
	}
	for _, gid := range a.config.Process.User.AdditionalGids[len(a.native.GIDs):] {
		a.native.GIDs = append(a.native.GIDs, GID{gid, origin})
	}
	if edits.IntelRdt != nil {
		a.native.IntelRdt = &IntelRdt{*a.config.Linux.IntelRdt, origin}
	}
}

func envName(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// result reads the config that the library has made.
func (a *application) result() (*Native, error) {
	if len(a.missing.Nodes) > 0 {
		return nil, &a.missing
	}
	// Natively all edits are validated together: two devices cannot bring
	// the same interface.
	if err := cdi.ValidateNetDevices(a.allNets); err != nil {
		return nil, fmt.Errorf("requested devices together: %s", oneLine(err.Error(), maxReason))
	}
	for _, dev := range a.config.Linux.Devices {
		a.native.Nodes = append(a.native.Nodes, a.node(dev))
	}
	for _, m := range a.config.Mounts {
		a.native.Mounts = append(a.native.Mounts, Mount{
			Source: m.Source, Destination: m.Destination, Type: m.Type, Options: m.Options,
			Origin: a.mounts[m.Destination],
		})
	}
	for _, entry := range a.config.Process.Env {
		a.native.Env = append(a.native.Env, Env{entry, a.env[envName(entry)]})
	}
	for _, host := range slices.Sorted(maps.Keys(a.config.Linux.NetDevices)) {
		a.native.NetDevices = append(a.native.NetDevices, NetDevice{host, a.config.Linux.NetDevices[host].Name, a.nets[host]})
	}
	return &a.native, nil
}

// node fills in what a runtime does: mode 0666 and owner root where the
// config has none, and file type bits of the mode ignored.
func (a *application) node(dev oci.LinuxDevice) Node {
	n := Node{
		Path: dev.Path, HostPath: a.sources[dev.Path].hostPath, Type: dev.Type,
		Major: dev.Major, Minor: dev.Minor, Mode: 0o666,
		Origin: a.sources[dev.Path].origin,
	}
	if dev.FileMode != nil {
		n.Mode = uint32(*dev.FileMode) & 0o7777
	}
	if dev.UID != nil {
		n.UID = *dev.UID
	}
	if dev.GID != nil {
		n.GID = *dev.GID
	}
	return n
}
