package oci

import (
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// InUserNamespace tells whether this process is in a user namespace that is not the
// initial one: its uid_map is not the identity on all ids.
func InUserNamespace() bool {
	_, ok := OuterUID()
	return ok
}

// OuterUID gives the id that this process's user 0 has outside the user namespace that the
// process is in; false in the initial one.
func OuterUID() (uid uint32, inside bool) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0, false
	}
	m, err := ParseIDMap(string(text))
	if err != nil || len(m) == 1 && m[0] == (idRange{0, 0, math.MaxUint32}) {
		return 0, false
	}
	uid, _ = m.ToHost(0)
	return uid, true
}

// Owns tells whether another process is in this one's pid namespace and that is not the
// caller's.
func (p *Process) Owns(pid int) bool {
	shared, err := p.SharesNamespace("pid")
	if err != nil || shared {
		return false
	}
	mine, err := p.readlink("ns/pid")
	if err != nil {
		return false
	}
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	return err == nil && mine == theirs
}

func (p *Process) readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(p.dir.Fd()), name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: p.dir.Name() + "/" + name, Err: err}
	}
	return string(buf[:n]), nil
}

// HookCgroup is the cgroup that hooks run in, as a runtime's child would: on v2 a
// directory to start in, on v1 one of each hierarchy to move a thread to.
type HookCgroup struct {
	V2 *os.File
	V1 []string
}

// Close gives the descriptor back.
func (h *HookCgroup) Close() {
	if h.V2 != nil {
		_ = h.V2.Close()
	}
}

// HookCgroup finds the container's cgroups of all hierarchies that are mounted here, but
// for those that the caller is in as well: a rootless engine may leave a container where
// it is itself, and a user may not even move to where they are.
func (c *Container) HookCgroup() (HookCgroup, error) {
	text, err := c.Process.Read("cgroup")
	if err != nil {
		return HookCgroup{}, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return HookCgroup{}, err
	}
	all, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return HookCgroup{}, fmt.Errorf("mountinfo: %w", err)
	}
	return hookCgroupOf(text, string(own), all), nil
}

func hookCgroupOf(text, own string, all []*mountinfo.Info) HookCgroup {
	var h HookCgroup
	for line := range strings.Lines(text) {
		if slices.Contains(strings.SplitAfter(own, "\n"), line) {
			continue
		}
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, unsafePath, ok := strings.Cut(rest, ":")
		if !ok || strings.Contains(unsafePath+"/", "/../") {
			continue
		}
		for _, m := range all {
			rel, ok := strings.CutPrefix(unsafePath, strings.TrimSuffix(m.Root, "/"))
			if !ok || rel != "" && rel[0] != '/' || !isHierarchy(m, id, controllers) {
				continue
			}
			h.add(m, path.Join(m.Mountpoint, rel))
			break
		}
	}
	return h
}

func isHierarchy(m *mountinfo.Info, id, controllers string) bool {
	if m.FSType == "cgroup2" {
		return id == "0" && controllers == ""
	}
	if controllers == "" {
		return false
	}
	options := "," + m.VFSOptions + ","
	for name := range strings.SplitSeq(controllers, ",") {
		if !strings.Contains(options, ","+name+",") {
			return false
		}
	}
	return true
}

func (h *HookCgroup) add(m *mountinfo.Info, dir string) {
	if m.FSType != "cgroup2" {
		h.V1 = append(h.V1, dir)
		return
	}
	if f, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0); err == nil && h.V2 == nil {
		h.V2 = f
	}
}
