package integration

import (
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// device is a spec with one device, a, that has these edits.
func device(edits ...string) string {
	return "cdiVersion: 1.1.0\nkind: v.example/dev\ndevices:\n- name: a\n  containerEdits:\n    " +
		strings.ReplaceAll(strings.Join(edits, "\n"), "\n", "\n    ") + "\n"
}

func TestNodes(t *testing.T) {
	const bothLoops = "deviceNodes: [{path: /dev/one, hostPath: /dev/loop-control}, {path: /dev/two, hostPath: /dev/fuse}]"
	linked := func(h *bed.Host) { h.Link("/opt/t/link", "/dev/null"); h.Link("/opt/t/dangling", "/dev/no-such") }
	compareAll(t, []row{
		{name: "two that are denied by default", spec: device(bothLoops), sweep: true, has: []string{"path /dev/one c 10:237 0600 0:0 open=ok access=rw", "path /dev/two c 10:229 0600 0:0 open=ok access=rw"}},

		{name: "host path is a link", spec: device("deviceNodes: [{path: /dev/foo, hostPath: /opt/t/link}]"), host: linked, refused: "/opt/t/link"},
		{
			name: "host path is a link, numbers given", spec: device("deviceNodes: [{path: /dev/foo, hostPath: /opt/t/link, type: c, major: 1, minor: 3}]"), host: linked,
			has: []string{"path /dev/foo c 1:3 0666 0:0 open=ok access=rw"},
		},
		{name: "host path is a dangling link", spec: device("deviceNodes: [{path: /dev/foo, hostPath: /opt/t/dangling}]"), host: linked, refused: "/opt/t/dangling"},
		{name: "host node missing", spec: device("deviceNodes: [{path: /dev/dri/renderD129, hostPath: /dev/no-such}]"), bare: true, refused: "/dev/no-such"},
		{
			name: "host node missing, numbers given", spec: device("deviceNodes: [{path: /dev/dri/renderD129, hostPath: /dev/no-such, type: c, major: 226, minor: 129}]"),
			bare: true, sweep: true, has: []string{"path /dev/dri/renderD129 c 226:129 0666 0:0 open=ENXIO access=rw"},
		},
		{
			name: "stale numbers", spec: device("deviceNodes: [{path: /dev/nvidia-uvm, type: c, major: 509}]"), sweep: true,
			host: func(h *bed.Host) { h.Node("/dev/nvidia-uvm", unix.S_IFCHR|0o666, 511, 0, 0, 0) },
			has:  []string{"path /dev/nvidia-uvm c 509:0 0666 0:0 open=ENXIO access=rw"},
		},
		{
			name: "owner is the process", spec: device("deviceNodes: [{path: /dev/mine, hostPath: /dev/null}, {path: /dev/roots, hostPath: /dev/zero, uid: 0, gid: 44}]"),
			bundle: user(1000, 1001), has: []string{"path /dev/mine c 1:3 0666 1000:1001 open=ok access=rw", "path /dev/roots c 1:5 0666 0:44 open=ok access=rw"},
		},
		{
			name: "mode whatever the umask", spec: device("deviceNodes: [{path: /dev/nvidia-caps/nvidia-cap1}, {path: /dev/d/e/f, hostPath: /dev/fuse, fileMode: 0660}]"), umask: 0o077,
			host:  func(h *bed.Host) { h.Node("/dev/nvidia-caps/nvidia-cap1", unix.S_IFCHR|0o400, 10, 237, 0, 0) },
			paths: []string{"/dev/nvidia-caps", "/dev/d", "/dev/d/e"}, differs: parentsFollowUmask,
			has: []string{"path /dev/d d 0755 0:0 has=[e]", "path /dev/d/e d 0755 0:0 has=[f]", "path /dev/d/e/f c 10:229 0660 0:0 open=ok access=rw", "path /dev/nvidia-caps/nvidia-cap1 c 10:237 0400 0:0 open=ok access=rw"},
		},
		{
			name: "set-id and sticky bits of a mode", spec: device("deviceNodes: [{path: /dev/bits, hostPath: /dev/null, fileMode: 660}]"),
		},
		{
			name: "numbers of the host path, name of the path", spec: device("deviceNodes: [{path: /dev/nvidia0, hostPath: /opt/drv/dev/nvidia0}]"), sweep: true,
			host: func(h *bed.Host) {
				h.Node("/dev/nvidia0", unix.S_IFCHR|0o666, 1, 8, 0, 0)
				h.Node("/opt/drv/dev/nvidia0", unix.S_IFCHR|0o640, 10, 237, 0, 0)
			},
			has: []string{"path /dev/nvidia0 c 10:237 0640 0:0 open=ok access=rw"},
		},
		{name: "a block device", spec: device("deviceNodes: [{path: /dev/disk, type: b, major: 7, minor: 1}]"), sweep: true},
		{name: "a pipe", spec: device("deviceNodes: [{path: /dev/pipe, type: p}]"), host: func(h *bed.Host) { h.Pipe("/dev/pipe") }},

		{
			name: "on the rootfs", spec: device("deviceNodes: [{path: /opt/foo, hostPath: /dev/null}]"),
			has: []string{"path /opt/foo c 1:3 0666 0:0 open=ok access=rw"},
		},
		{
			name: "the same node is there", spec: device("deviceNodes: [{path: /opt/foo, type: c, major: 1, minor: 3}]"), bundle: imageNode(1, 3),
			has: []string{"path /opt/foo c 1:3 0666 0:0 open=ok access=rw"},
		},
		{name: "another node is there", spec: device("deviceNodes: [{path: /opt/foo, type: c, major: 1, minor: 3}]"), bundle: imageNode(9, 9), native: always(starts), refused: "/opt/foo"},
		{name: "a file is there", spec: device("deviceNodes: [{path: /opt/foo, type: c, major: 1, minor: 3}]"), bundle: imageFile, native: always(starts), refused: "/opt/foo"},
		{name: "a link is there", spec: device("deviceNodes: [{path: /opt/foo, type: c, major: 1, minor: 3}]"), bundle: imageLink, native: always(starts), refused: "/opt/foo"},
		{
			name: "two devices share a node", devices: []string{"v.example/dev=a", "v.example/dev=b"}, sweep: true,
			spec: device("deviceNodes: [{path: /dev/shared, hostPath: /dev/loop-control, permissions: r}]") +
				"- name: b\n  containerEdits:\n    deviceNodes: [{path: /dev/shared, hostPath: /dev/loop-control, permissions: w}]\n",
			has: []string{"path /dev/shared c 10:237 0600 0:0 open=ok access=rw", "allowed c 10:237 rwm"},
		},
		{
			name: "two paths for one device", spec: device("deviceNodes: [{path: /dev/x, hostPath: /dev/fuse}, {path: /dev/y, hostPath: /dev/fuse}]"), sweep: true,
		},
	})
}

// parentsFollowUmask: newer runtimes let the umask into folders that they make for a node, which keeps users out of them.
func parentsFollowUmask(rt bed.Runtime) []string {
	if strings.HasPrefix(rt.Name, "runc-1.1") {
		return nil
	}
	var out []string
	for _, sign := range []string{"-", "+"} {
		mode := map[string]string{"-": "0700", "+": "0755"}[sign]
		out = append(out, sign+"path /dev/nvidia-caps d "+mode+" 0:0 has=[nvidia-cap1]", sign+"path /dev/d d "+mode+" 0:0 has=[e]", sign+"path /dev/d/e d "+mode+" 0:0 has=[f]")
	}
	return out
}

func user(uid, gid uint32) func(*bed.Bundle) {
	return func(b *bed.Bundle) { b.Config.Process.User = specs.User{UID: uid, GID: gid} }
}

func imageNode(major, minor uint32) func(*bed.Bundle) {
	return func(b *bed.Bundle) { b.Node("/opt/foo", unix.S_IFCHR|0o666, major, minor) }
}

func imageFile(b *bed.Bundle) { b.File("/opt/foo", "of the image") }

func imageLink(b *bed.Bundle) { b.Link("/opt/foo", filepath.Join("/etc", "evil")) }
