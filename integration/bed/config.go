package bed

import (
	"fmt"
	"os/exec"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// baseConfig is a config.json like the engines write: the usual mounts, masked paths, all devices denied but the runtime's own.
func baseConfig(id string) *specs.Spec {
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_MKNOD", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_ADMIN"}
	c := &specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{
			Cwd:             "/",
			Env:             []string{"PATH=/bin", "SECRET=1"},
			NoNewPrivileges: true,
			Capabilities:    &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Root:        &specs.Root{Path: "rootfs"},
		Hostname:    "bed",
		Annotations: map[string]string{"run.oci.hooks.stderr": hooksStderr},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
			{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		},
		Linux: &specs.Linux{
			CgroupsPath: "/" + id,
			Resources:   &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
			},
			MaskedPaths:   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if current == V2 {
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return c
}

// WithUserNamespace maps the container's ids 0-65535 to the host's from 100000 on, as engines do, and gives the rootfs to them.
func (b *Bundle) WithUserNamespace() {
	b.t.Helper()
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 100000, Size: 65536}}
	b.WithIDs(ids, ids)
}

// WithIDs gives the container a user namespace with these ids, and the rootfs to the first of them.
func (b *Bundle) WithIDs(users, groups []specs.LinuxIDMapping) {
	b.t.Helper()
	b.Config.Linux.UIDMappings, b.Config.Linux.GIDMappings = users, groups
	b.Config.Linux.Namespaces = append(b.Config.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	b.own(int(users[0].HostID), int(groups[0].HostID))
}

// JoinUserNamespace puts the container into a user namespace that another process has made, of which config.json names nothing but the path.
func (b *Bundle) JoinUserNamespace(layout ...specs.LinuxIDMapping) {
	b.t.Helper()
	var ids []syscall.SysProcIDMap
	for _, m := range layout {
		ids = append(ids, syscall.SysProcIDMap{ContainerID: int(m.ContainerID), HostID: int(m.HostID), Size: int(m.Size)})
	}
	c := exec.Command(ToolBusybox, "sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true, Pdeathsig: syscall.SIGKILL}
	b.must(c.Start())
	b.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	b.Config.Linux.Namespaces = append(b.Config.Linux.Namespaces, specs.LinuxNamespace{
		Type: specs.UserNamespace, Path: fmt.Sprintf("/proc/%d/ns/user", c.Process.Pid),
	})
	b.own(int(layout[0].HostID), int(layout[0].HostID))
}

// JoinPids puts the container into a pid namespace that is there already.
func (b *Bundle) JoinPids(path string) {
	for i, ns := range b.Config.Linux.Namespaces {
		if ns.Type == specs.PIDNamespace {
			b.Config.Linux.Namespaces[i].Path = path
		}
	}
}
