package device

import (
	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// Container is what the CDI library looks at in an OCI config.
type Container struct {
	UID, GID uint32 // process.user
	// IDMapped: the config has a user namespace and both of its mappings.
	IDMapped bool
}

// Origin says which request brought an item, from which spec file.
type Origin struct {
	Device   string
	SpecPath string
}

// Native is what the CDI library would write into an OCI config, each item
// with its origin, in the library's order.
type Native struct {
	Nodes  []Node
	Rules  []Rule
	Mounts []Mount // by depth of the destination
	Hooks  []Hook  // all stages in the order of the edits

	Env        []Env
	GIDs       []GID
	NetDevices []NetDevice
	IntelRdt   *IntelRdt
}

// Node is a device node with everything filled in that a spec may leave out.
type Node struct {
	Path         string
	HostPath     string // equal to Path where the spec has none
	Type         string // b, c, u or p
	Major, Minor int64
	Mode         uint32 // permission, set-id and sticky bits
	UID, GID     uint32
	Origin
}

// Rule allows access to a device in the devices cgroup.
type Rule struct {
	Type         string // b or c
	Major, Minor int64
	Access       string // of r, w, m in this order
	Origin
}

// Mount is a mount with the id-mapping option that the library adds.
type Mount struct {
	Source, Destination string
	Type                string
	Options             []string
	Origin
}

// Hook is an OCI hook.
type Hook struct {
	Stage   string // OCI name, as in createRuntime
	Path    string
	Args    []string
	Env     []string
	Timeout *int // seconds
	Origin
}

// Env is a variable NAME=value.
type Env struct {
	Entry string
	Origin
}

// GID is an additional group of the process.
type GID struct {
	GID uint32
	Origin
}

// NetDevice is a network interface that moves into the container.
type NetDevice struct {
	HostName, Name string
	Origin
}

// IntelRdt is the resource-control group of the container.
type IntelRdt struct {
	oci.LinuxIntelRdt
	Origin
}

// Native applies the edits by the CDI library to an OCI config that has
// nothing but what the library looks at. Host device nodes are looked up
// (lstat) where the spec leaves something out.
//
// What a host lacks is a [*HostError] naming every such node.
func (r *Resolution) Native(c Container) (*Native, error) {
	a := newApplication(c)
	for _, edits := range r.Edits {
		if err := a.apply(edits); err != nil {
			return nil, err
		}
	}
	return a.result()
}
