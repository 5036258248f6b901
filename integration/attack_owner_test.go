package integration

import (
	"testing"

	"oci-cdi-hook/integration/bed"
)

// TestForeignFolders has links of the image lead into folders where the container's own root may not write: a volume of the host's root,
// in a container with a user namespace. The hook may write anywhere, so it has to refuse by itself what the kernel refuses a runtime.
func TestForeignFolders(t *testing.T) {
	const tree, volume = "/run/bed/tree", "/opt/t/vol"
	host := func(h *bed.Host) { h.Dir(tree); h.Dir(volume) }
	linked := func(b *bed.Bundle) { b.BindFolder(volume, "/vol"); b.Link("/opt/x", "/vol"); mapped(b) }
	compareAll(t, []row{
		{name: "folder for a mount", spec: device(mountOf(tree, "/opt/x/d", "options: [bind]")), host: host, bundle: linked, refused: "/opt/x/d"},
		{name: "parents for a mount", spec: device(mountOf(tree, "/opt/x/a/b/d", "options: [bind]")), host: host, bundle: linked, refused: "/opt/x/a/b/d"},
		{name: "node", spec: device("deviceNodes: [{path: /opt/x/node, hostPath: /dev/fuse}]"), host: host, bundle: linked, refused: "/opt/x/node"},
		{
			name: "of the image", spec: device(mountOf(tree, "/theirs/d", "options: [bind]")), host: host, refused: "/theirs/d",
			bundle: func(b *bed.Bundle) { mapped(b); b.Folder("/theirs") },
		},
	})
}
