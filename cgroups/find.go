package cgroups

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

const mountPoint = "/sys/fs/cgroup"

// ErrNoHierarchy says that no mounted hierarchy controls devices.
var ErrNoHierarchy = errors.New("no cgroup hierarchy that controls devices is mounted")

// Find turns a process's /proc/PID/cgroup into the directory of the cgroup that decides
// on its devices. The mountinfo is that of whoever will open the directory, and both are
// to be read from the same cgroup namespace, for the paths in them are relative to it.
func Find(procCgroup []byte, mounts io.Reader) (dir string, v Version, err error) {
	h, err := FindHierarchies(mounts)
	if err != nil {
		return "", 0, err
	}
	return h.Find(procCgroup)
}

// Hierarchies is what a mountinfo says of cgroups, for finding those of many processes.
type Hierarchies struct {
	table   mountTable
	version Version
}

// FindHierarchies reads a mountinfo.
//
// Version 2 is told by what is mounted at /sys/fs/cgroup, never by /proc/PID/cgroup, which
// lists all that exists on a hybrid host; there the devices hierarchy decides.
func FindHierarchies(mounts io.Reader) (*Hierarchies, error) {
	all, err := mountinfo.GetMountsFromReader(mounts, nil)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	h := &Hierarchies{table: all, version: V1}
	if top := h.table.at(mountPoint); top != nil && top.FSType == "cgroup2" {
		h.version = V2
	}
	return h, nil
}

// Find is [Find] with the mountinfo that was read.
func (h *Hierarchies) Find(procCgroup []byte) (dir string, v Version, err error) {
	unsafePath, err := PathOf(procCgroup, h.version)
	if err != nil {
		return "", 0, err
	}
	dir, err = h.table.place(h.version, unsafePath)
	return dir, h.version, err
}

// PathOf takes the path of the cgroup that Find finds, as /proc/PID/cgroup has it: from the line of the devices controller (v1) or of no
// controller (v2).
func PathOf(procCgroup []byte, v Version) (unsafePath string, err error) {
	for line := range strings.Lines(string(procCgroup)) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, p, ok := strings.Cut(rest, ":")
		if !ok {
			return "", fmt.Errorf("cgroup line %q: not of the form ID:CONTROLLERS:PATH", line)
		}
		unified := id == "0" && controllers == ""
		if v == V2 && unified || v == V1 && slices.Contains(strings.Split(controllers, ","), "devices") {
			return p, checkPath(p)
		}
	}
	return "", fmt.Errorf("process in no cgroup %s: %w", v, ErrNoHierarchy)
}

func checkPath(unsafePath string) error {
	switch {
	case strings.HasSuffix(unsafePath, " (deleted)"):
		return fmt.Errorf("cgroup %q: it is gone", unsafePath)
	case !strings.HasPrefix(unsafePath, "/"), strings.IndexByte(unsafePath, 0) >= 0:
		return fmt.Errorf("cgroup %q: not an absolute path", unsafePath)
	case slices.Contains(strings.Split(unsafePath, "/"), ".."):
		return fmt.Errorf("cgroup %q: outside our cgroup namespace", unsafePath)
	}
	return nil
}

func beneath(p, top string) bool {
	return p == top || strings.HasPrefix(p, strings.TrimSuffix(top, "/")+"/")
}

// place finds the mount that shows the cgroup: the usual one first.
func (t mountTable) place(v Version, unsafePath string) (string, error) {
	var elsewhere string
	found := false
	for _, m := range t {
		if !controlsDevices(m, v) || !t.visible(m) {
			continue
		}
		found = true
		if !beneath(unsafePath, m.Root) {
			continue
		}
		dir := filepath.Join(m.Mountpoint, strings.TrimPrefix(unsafePath, strings.TrimSuffix(m.Root, "/")))
		if beneath(m.Mountpoint, mountPoint) {
			return dir, nil
		}
		if elsewhere == "" {
			elsewhere = dir
		}
	}
	switch {
	case elsewhere != "":
		return elsewhere, nil
	case found:
		return "", fmt.Errorf("cgroup %q: no mount shows it", unsafePath)
	}
	return "", fmt.Errorf("cgroup %q: %w", unsafePath, ErrNoHierarchy)
}

func controlsDevices(m *mountinfo.Info, v Version) bool {
	if v == V2 {
		return m.FSType == "cgroup2"
	}
	return m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), "devices")
}
