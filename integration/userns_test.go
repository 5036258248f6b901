package integration

import (
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// TestUserNamespace is about containers whose root is not the host's.
func TestUserNamespace(t *testing.T) {
	compareAll(t, []row{
		{
			name: "a node of the host path", spec: device("deviceNodes: [{path: /dev/random, hostPath: /dev/null}]"), bundle: mapped,
			has: []string{"path /dev/random c 1:3 0666 0:0 open=ok access=rw"},
		},
		{
			name: "a node that only its owner opens", spec: device("deviceNodes: [{path: /dev/mine, hostPath: /opt/t/mine, fileMode: 0600}]"), bundle: mapped,
			host: func(h *bed.Host) { h.Node("/opt/t/mine", unix.S_IFCHR|0o600, 10, 237, 0, 0) },
			has:  []string{"path /dev/mine c 10:237 0600 0:0 open=ok access=rw"},
		},
		{
			name: "flags that the source has", spec: device(mountOf("/opt/t/locked/f", "/opt/f", "options: [bind, ro]")), host: lockedSource, bundle: mapped,
			writable: []string{"/opt/f"}, has: []string{"write /opt/f EROFS"},
		},
		{name: "mounts", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: [rbind, ro]")), host: treeWithSubmount, bundle: mapped, paths: []string{"/opt"}},
		{name: "a filesystem", spec: device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", "mounts: [{hostPath: none, containerPath: /opt/tmp, type: tmpfs}]"), bare: true, bundle: mapped, alone: true, warns: []string{"/opt/tmp"}},
		{name: "a vendor's hook", spec: device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", hooksOf(vendor("createContainer", "one"))), bundle: mapped},
		{name: "the nvidia fixture", fixture: "nvidia-dgpu.yaml", devices: []string{"nvidia.com/gpu=0"}, bundle: mapped},
	})
}

func mapped(b *bed.Bundle) { b.WithUserNamespace() }
