package integration

import (
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

func TestMounts(t *testing.T) {
	compareAll(t, []row{
		{name: "no type, no option", spec: device(mountOf("/opt/t/f", "/opt/f", "")), refused: "add bind or rbind"},
		{name: "ro alone", spec: device(mountOf("/opt/t/f", "/opt/f", "options: [ro]")), refused: "add bind or rbind"},
		{name: "type bind alone", spec: device(mountOf("/opt/t/f", "/opt/f", "type: bind")), refused: "add bind or rbind"},
		{name: "type none and ro", spec: device(mountOf("/opt/t/f", "/opt/f", "type: none, options: [ro]")), refused: "add bind or rbind"},

		{name: "source missing", spec: device(mountOf("/opt/t/libx.so.1.2", "/usr/lib/libx.so.1.2", "options: [bind, ro]")), bare: true, refused: "/opt/t/libx.so.1.2"},
		{
			name: "source is a dangling link", spec: device(mountOf("/opt/t/dangling", "/usr/lib/libx.so", "options: [bind, ro]")), bare: true,
			host: func(h *bed.Host) { h.Link("/opt/t/dangling", "nowhere") }, refused: "/opt/t/dangling",
		},
		{
			name: "source is a link", spec: device(mountOf("/opt/t/link", "/usr/lib/libx.so", "options: [bind, ro]")), paths: []string{"/usr/lib"},
			host: func(h *bed.Host) { h.File("/opt/t/real", "the real one", 0o644); h.Link("/opt/t/link", "real") },
			has:  []string{`path /usr/lib/libx.so - 0644 0:0 has="the real one"`},
		},
		{
			name: "target through links of the image", spec: device("mounts:\n" + mountItem("/opt/t/socket", "/var/run/np/socket", "options: [bind]") + mountItem("/opt/t/f", "/lib/x/f", "options: [rbind, ro]")),
			bundle: func(b *bed.Bundle) {
				b.Folder("/run")
				b.Folder("/usr/lib")
				b.Link("/var/run", "/run")
				b.Link("/lib", "usr/lib")
			},
			paths: []string{"/var/run", "/lib", "/run/np/socket", "/usr/lib/x/f"},
			has:   []string{`path /run/np/socket - 0644 0:0 has="stand-in of /opt/t/socket"`, "path /lib l 0777 0:0 ->=usr/lib open=ok"},
		},
		{
			name: "order by depth", paths: []string{"/usr/lib/x", "/usr/lib/x/deep/er", "/data", "/etc/hosts"}, bundle: userMounts,
			spec: device("mounts:\n" + mountItem("/opt/t/deeper", "/usr/lib/x/deep/er", "options: [rbind]") + mountItem("/opt/t/x", "/usr/lib/x", "options: [rbind]")),
			host: func(h *bed.Host) {
				h.File("/opt/t/deeper/mark", "deeper", 0o644)
				h.Dir("/opt/t/x/deep/er")
				h.File("/opt/t/x/mark", "x", 0o644)
				h.Dir("/opt/t/data")
			},
			has: []string{"path /usr/lib/x d 0755 0:0 has=[deep mark]", "path /usr/lib/x/deep/er d 0755 0:0 has=[mark]"},
		},
		{
			name: "over the user's mount, with a slash", bundle: userMounts, paths: []string{"/data"},
			spec: device(mountOf("/opt/t/ours", "/data/", "options: [rbind, ro]")),
			host: func(h *bed.Host) {
				h.File("/opt/t/data/of-the-user", "", 0o644)
				h.File("/opt/t/ours/of-cdi", "", 0o644)
			},
			has: []string{"path /data d 0755 0:0 has=[of-cdi]"},
		},
		{
			name: "over shm", spec: device("mounts: [{hostPath: tmpfs, containerPath: /dev/shm, type: tmpfs, options: [nosuid, nodev, size=1m]}]"), bare: true,
			paths: []string{"/dev/shm"},
			// natively ours is put in its place, by editing the list
			differs: differing("-mount /dev/shm on=/dev root=/ rw,nosuid,nodev,relatime private tmpfs tmpfs rw,size=1024k",
				"+mount /dev/shm on=/dev root=/ rw,nosuid,nodev,noexec,relatime private tmpfs shm rw,size=65536k",
				"+mount /dev/shm on=/dev/shm root=/ rw,nosuid,nodev,relatime private tmpfs tmpfs rw,size=1024k", "+order /dev/shm"),
		},
		{
			name: "over a folder with the user's mounts in it", bundle: nestedMounts, paths: []string{"/data", "/data/sub"},
			spec: device(mountOf("/opt/t/ours", "/data", "options: [rbind]")),
			host: func(h *bed.Host) {
				h.File("/opt/t/sub/of-the-user", "", 0o644)
				h.File("/opt/t/ours/of-cdi", "", 0o644)
				h.Dir("/opt/t/ours/sub")
			},
			has: []string{"path /data d 0755 0:0 has=[of-cdi sub]", "path /data/sub d 0755 0:0 has=[of-the-user]"},
			// the user's own stays below ours, out of sight, and a copy of it lies on top
			differs: hiddenSub,
		},
		{
			name: "read-only rootfs, mount point missing", spec: device(mountOf("/opt/t/f", "/opt/new/deep/f", "options: [bind, ro]")), paths: []string{"/opt/new", "/opt/new/deep"},
			bundle: func(b *bed.Bundle) { b.Config.Root.Readonly = true }, writable: []string{"/opt", "/opt/new/deep/f"},
			has: []string{"write /opt EROFS", "write /opt/new/deep/f EROFS"},
		},
		{name: "inside proc", spec: device(mountOf("/opt/t/params", "/proc/driver/nvidia/params", "options: [bind]")), refused: "/proc/driver/nvidia/params"},
		{name: "a file of proc that runtimes allow", spec: device(mountOf("/opt/t/cpuinfo", "/proc/cpuinfo", "options: [bind]")), has: []string{`path /proc/cpuinfo - 0644 0:0 has="stand-in of /opt/t/cpuinfo"`}},
		{name: "proc itself", spec: device(mountOf("/opt/t/d", "/proc", "options: [bind]")), host: folder("/opt/t/d"), refused: "/proc"},
		{
			name: "out of the rootfs by a link of the image", spec: device(mountOf("/opt/t/f", "/opt/x/f", "options: [bind]")), paths: []string{"/run/bed/evil/f"},
			bundle: func(b *bed.Bundle) { b.Link("/opt/x", "../../../../../../../run/bed/evil") }, native: startsOnRunc,
			has: []string{`path /run/bed/evil/f - 0644 0:0 has="stand-in of /opt/t/f"`},
		},
		{name: "an image without anything", spec: device(mountOf("/opt/t/f", "/f", "options: [bind, ro]"), "deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]")},
	})
}

func TestMountOptions(t *testing.T) {
	compareAll(t, []row{
		{
			name: "all words on a socket", spec: device(mountOf("/run/bed/work/socket", "/run/np/socket", "options: [noexec, rprivate, rbind, nodev, nosuid, ro]")),
			host: func(h *bed.Host) { h.Socket("/run/bed/work/socket") },
		},
		{
			name: "rbind and ro leave submounts writable", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: [rbind, ro]")), host: treeWithSubmount,
			writable: []string{"/opt/tree", "/opt/tree/sub"}, has: []string{"write /opt/tree EROFS", "write /opt/tree/sub ok"},
		},
		{name: "bind leaves submounts out", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: [bind]")), host: treeWithSubmount, paths: []string{"/opt/tree/sub"}},
		{name: "an unknown word", spec: device(mountOf("/opt/t/f", "/opt/f", "options: [bind, unknownopt]")), native: func(rt bed.Runtime) verdict { return verdict(!strings.HasPrefix(rt.Name, "runc-1.5")) }, warns: []string{"unknownopt", "/opt/f"}},
		{name: "rslave", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: [rbind, rslave]")), host: treeWithSubmount},
		{name: "rshared", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: [rbind, rshared]")), host: treeWithSubmount},
		{name: "private", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: [rbind, private]")), host: treeWithSubmount},
		{name: "unbindable", spec: device(mountOf("/opt/t/f", "/opt/f", "options: [bind, unbindable]"))},
		{name: "no propagation word", spec: device(mountOf("/opt/t/tree", "/opt/tree", "options: [rbind]")), host: treeWithSubmount},
		{name: "atime words", spec: device("mounts:\n" + mountItem("/opt/t/a", "/opt/a", "options: [bind, noatime]") + mountItem("/opt/t/b", "/opt/b", "options: [bind, strictatime, nodiratime]"))},
		{name: "flags that the source has", spec: device(mountOf("/opt/t/locked/f", "/opt/f", "options: [bind, ro]")), host: lockedSource},
		{name: "flags taken away", spec: device(mountOf("/opt/t/locked/f", "/opt/f", "options: [bind, rw, exec, dev, suid]")), host: lockedSource, differs: runc11KeepsFlags},
		{name: "a tmpfs", spec: device("mounts: [{hostPath: none, containerPath: /opt/tmp, type: tmpfs, options: [nosuid, mode=0700, size=64k]}]"), bare: true, paths: []string{"/opt/tmp"}},
	})
}

func hiddenSub(rt bed.Runtime) []string {
	propagation := "slave"
	if rt.IsCrun() {
		propagation = "private"
	}
	return []string{
		"+mount /data/sub on=/ root=/t/sub rw,relatime " + propagation + " overlay overlay rw,lowerdir=/opt,upperdir=/run/bed/over/opt,workdir=/run/bed/overwork/opt,uuid=on",
		"+rootfs /data/sub drwxr-xr-x 0:0",
	}
}

// runc11KeepsFlags: there the words that take a flag away do nothing to a flag of the source.
func runc11KeepsFlags(rt bed.Runtime) []string {
	if !strings.HasPrefix(rt.Name, "runc-1.1") {
		return nil
	}
	return []string{
		"-mount /opt/f on=/ root=/f rw,nosuid,nodev,noatime slave tmpfs locked rw,mode=755",
		"+mount /opt/f on=/ root=/f rw,noatime slave tmpfs locked rw,mode=755",
	}
}

func mountItem(from, to, rest string) string {
	if rest != "" {
		rest = ", " + rest
	}
	return "- {hostPath: \"" + from + "\", containerPath: \"" + to + "\"" + rest + "}\n"
}

func mountOf(from, to, rest string) string { return "mounts:\n" + mountItem(from, to, rest) }

func startsOnRunc(rt bed.Runtime) verdict { return verdict(!rt.IsCrun()) }

func folder(path string) func(*bed.Host) { return func(h *bed.Host) { h.Dir(path) } }

func userMounts(b *bed.Bundle) {
	b.Config.Mounts = append(b.Config.Mounts,
		specs.Mount{Destination: "/etc/hosts", Type: "bind", Source: "/etc/hosts", Options: []string{"bind", "ro"}},
		specs.Mount{Destination: "/data", Type: "bind", Source: "/opt/t/data", Options: []string{"rbind"}})
}

func nestedMounts(b *bed.Bundle) {
	b.Config.Mounts = append(b.Config.Mounts, specs.Mount{Destination: "/data/sub", Type: "bind", Source: "/opt/t/sub", Options: []string{"rbind"}})
}

func treeWithSubmount(h *bed.Host) {
	h.Dir("/opt/t/tree/sub")
	h.Mount("sub", "/opt/t/tree/sub", "tmpfs", 0, "mode=0755")
}

func lockedSource(h *bed.Host) {
	h.Dir("/opt/t/locked")
	h.Mount("locked", "/opt/t/locked", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "mode=0755")
	h.File("/opt/t/locked/f", "on a locked mount", 0o644)
}
