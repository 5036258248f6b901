package integration

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// TestUserNamespace is about containers whose root is not the host's. Natively runtimes bind the host's node at the container path
// there, whatever hostPath says, and the library adds an idmap to each bind.
func TestUserNamespace(t *testing.T) {
	const tree = "/run/bed/tree" // on a filesystem that knows idmaps
	compareAll(t, []row{
		{
			name: "a node of the host path", spec: device("deviceNodes: [{path: /dev/other, hostPath: /dev/null}]"), bundle: mapped, hide: []string{"mount /dev/other"},
			host:    func(h *bed.Host) { h.Node("/dev/other", unix.S_IFCHR|0o666, 1, 5, 0, 0) },
			differs: ownNode("/dev/other", "c 1:5 0666 65534:65534 open=ok access=rw", "c 1:3 0644 0:0 open=ok access=rw", "c 1:3 0666 0:0 open=ok access=rw"),
		},
		{
			name: "a node at its own path", spec: device("deviceNodes: [{path: /dev/fuse}]"), bundle: mapped, hide: []string{"mount /dev/fuse"},
			differs: ownNode("/dev/fuse", "c 10:229 0600 65534:65534 open=EACCES access=none", "c 10:229 0600 0:0 open=ok access=rw", "c 10:229 0600 0:0 open=ok access=rw"),
		},
		{
			name: "a node that only its owner opens", spec: device("deviceNodes: [{path: /dev/mine, hostPath: /opt/t/mine, fileMode: 0600}]"), bundle: mapped, alone: true,
			host: func(h *bed.Host) { h.Node("/opt/t/mine", unix.S_IFCHR|0o600, 10, 237, 0, 0) },
			has: []string{
				"path /dev/mine c 10:237 0600 0:0 open=ok access=rw",
				"mount /dev/mine on=/dev root=/node rw,nosuid,noexec,relatime private tmpfs oci-cdi-hook rw,size=64k,mode=755",
			},
		},
		{name: "over one of the runtime's own nodes", spec: device("deviceNodes: [{path: /dev/random, hostPath: /dev/null}]"), bundle: mapped, native: always(starts), refused: "/dev/random"},
		{
			name: "flags that the source has", spec: device(mountOf("/opt/t/locked/f", "/opt/f", "options: [bind, ro]")), host: lockedSource, bundle: mapped,
			writable: []string{"/opt/f"}, has: []string{"write /opt/f EROFS"}, native: notOnRunc11, differs: crunDropsFlags,
		},
		{
			name: "a tree", spec: device(mountOf(tree, "/opt/tree", "options: [rbind, ro]")), bundle: mapped, paths: []string{"/opt/tree/f"}, differs: treeWithoutIdmap,
			host: func(h *bed.Host) {
				h.File(tree+"/f", "root's", 0o644)
				h.Dir(tree + "/sub")
				h.Mount("sub", tree+"/sub", "tmpfs", 0, "mode=0755")
			},
		},
		{name: "a source without idmaps", spec: device(mountOf("/opt/t/f", "/opt/f", "options: [bind, ro]")), bundle: mapped, native: runc11Alone, refused: "/opt/t/f"},
		{
			name: "a filesystem", spec: device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", "mounts: [{hostPath: none, containerPath: /opt/tmp, type: tmpfs}]"),
			bare: true, bundle: mapped, alone: true, warns: []string{"/opt/tmp", "v.example/dev=a"},
		},
		{
			name: "a vendor's hook", bundle: mapped, differs: fileWithoutIdmap, host: func(h *bed.Host) { h.File(tree+"/f", "root's", 0o644) },
			spec: device(mountOf(tree+"/f", "/opt/f", "options: [bind, ro]"), hooksOf(vendor("createContainer", "inner"), vendor("createRuntime", "quiet"))),
		},
	})
}

func mapped(b *bed.Bundle) { b.WithUserNamespace() }

// notOnRunc11: it asks for flags that are locked.
func notOnRunc11(rt bed.Runtime) verdict { return !runc11Alone(rt) }

// runc11Alone: it does not know idmaps and passes over the word.
func runc11Alone(rt bed.Runtime) verdict { return verdict(strings.HasPrefix(rt.Name, "runc-1.1")) }

// crunDropsFlags: it mounts from outside the user namespace, where nothing is locked.
func crunDropsFlags(rt bed.Runtime) []string {
	if !rt.IsCrun() {
		return nil
	}
	return []string{
		"-mount /opt/f on=/ root=/f ro,noatime,idmapped private tmpfs locked rw,mode=755",
		"+mount /opt/f on=/ root=/f ro,nosuid,nodev,noatime,idmapped private tmpfs locked rw,mode=755",
	}
}

// ownNode: runc binds the host's node; crun makes one, through the umask.
func ownNode(path, runc, crun, ours string) func(bed.Runtime) []string {
	return func(rt bed.Runtime) []string {
		native := runc
		if rt.IsCrun() {
			native = crun
		}
		if native == ours {
			return nil
		}
		return []string{"-path " + path + " " + native, "+path " + path + " " + ours}
	}
}

// treeWithoutIdmap: runc 1.1 passes over the library's ridmap; so does crun 1.8, which then leaves the mounts below out too.
func treeWithoutIdmap(rt bed.Runtime) []string {
	if !rt.IsCrun() && !bool(runc11Alone(rt)) {
		return nil
	}
	propagation := "slave"
	out := []string{
		"-path /opt/tree d 0755 65534:65534 has=[f sub]", `-path /opt/tree/f - 0644 65534:65534 has="root's"`,
		"+path /opt/tree d 0755 0:0 has=[f sub]", `+path /opt/tree/f - 0644 0:0 has="root's"`,
	}
	if rt.IsCrun() {
		propagation = "private"
	}
	out = append(out, "-mount /opt/tree on=/ root=/tree ro,relatime "+propagation+" tmpfs bed rw,mode=755")
	if !rt.IsCrun() {
		out = append(out, "-mount /opt/tree/sub on=/opt/tree root=/ rw,relatime slave tmpfs sub rw,mode=755")
	}
	return append(out, "+mount /opt/tree on=/ root=/tree ro,relatime,idmapped "+propagation+" tmpfs bed rw,mode=755",
		"+mount /opt/tree/sub on=/opt/tree root=/ rw,relatime,idmapped "+propagation+" tmpfs sub rw,mode=755")
}

func fileWithoutIdmap(rt bed.Runtime) []string {
	if !runc11Alone(rt) {
		return nil
	}
	return []string{
		`-path /opt/f - 0644 65534:65534 has="root's"`, `+path /opt/f - 0644 0:0 has="root's"`,
		"-mount /opt/f on=/ root=/tree/f ro,relatime slave tmpfs bed rw,mode=755", "+mount /opt/f on=/ root=/tree/f ro,relatime,idmapped slave tmpfs bed rw,mode=755",
	}
}
