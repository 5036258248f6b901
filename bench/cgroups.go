package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const cgroupTop = "/sys/fs/cgroup"

// onEachVersion shows this process and its children one version of cgroups after the other. The mount namespace is the benchmark's own. A
// machine that has given all controllers to version 2 has no list of devices of version 1; then that is said.
func (b *bench) onEachVersion(do func(version string) error) error {
	for _, version := range []string{"v1", "v2"} {
		if version == "v1" {
			if _, err := os.Stat(filepath.Join(cgroupTop, "devices", "devices.list")); err != nil {
				b.out.note("cgroup v1 is not measured: this machine has none (%v)", err)
				continue
			}
		}
		if err := b.onVersion(version, do); err != nil {
			return fmt.Errorf("cgroup %s: %w", version, err)
		}
	}
	return nil
}

func (b *bench) onVersion(version string, do func(version string) error) (err error) {
	show := showV2
	if version == "v1" {
		show = b.showV1
	}
	if err := show(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syscall.Unmount(cgroupTop, syscall.MNT_DETACH)) }()
	return do(version)
}

func showV2() error { return syscall.Mount("cgroup2", cgroupTop, "cgroup2", 0, "") }

// showV1 shows the hierarchies of version 1 alone: crun refuses a tree that has both.
func (b *bench) showV1() error {
	tree := b.world.path("cgroup-v1")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("cgroups", tree, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	entries, err := os.ReadDir(cgroupTop)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join(cgroupTop, e.Name()), filepath.Join(tree, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			link, err := os.Readlink(from)
			if err == nil {
				err = os.Symlink(link, to)
			}
			if err != nil {
				return err
			}
		case e.IsDir() && e.Name() != "unified":
			if err := os.Mkdir(to, 0o755); err != nil {
				return err
			}
			if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
				return &os.PathError{Op: "bind", Path: to, Err: err}
			}
		}
	}
	return syscall.Mount(tree, cgroupTop, "", syscall.MS_MOVE, "")
}
