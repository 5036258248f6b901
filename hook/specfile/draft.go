package specfile

import (
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// draft is a spec in the form of the first proposals (0.1.0 and 0.2.0), which no released
// library reads. It also takes today's names for what was renamed.
type draft struct {
	Version        string        `yaml:"cdiVersion"`
	Kind           string        `yaml:"kind"`
	Runtimes       []string      `yaml:"containerRuntime"`
	CDIDevices     []draftDevice `yaml:"cdiDevices"`
	Devices        []draftDevice `yaml:"devices"`
	ContainerSpec  draftEdits    `yaml:"containerSpec"`
	ContainerEdits draftEdits    `yaml:"containerEdits"`
}

type draftDevice struct {
	Name           string     `yaml:"name"`
	NameShort      []string   `yaml:"nameShort"`
	ContainerSpec  draftEdits `yaml:"containerSpec"`
	ContainerEdits draftEdits `yaml:"containerEdits"`
}

type draftEdits struct {
	Env         []string            `yaml:"env"`
	Devices     []draftNode         `yaml:"devices"`
	DeviceNodes []*specs.DeviceNode `yaml:"deviceNodes"`
	Mounts      []*specs.Mount      `yaml:"mounts"`
	Hooks       []*specs.Hook       `yaml:"hooks"`
}

type draftNode struct {
	HostPath      string       `yaml:"hostPath"`
	ContainerPath string       `yaml:"containerPath"`
	Type          string       `yaml:"type"`
	Major         int64        `yaml:"major"`
	Minor         int64        `yaml:"minor"`
	FileMode      *os.FileMode `yaml:"fileMode"`
	Permissions   string       `yaml:"permissions"`
	UID           *uint32      `yaml:"uid"`
	GID           *uint32      `yaml:"gid"`
}

// UnmarshalYAML takes the edits as one mapping or, as some of the texts have them, as a
// list of mappings.
func (e *draftEdits) UnmarshalYAML(n *yaml.Node) error {
	type plain draftEdits // without this method
	parts := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		parts = n.Content
	}
	for _, part := range parts {
		var p plain
		if err := decodeStrictly(part, &p); err != nil {
			return err
		}
		e.add(draftEdits(p))
	}
	return nil
}

func (e *draftEdits) add(more draftEdits) {
	e.Env = append(e.Env, more.Env...)
	e.Devices = append(e.Devices, more.Devices...)
	e.DeviceNodes = append(e.DeviceNodes, more.DeviceNodes...)
	e.Mounts = append(e.Mounts, more.Mounts...)
	e.Hooks = append(e.Hooks, more.Hooks...)
}

// today gives the edits their names of today.
func (e draftEdits) today() specs.ContainerEdits {
	edits := specs.ContainerEdits{Env: e.Env, DeviceNodes: e.DeviceNodes, Mounts: e.Mounts, Hooks: e.Hooks}
	for _, d := range e.Devices {
		n := &specs.DeviceNode{
			Path: d.ContainerPath, HostPath: d.HostPath, Type: d.Type, Major: d.Major, Minor: d.Minor,
			FileMode: d.FileMode, Permissions: d.Permissions, UID: d.UID, GID: d.GID,
		}
		if n.Path == "" {
			n.Path = n.HostPath
		}
		edits.DeviceNodes = append(edits.DeviceNodes, n)
	}
	return edits
}

// today gives the spec its form of today, and tells what has no place in it.
func (d *draft) today() (s *specs.Spec, lost []string) {
	whole := d.ContainerSpec
	whole.add(d.ContainerEdits)
	s = &specs.Spec{Kind: d.Kind, ContainerEdits: whole.today()}
	if len(d.Runtimes) > 0 {
		lost = append(lost, fmt.Sprintf("containerRuntime %q: a spec is for all runtimes now", d.Runtimes))
	}
	for _, dev := range append(d.CDIDevices, d.Devices...) {
		edits := dev.ContainerSpec
		edits.add(dev.ContainerEdits)
		s.Devices = append(s.Devices, specs.Device{Name: dev.Name, ContainerEdits: edits.today()})
		if len(dev.NameShort) > 0 {
			lost = append(lost, fmt.Sprintf("nameShort %q of device %q: a device has one name now", dev.NameShort, dev.Name))
		}
	}
	return s, lost
}
