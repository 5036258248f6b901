package oci

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Reasons for which a container that should run is refused.
var (
	ErrEnded      = errors.New("it has ended")
	ErrNotPivoted = errors.New("its root file system is the host's: it is no container, or still being created")
)

// Reference says where a container that runs is found.
type Reference struct {
	State
	// StartTime of its process, where who names it knows; 0 takes the process as it is.
	StartTime uint64
}

// FindRunning takes up a container that runs. Its bundle may be unknown, or gone: then
// there is no config. Everything of its process goes through one descriptor from here on.
func FindRunning(ref Reference) (*Container, error) {
	if err := ref.CheckName(); err != nil {
		return nil, err
	}
	if ref.Pid <= 1 {
		return nil, fmt.Errorf("container %s: pid %d is not a container's process", ref.ID, ref.Pid)
	}
	c := &Container{State: &ref.State}
	if err := c.readBundle(); err != nil {
		return nil, err
	}
	var err error
	c.Process, err = OpenProcess(ref.Pid)
	if errors.Is(err, unix.ESRCH) || err == nil && ref.StartTime != 0 && c.Process.StartTime != ref.StartTime {
		err = ErrEnded
	}
	if err == nil {
		err = c.lookInside()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("container %s, pid %d: %w", ref.ID, ref.Pid, err), c.Close())
	}
	return c, nil
}

func (c *Container) readBundle() (err error) {
	if c.Bundle == "" {
		return nil
	}
	c.Config, err = ReadConfig(c.Bundle)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(c.Annotations) == 0 {
		c.Annotations = c.Config.Annotations
	}
	c.RootPath, err = RootPath(c.Bundle, c.Config, c.State)
	return err
}

func (c *Container) lookInside() error {
	own, err := c.Process.SharesNamespace("mnt")
	if err != nil {
		return err
	}
	if own {
		return ErrOwnNamespace
	}
	return c.lookAtIDs()
}

// CheckRunningRoot refuses a root that is the host's own.
func CheckRunningRoot(root *os.File) error {
	var st, host unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return &os.PathError{Op: "fstat", Path: root.Name(), Err: err}
	}
	if err := unix.Stat("/", &host); err != nil {
		return &os.PathError{Op: "stat", Path: "/", Err: err}
	}
	if identityOf(&st) == identityOf(&host) {
		return ErrNotPivoted
	}
	return nil
}

// Holds tells whether another process is in the container: in its pid namespace or, where
// it has none of its own, in its mount namespace. One that is gone is in none.
func (c *Container) Holds(pid int) (bool, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	for _, kind := range []string{"pid", "mnt"} {
		if shared, err := c.Process.SharesNamespace(kind); err != nil || shared {
			continue
		}
		mine, err := c.Process.readlink("ns/" + kind)
		if err != nil {
			return false, err
		}
		if theirs, err := os.Readlink(dir + "/ns/" + kind); err == nil && theirs == mine {
			return true, nil
		}
	}
	p, err := OpenProcess(pid)
	if errors.Is(err, unix.ESRCH) {
		return true, nil // ended, or a zombie
	}
	if err != nil {
		return false, err
	}
	return false, p.Close()
}

// OuterCgroup gives the container's /proc/PID/cgroup with the cgroups that are its own in
// place of those that its process has gone to since: an init in the container, systemd for
// one, moves to a cgroup below. They are the roots of its cgroup namespace; without one
// the two are the same. within runs a function on a thread that has joined such a namespace.
func (c *Container) OuterCgroup(within func(cgroupNS *os.File, f func() error) error) (string, error) {
	now, err := c.Process.Read("cgroup")
	if err != nil {
		return "", err
	}
	shared, err := c.Process.SharesNamespace("cgroup")
	if err != nil || shared {
		return now, nil // or a kernel without such namespaces (before 4.6)
	}
	ns, err := c.Process.Namespace("cgroup")
	if err != nil {
		return "", err
	}
	defer ns.Close()
	// The paths that it shows are relative to its reader's namespace (cgroup_namespaces(7)).
	var inside string
	err = within(ns, func() (err error) { inside, err = c.Process.Read("cgroup"); return err })
	return withoutInner(now, inside), err
}

// withoutInner takes the inner paths off the end of the outer ones.
func withoutInner(outer, inner string) string {
	var b strings.Builder
	all := slices.Collect(strings.Lines(inner))
	for line := range strings.Lines(outer) {
		head, unsafePath := splitCgroup(line)
		for _, l := range all {
			innerHead, rel := splitCgroup(l)
			if innerHead != head || strings.Contains(rel+"/", "/../") {
				continue
			}
			if top, ok := strings.CutSuffix(unsafePath, strings.TrimSuffix(rel, "/")); ok {
				unsafePath = path.Join("/", top)
			}
		}
		b.WriteString(head + unsafePath + "\n")
	}
	return b.String()
}

// splitCgroup splits ID:CONTROLLERS:PATH before the path.
func splitCgroup(line string) (head, unsafePath string) {
	line = strings.TrimSuffix(line, "\n")
	id, rest, _ := strings.Cut(line, ":")
	controllers, unsafePath, _ := strings.Cut(rest, ":")
	return id + ":" + controllers + ":", unsafePath
}
