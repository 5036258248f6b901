package integration

import (
	"testing"

	"oci-cdi-hook/integration/bed"
)

// The published faults of NVIDIA's container toolkit, which does the same kind of work as this hook.

// TestCVE_2024_0132: the toolkit looked at a library of the image and then mounted from there by path: a link that took its place in
// between brought the host's root into the container. Sources are paths of the host here, whatever the image has at the same place.
func TestCVE_2024_0132(t *testing.T) {
	race{
		edits: []string{mountOf(brought, "/usr/local/cuda/compat", "options: [bind]")},
		image: func(b *bed.Bundle) {
			b.Folder("/run/bed/real/sub")
			b.Link("/run/bed/brought", bed.CanaryDir+"/dir")
			b.Folder("/usr/local/cuda/compat")
		},
		a: "/run/bed/real", b: "/run/bed/brought",
	}.at(t)
}

// TestCVE_2025_23359: what had been left open of it: the place that is mounted on was exchanged instead of the source.
func TestCVE_2025_23359(t *testing.T) {
	race{
		edits: []string{mountOf(brought, "/usr/local/cuda/compat", "options: [rbind, ro]"), "deviceNodes: [{path: /usr/local/nv0, hostPath: /dev/fuse}]"},
		image: func(b *bed.Bundle) { b.Folder("/usr/local/cuda/compat"); b.Link("/usr/local/x", bed.CanaryDir+"/dir") },
		a:     "/usr/local/cuda/compat", b: "/usr/local/x",
	}.at(t)
}
