package integration

import (
	"testing"

	"oci-cdi-hook/integration/bed"
)

// The published faults of runc. Each comment says what went wrong there, and how this hook could have gone wrong in the same way.

// TestCVE_2021_30465: runc looked at a mount target in a volume that a second container shares, and then mounted by path: whoever
// exchanged a folder for a link in between got the host's root mounted. The hook mounts on descriptors.
func TestCVE_2021_30465(t *testing.T) {
	race{
		edits: []string{mountOf(brought, "/vol/x/t", "options: [rbind]")},
		image: func(b *bed.Bundle) {
			b.Folder("/vol/x/t")
			b.Link("/vol/y", bed.CanaryDir)
			b.Folder(bed.CanaryDir + "/t") // where the link leads inside
		},
		a: "/vol/x", b: "/vol/y",
	}.at(t)
}

// TestCVE_2024_45310: runc's MkdirAll made the missing parents of a mount target by path after it had looked at them: whoever exchanged
// one for a link meanwhile got empty folders and files made anywhere on the host. The hook makes parents too, each in a descriptor of
// the last.
func TestCVE_2024_45310(t *testing.T) {
	race{
		edits: []string{
			"mounts:\n" + mountItem(brought, "/opt/x/a/b/c", "options: [bind]") + mountItem(brought+"/mark", "/opt/x/d/f", "options: [bind]"),
			"deviceNodes: [{path: /opt/x/nodes/n, hostPath: /dev/fuse}]",
		},
		image: func(b *bed.Bundle) { b.Folder("/opt/x"); b.Link("/opt/y", bed.CanaryDir+"/dir") },
		a:     "/opt/x", b: "/opt/y",
	}.at(t)
}

// TestCVE_2025_31133: runc masked paths by binding the container's /dev/null, which the image can exchange for a link to anything of
// the host's: that was then mounted instead. The hook binds a node over a file that it has made itself, where a user namespace asks for
// it, and takes nothing from the container as a source.
func TestCVE_2025_31133(t *testing.T) {
	race{
		edits: []string{"deviceNodes: [{path: /opt/dev/x, hostPath: /dev/fuse}, {path: /opt/dev/null, hostPath: /dev/null}]"},
		image: func(b *bed.Bundle) {
			b.Folder("/opt/dev")
			b.Link("/opt/evil/null", "/proc/sysrq-trigger")
			b.Link("/opt/evil/x", bed.CanaryDir+"/node")
			mapped(b)
		},
		a: "/opt/dev", b: "/opt/evil",
	}.at(t)
}

// TestCVE_2025_52565: runc bound a terminal over /dev/console by its path, which a link could lead to a file of /proc before that was
// made read-only. Here a mount's target itself is exchanged for such a link.
func TestCVE_2025_52565(t *testing.T) {
	race{
		edits: []string{mountOf(brought+"/mark", "/opt/console", "options: [bind]")},
		image: func(b *bed.Bundle) { b.File("/opt/console", ""); b.Link("/opt/link", "/proc/sys/kernel/core_pattern") },
		a:     "/opt/console", b: "/opt/link",
	}.at(t)
}

// TestCVE_2025_52881: runc's writes to /proc, of labels and settings, went to other files of it that mounts and links had put there. The
// hook writes to no file of /proc, but a target's parent may turn into a folder of it: nothing is made or mounted there.
func TestCVE_2025_52881(t *testing.T) {
	race{
		edits: []string{
			"mounts:\n" + mountItem(brought+"/mark", "/opt/x/ns_last_pid", "options: [bind]") + mountItem(brought, "/opt/x/new/d", "options: [bind]"),
			"deviceNodes: [{path: /opt/x/node, hostPath: /dev/fuse}]",
		},
		image: func(b *bed.Bundle) { b.Folder("/opt/x"); b.Link("/opt/y", "/proc/sys/kernel") },
		a:     "/opt/x", b: "/opt/y",
	}.at(t)
}
