package integration

import (
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// TestPropagation has the container mount something inside what it was given. None of it may reach the host, which is looked at in
// the end; and what a mount shows of its propagation is what it shows natively, on hosts of both kinds.
func TestPropagation(t *testing.T) {
	rows := func(kind string, host func(*bed.Host)) []row {
		var out []row
		for _, words := range []string{"rbind", "rbind, rprivate", "rbind, rslave", "rbind, rshared", "bind, shared", "bind, slave"} {
			r := row{name: words + " on a " + kind + " host", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: ["+words+"]")), host: host}
			out = append(out, r)
			r.name += ", mounting inside"
			r.mounting, r.alone = []string{"/opt/tree/inner"}, true
			r.has = []string{"write mount on /opt/tree/inner ok"}
			out = append(out, r)
		}
		return out
	}
	compareAll(t, rows("shared", treeWithInner))
	compareAll(t, rows("private", func(h *bed.Host) { treeWithInner(h); privateHost(h) }))
}

func treeWithInner(h *bed.Host) {
	treeWithSubmount(h)
	h.Dir("/opt/t/tree/inner")
}

// privateHost is one without systemd.
func privateHost(h *bed.Host) {
	h.Propagation(unix.MS_PRIVATE)
}

// TestNodesUnderAHostFolder must never make a node on the host.
func TestNodesUnderAHostFolder(t *testing.T) {
	const node = "deviceNodes: [{path: /dev/x/node, hostPath: /dev/fuse}]"
	hostFolder := func(b *bed.Bundle) { b.BindFolder("/opt/t/d", "/dev/x") }
	compareAll(t, []row{
		// natively both runtimes make it there, so there is no native twin
		{name: "missing", spec: device(node), bundle: hostFolder, host: folder("/opt/t/d"), alone: true, refused: "/dev/x"},
		{
			name: "there already", spec: device(node), bundle: hostFolder, sweep: true,
			host: func(h *bed.Host) { h.Node("/opt/t/d/node", unix.S_IFCHR|0o600, 10, 229, 0, 0) },
			has:  []string{"path /dev/x/node c 10:229 0600 0:0 open=ok access=rw"},
		},
		{
			name: "another there already", spec: device(node), bundle: hostFolder, native: always(starts), refused: "/dev/x/node",
			host: func(h *bed.Host) { h.Node("/opt/t/d/node", unix.S_IFCHR|0o600, 10, 237, 0, 0) },
		},
	})
}
