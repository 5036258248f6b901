package integration

import (
	"maps"
	"os"
	"slices"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// withIDs maps users and groups alike.
func withIDs(layout ...specs.LinuxIDMapping) func(*bed.Bundle) {
	return func(b *bed.Bundle) { b.WithIDs(layout, layout) }
}

func ids(inside, outside, size uint32) specs.LinuxIDMapping {
	return specs.LinuxIDMapping{ContainerID: inside, HostID: outside, Size: size}
}

// unprivileged gives the process a user and takes its capabilities, so that a node opens by its mode alone.
func unprivileged(uid, gid uint32, more ...uint32) func(*bed.Bundle) {
	return func(b *bed.Bundle) {
		b.Config.Process.User = specs.User{UID: uid, GID: gid, AdditionalGids: more}
		b.Config.Process.Capabilities = nil
	}
}

func both(edits ...func(*bed.Bundle)) func(*bed.Bundle) {
	return func(b *bed.Bundle) {
		for _, edit := range edits {
			edit(b)
		}
	}
}

// secretNode is one that none but the host's root opens.
func secretNode(h *bed.Host) { h.Node("/opt/t/mine", unix.S_IFCHR|0o600, 10, 237, 0, 0) }

// TestUserNamespaceLayouts: ids of a spec are the container's, whatever the host calls them.
func TestUserNamespaceLayouts(t *testing.T) {
	const mine = "{path: /dev/mine, hostPath: /opt/t/mine}"
	split := withIDs(ids(0, 100000, 40), ids(40, 300000, 960), ids(1000, 5000, 1))
	oneID := withIDs(ids(0, 100000, 1))
	compareAll(t, []row{
		{
			name: "ranges apart", spec: device("deviceNodes: [" + mine + ", {path: /dev/group, hostPath: /opt/t/mine, fileMode: 0660, uid: 33, gid: 44}]"),
			host: secretNode, alone: true, bundle: split,
			has: []string{"path /dev/mine c 10:237 0600 0:0 open=ok access=rw", "path /dev/group c 10:237 0660 33:44 open=ok access=rw"},
		},
		{
			name: "one id", spec: device("deviceNodes: [" + mine + "]"), host: secretNode, alone: true, bundle: oneID,
			has: []string{"path /dev/mine c 10:237 0600 0:0 open=ok access=rw"},
		},
		{
			name: "an owner that is not mapped", spec: device("deviceNodes: [{path: /dev/mine, hostPath: /opt/t/mine, uid: 33}]"), host: secretNode,
			alone: true, bundle: oneID, refused: "uid 33 is not mapped",
		},
		{
			name: "a group that is not mapped", spec: device("deviceNodes: [{path: /dev/mine, hostPath: /opt/t/mine, gid: 1001}]"), host: secretNode,
			alone: true, bundle: split, refused: "gid 1001 is not mapped",
		},
		{
			name: "groups apart from users", host: secretNode, alone: true,
			spec: device("deviceNodes: [{path: /dev/mine, hostPath: /opt/t/mine, fileMode: 0060, uid: 1, gid: 44}]"),
			bundle: both(func(b *bed.Bundle) {
				b.WithIDs([]specs.LinuxIDMapping{ids(0, 100000, 65536)}, []specs.LinuxIDMapping{ids(0, 200000, 65536)})
			}, unprivileged(7, 7, 44)),
			has: []string{"path /dev/mine c 10:237 0060 1:44 open=ok access=rw"},
		},
		{
			name: "the process's user owns", spec: device("deviceNodes: [" + mine + "]"), host: secretNode, alone: true, bundle: both(split, unprivileged(1000, 1000)),
			has: []string{"path /dev/mine c 10:237 0600 1000:1000 open=ok access=rw"},
		},
	})
}

// TestUserNamespaceWithoutRoot: runc makes no container whose root is mapped to nobody, crun does.
func TestUserNamespaceWithoutRoot(t *testing.T) {
	r := row{
		spec: device("deviceNodes: [{path: /dev/made/mine, hostPath: /opt/t/mine, uid: 2, gid: 2}]"), host: secretNode,
		bundle: both(withIDs(ids(1, 100001, 1000)), unprivileged(2, 2)), paths: []string{"/dev/made"}, hide: []string{"mount /dev/made/mine"},
		has: []string{"path /dev/made/mine c 10:237 0600 2:2 open=ok access=rw"},
	}
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		if rt.IsCrun() {
			r.compare(t, rt)
		}
	})
}

// TestUserNamespaceOfAnother: config.json says where it is and nothing of its ids. runc 1.1 takes none of these.
func TestUserNamespaceOfAnother(t *testing.T) {
	r := row{
		spec: device("deviceNodes: [{path: /dev/mine, hostPath: /opt/t/mine}]", mountOf("/run/bed/tree/f", "/opt/f", "options: [bind, ro]")), alone: true,
		host:   func(h *bed.Host) { secretNode(h); h.File("/run/bed/tree/f", "root's", 0o644) },
		bundle: func(b *bed.Bundle) { b.JoinUserNamespace(ids(0, 100000, 65536)) },
		has:    []string{"path /dev/mine c 10:237 0600 0:0 open=ok access=rw", `path /opt/f - 0644 65534:65534 has="root's"`},
	}
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		if !bool(runc11Alone(rt)) {
			r.compare(t, rt)
		}
	})
}

// TestUserNamespacePlaces makes nodes and mount points in every kind of filesystem that a container's root owns.
func TestUserNamespacePlaces(t *testing.T) {
	const opens = " c 10:237 0600 0:0 open=ok access=rw"
	volume := func(h *bed.Host) {
		secretNode(h)
		h.File("/run/bed/tree/f", "root's", 0o644)
		h.Dir("/run/bed/volume")
		if err := os.Chown("/run/bed/volume", 100000, 100000); err == nil {
			_ = os.Chmod("/run/bed/volume", 0o700)
		}
	}
	places := both(mapped, func(b *bed.Bundle) {
		b.Config.Mounts = append(b.Config.Mounts, specs.Mount{Destination: "/tmp/own", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=0700"}})
		b.Folder("/closed")
		// crun's would be a peer of the host's, where nothing is mounted on
		b.Config.Mounts = append(b.Config.Mounts, specs.Mount{Destination: "/volume", Type: "bind", Source: "/run/bed/volume", Options: []string{"rbind", "rprivate"}})
	})
	compareAll(t, []row{
		{
			name: "nodes", host: volume, alone: true, bundle: places,
			spec: device("deviceNodes: [{path: /made/here/mine, hostPath: /opt/t/mine}, {path: /tmp/own/made/mine, hostPath: /opt/t/mine}," +
				" {path: /dev/made/mine, hostPath: /opt/t/mine}, {path: /dev/shm/made/mine, hostPath: /opt/t/mine}]"),
			paths: []string{"/made", "/made/here", "/tmp/own", "/tmp/own/made", "/dev/made"},
			has: []string{
				"path /made/here/mine" + opens, "path /tmp/own/made/mine" + opens, "path /dev/made/mine" + opens, "path /dev/shm/made/mine" + opens,
				"path /made d 0755 0:0 has=[here]", "path /made/here d 0755 0:0 has=[mine]", "path /tmp/own d 0700 0:0 has=[made]",
				"path /tmp/own/made d 0755 0:0 has=[mine]", "path /dev/made d 0755 0:0 has=[mine]",
			},
		},
		{
			name: "a node in a volume", spec: device("deviceNodes: [{path: /volume/mine, hostPath: /opt/t/mine}]"), host: volume, alone: true, bundle: places,
			refused: "/volume",
		},
		{
			name: "mounts", host: volume, bundle: places, differs: filesWithoutIdmap(map[string]string{"/made/here/f": "/", "/tmp/own/made/f": "/tmp/own", "/volume/made/f": "/volume"}),
			spec: device("mounts:\n- {hostPath: /run/bed/tree/f, containerPath: /made/here/f, options: [bind, ro]}\n" +
				"- {hostPath: /run/bed/tree/f, containerPath: /tmp/own/made/f, options: [bind, ro]}\n- {hostPath: /run/bed/tree/f, containerPath: /volume/made/f, options: [bind, ro]}"),
			paths: []string{"/made", "/made/here", "/tmp/own", "/tmp/own/made", "/volume", "/volume/made"},
			has:   []string{"path /volume d 0700 0:0 has=[made]", "path /volume/made d 0755 0:0 has=[f]"},
		},
	})
}

// filesWithoutIdmap: runc 1.1 passes over the library's idmap.
func filesWithoutIdmap(targets map[string]string) func(bed.Runtime) []string {
	return func(rt bed.Runtime) []string {
		if !runc11Alone(rt) {
			return nil
		}
		var paths, mounts []string
		for _, target := range slices.Sorted(maps.Keys(targets)) {
			paths = append(paths, "-path "+target+` - 0644 65534:65534 has="root's"`, "+path "+target+` - 0644 0:0 has="root's"`)
			where := target + " on=" + targets[target] + " root=/tree/f ro,relatime"
			mounts = append(mounts, "-mount "+where+" slave tmpfs bed rw,mode=755", "+mount "+where+",idmapped slave tmpfs bed rw,mode=755")
		}
		return slices.Concat(inOrder(paths), mounts)
	}
}
