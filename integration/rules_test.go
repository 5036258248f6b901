package integration

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// TestDeviceRules is about what the container's cgroup allows before and after; the sweep sees every number.
func TestDeviceRules(t *testing.T) {
	rows := []row{
		{
			// on v1 crun is refused by the kernel then, and leaves its cgroup
			name: "no rule for none", alone: bed.Cgroup() == bed.V1, spec: device("deviceNodes: [{path: /dev/x, type: c, major: 10, minor: 237, permissions: none}]"), sweep: true, native: notOnRunc,
			has: []string{"path /dev/x c 10:237 0660 0:0 open=EPERM access=none"},
		},
		{
			name: "as wide as asked", sweep: true,
			spec: device("deviceNodes: [{path: /dev/x, type: c, major: 195, minor: 255}, {path: /dev/y, type: b, major: 7, permissions: r}, {path: /dev/z, hostPath: /dev/fuse, permissions: wm}]"),
			has:  []string{"allowed c 195:255 rwm", "allowed b 7:0 rm", "allowed c 10:229 wm"},
		},
		{
			name: "letters in any order and twice", sweep: true, spec: device("deviceNodes: [{path: /dev/x, hostPath: /dev/fuse, permissions: mrw}, {path: /dev/y, hostPath: /dev/loop-control, permissions: rr}]"),
			has: []string{"allowed c 10:229 rwm", "allowed c 10:237 rm"},
		},
		{
			name: "beside the user's rules", sweep: true, spec: device("deviceNodes: [{path: /dev/x, hostPath: /dev/fuse}]"),
			bundle: rules(allow("c", 10, 237, "rw"), allow("b", 7, -1, "r")), has: []string{"allowed c 10:237 rwm", "allowed c 10:229 rwm", "allowed b 7:3 rm"},
		},
		{
			name: "where all is allowed", sweep: true, spec: device("deviceNodes: [{path: /dev/x, hostPath: /dev/fuse, permissions: r}]"),
			bundle: rules(specs.LinuxDeviceCgroup{Allow: true, Access: "rwm"}), has: []string{"allowed c 10:229 rwm", "allowed c 1:11 rwm"},
		},
		{
			name: "without resources", sweep: true, spec: device("deviceNodes: [{path: /dev/x, hostPath: /dev/fuse}]"), bundle: func(b *bed.Bundle) { b.Config.Linux.Resources = nil },
			has: []string{"allowed c 10:229 rwm"}, hide: narrowedByCrun(),
		},
		{
			name: "over a rule that denies", sweep: true, spec: device("deviceNodes: [{path: /dev/x, hostPath: /dev/fuse}]"),
			bundle: rules(allow("c", 10, 229, "rw"), specs.LinuxDeviceCgroup{Type: "c", Major: number(10), Minor: number(229), Access: "w"}), has: []string{"allowed c 10:229 rwm"},
		},
	}
	compareAll(t, rows)
}

// TestHybrid runs where both trees are mounted: the devices controller is v1's, whatever else there is.
func TestHybrid(t *testing.T) {
	if bed.Cgroup() != bed.V1 {
		t.Log("the v1 bed has this one")
		return
	}
	r := row{
		fixture: "nvidia-dgpu.yaml", devices: []string{"nvidia.com/gpu=0"}, sweep: true, differs: without("env NVIDIA_VISIBLE_DEVICES=void"),
		host: func(h *bed.Host) {
			h.Dir("/sys/fs/cgroup/unified")
			h.Mount("cgroup2", "/sys/fs/cgroup/unified", "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		},
	}
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		if rt.IsCrun() {
			t.Log("crun 1.8 refuses such a tree")
			return
		}
		r.compare(t, rt)
	})
}

// narrowedByCrun: on v2 the library's one rule makes crun deny all others where it denied nothing without; we narrow nothing.
func narrowedByCrun() []string {
	if bed.Cgroup() == bed.V2 {
		return []string{"allowed "}
	}
	return nil
}

// notOnRunc: the library's rule has an empty access, which runc refuses.
func notOnRunc(rt bed.Runtime) verdict { return verdict(rt.IsCrun()) }

func rules(more ...specs.LinuxDeviceCgroup) func(*bed.Bundle) {
	return func(b *bed.Bundle) {
		b.Config.Linux.Resources.Devices = append(b.Config.Linux.Resources.Devices, more...)
	}
}

func allow(kind string, major, minor int64, access string) specs.LinuxDeviceCgroup {
	d := specs.LinuxDeviceCgroup{Allow: true, Type: kind, Major: number(major), Access: access}
	if minor >= 0 {
		d.Minor = number(minor)
	}
	return d
}

func number(n int64) *int64 { return &n }
