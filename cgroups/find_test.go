package cgroups

import (
	"errors"
	"strings"
	"testing"
)

const (
	hybridMounts = `23 1 8:1 / / rw - ext4 /dev/sda rw
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	unifiedMounts = `23 1 8:1 / / rw - ext4 /dev/sda rw
31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate
`
	bothLines = "5:devices:/v1/box\n1:name=systemd:/init\n0::/v2/box\n"
)

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		procs, mounts string
		dir           string
		version       Version
		err           string
	}{
		"unified":              {"0::/a.slice/b.scope\n", unifiedMounts, "/sys/fs/cgroup/a.slice/b.scope", V2, ""},
		"unified, root":        {"0::/\n", unifiedMounts, "/sys/fs/cgroup", V2, ""},
		"unified, colons":      {"0::/a:b:c\n", unifiedMounts, "/sys/fs/cgroup/a:b:c", V2, ""},
		"unified, v1 line too": {bothLines, unifiedMounts, "/sys/fs/cgroup/v2/box", V2, ""},
		"hybrid":               {bothLines, hybridMounts, "/sys/fs/cgroup/devices/v1/box", V1, ""},
		"joined controllers": {"4:cpu,devices:/x\n", strings.Replace(hybridMounts, "rw,devices", "rw,cpu,devices", 1),
			"/sys/fs/cgroup/devices/x", V1, ""},
		"unified over hybrid": {bothLines, hybridMounts + "50 31 0:38 / /sys/fs/cgroup rw - cgroup2 none rw\n",
			"/sys/fs/cgroup/v2/box", V2, ""},
		"unified elsewhere is not the host's": {bothLines, hybridMounts + "50 23 0:38 / /mnt/cg rw - cgroup2 none rw\n",
			"/sys/fs/cgroup/devices/v1/box", V1, ""},
		"root listed after what is in it": {"0::/x\n", "31 60 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n60 1 8:1 / / rw - ext4 /dev/sda rw\n",
			"/sys/fs/cgroup/x", V2, ""},
		"first root listed": {"0::/x\n", "1 1 0:2 / / rw - rootfs rootfs rw\n60 1 8:1 / / rw - ext4 /dev/sda rw\n31 60 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"/sys/fs/cgroup/x", V2, ""},
		"a covered root": {"0::/x\n", "23 1 8:1 / / rw - ext4 /dev/sda rw\n31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n70 23 0:40 / /sys rw - tmpfs none rw\n",
			"", 0, "no cgroup hierarchy"},
		"mount of a subtree": {"5:devices:/pod/box\n", "36 31 0:33 /pod /sys/fs/cgroup/devices ro - cgroup cgroup rw,devices\n",
			"/sys/fs/cgroup/devices/box", V1, ""},
		"mount of another subtree": {"5:devices:/pod2/box\n", "36 31 0:33 /pod /sys/fs/cgroup/devices ro - cgroup cgroup rw,devices\n",
			"", 0, "no mount shows it"},
		"the usual place first": {"5:devices:/x\n", "35 31 0:33 / /mnt/dev rw - cgroup cgroup rw,devices\n36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n",
			"/sys/fs/cgroup/devices/x", V1, ""},
		"an unusual place":      {"5:devices:/x\n", "35 31 0:33 / /mnt/d\\040ev rw - cgroup cgroup rw,devices\n", "/mnt/d ev/x", V1, ""},
		"outside our namespace": {"0::/../../x\n", unifiedMounts, "", 0, "outside our cgroup namespace"},
		"gone":                  {"0::/x (deleted)\n", unifiedMounts, "", 0, "gone"},
		"relative":              {"0::x\n", unifiedMounts, "", 0, "not an absolute path"},
		"no line":               {"1:name=systemd:/\n", unifiedMounts, "", 0, "no cgroup hierarchy"},
		"no hierarchy":          {bothLines, "23 1 8:1 / / rw - ext4 /dev/sda rw\n", "", 0, "no cgroup hierarchy"},
		"torn line":             {"0:", unifiedMounts, "", 0, "not of the form"},
		"torn mountinfo":        {bothLines, "36 31 0:33", "", 0, "mountinfo"},
	} {
		dir, v, err := Find([]byte(c.procs), strings.NewReader(c.mounts))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %q, error %v, want one with %q", name, dir, err, c.err)
			}
			if c.err == "no cgroup hierarchy" && !errors.Is(err, ErrNoHierarchy) {
				t.Errorf("%s: %v is not ErrNoHierarchy", name, err)
			}
			continue
		}
		if err != nil || dir != c.dir || v != c.version {
			t.Errorf("%s: %q %v %v, want %q %v", name, dir, v, err, c.dir, c.version)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte(bothLines), hybridMounts)
	f.Add([]byte("0::/a.slice/b.scope\n"), unifiedMounts)
	f.Add([]byte("5:devices:/pod/box\n"), "36 31 0:33 /pod /sys/fs/cgroup/devices ro - cgroup cgroup rw,devices\n")
	f.Fuzz(func(t *testing.T, procs []byte, mounts string) {
		dir, v, err := Find(procs, strings.NewReader(mounts))
		if err != nil {
			return
		}
		if v != V1 && v != V2 {
			t.Errorf("version %d", v)
		}
		if strings.Contains(dir+"/", "/../") {
			t.Errorf("%q leads out of the mount", dir)
		}
	})
}
