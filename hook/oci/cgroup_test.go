package oci

import (
	"slices"
	"testing"

	"github.com/moby/sys/mountinfo"
)

func TestIsHierarchy(t *testing.T) {
	v1 := func(options string) *mountinfo.Info { return &mountinfo.Info{FSType: "cgroup", VFSOptions: options} }
	v2 := &mountinfo.Info{FSType: "cgroup2", VFSOptions: "rw"}
	for _, c := range []struct {
		mount           *mountinfo.Info
		id, controllers string
		want            bool
	}{
		{v1("rw,devices"), "5", "devices", true},
		{v1("rw,cpu,cpuacct"), "4", "cpu,cpuacct", true},
		{v1("rw,cpuacct,cpu"), "4", "cpu,cpuacct", true},
		{v1("rw,name=systemd"), "1", "name=systemd", true},
		{v1("rw,cpuset"), "4", "cpu", false},
		{v1("rw,cpu"), "4", "cpu,cpuacct", false},
		{v1("rw,devices"), "0", "", false},
		{v2, "0", "", true},
		{v2, "5", "devices", false},
		{v2, "5", "", false},
	} {
		if have := isHierarchy(c.mount, c.id, c.controllers); have != c.want {
			t.Errorf("%s %s, line %s:%s: %v", c.mount.FSType, c.mount.VFSOptions, c.id, c.controllers, have)
		}
	}
}

func TestHookCgroupOfMounts(t *testing.T) {
	table := []*mountinfo.Info{
		{FSType: "cgroup", VFSOptions: "rw,devices", Root: "/a", Mountpoint: "/elsewhere"},
		{FSType: "cgroup", VFSOptions: "rw,devices", Root: "/", Mountpoint: "/sys/fs/cgroup/devices"},
		{FSType: "cgroup", VFSOptions: "rw,pids", Root: "/", Mountpoint: "/sys/fs/cgroup/pids"},
	}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"5:devices:/x/y\n", []string{"/sys/fs/cgroup/devices/x/y"}},
		{"5:devices:/\n", []string{"/sys/fs/cgroup/devices"}},
		{"5:devices:/a/b\n", []string{"/elsewhere/b"}},
		{"5:devices:/a\n", []string{"/elsewhere"}},
		{"5:devices:/ab/c\n", []string{"/sys/fs/cgroup/devices/ab/c"}},
		{"5:devices:/a:b\n3:pids:/p\n", []string{"/sys/fs/cgroup/devices/a:b", "/sys/fs/cgroup/pids/p"}},
		{"5:devices:/../x\n", nil},
		{"5:devices:/x/..\n", nil},
		{"5:devices:/own\n3:pids:/own/x\n", []string{"/sys/fs/cgroup/pids/own/x"}},
		{"9:memory:/x\n0::/\n\nnonsense\n", nil},
	} {
		h := hookCgroupOf(c.text, "5:devices:/own\n3:pids:/own\n", table)
		if !slices.Equal(h.V1, c.want) || h.V2 != nil {
			t.Errorf("%q: %q, want %q", c.text, h.V1, c.want)
		}
	}
}
