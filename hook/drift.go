package hook

import (
	"fmt"

	"github.com/moby/sys/devices"
	"github.com/opencontainers/cgroups/devices/config"

	"oci-cdi-hook/hook/plan"
)

// drift says where a spec that spells out a node differs from the host's node of now, as
// after a driver was loaded anew. The container gets what the spec says, as natively.
func drift(p *plan.Plan) []string {
	var notes []string
	for _, a := range p.Actions {
		if a.Node == nil {
			continue
		}
		host, err := devices.DeviceFromPath(a.Node.HostPath, "")
		if err != nil {
			notes = append(notes, fmt.Sprintf("node %s: the host has no such device: %v (%s)", a.Node.HostPath, err, a.Origin))
			continue
		}
		if spec := numbers(a.Node); spec != hostNumbers(host) {
			notes = append(notes, fmt.Sprintf("node %s: the spec says %s, the host has %s (%s)", a.Node.HostPath, spec, hostNumbers(host), a.Origin))
		}
	}
	return notes
}

func numbers(n *plan.Node) string {
	kind := config.Type(n.Type[0])
	if n.Type == "u" {
		kind = config.CharDevice
	}
	if kind == config.FifoDevice {
		return string(kind)
	}
	return fmt.Sprintf("%c %d:%d", kind, n.Major, n.Minor)
}

func hostNumbers(d *config.Device) string {
	if d.Type == config.FifoDevice {
		return string(d.Type)
	}
	return fmt.Sprintf("%c %d:%d", d.Type, d.Major, d.Minor)
}
