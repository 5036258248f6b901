package bed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/report"
)

const (
	home = "/run/bed"     // on the bed's own /run
	bin  = home + "/bin"  // tools, copied so that links to them can be made
	work = home + "/work" // of one test, gone after it
)

// enter turns the private mount namespace that this process was started in into a bed.
func enter(v Version, tools string) error {
	for _, step := range []func() error{
		func() error { return freshRun(tools) },
		freshDev,
		func() error { return overlay("usr", "etc", "opt", "lib") },
		func() error { return cgroupTree(v) },
		// like the hosts of the field: systemd makes / shared. Within the bed alone, its peers are all here.
		func() error { return mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "") },
		noteNamespaces,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func freshRun(tools string) error {
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	// the runtimes make these on every call, even for --version, and under podman without our --root
	for _, d := range []string{"/run/crun", "/run/runc"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	// a filesystem of its own, where device nodes open
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	if err := mount("bed", home, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for _, name := range toolNames {
		if err := copyFile(filepath.Join(tools, name), filepath.Join(bin, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// deniedByDefault are nodes of common kernels that the runtimes' own rules deny and that open without harm.
var deniedByDefault = []string{"fuse", "loop-control", "vsock", "btrfs-control", "userfaultfd", "kvm", "autofs"}

// freshDev builds a /dev without the host's nodes but for harmless ones, so that stand-ins can be put into it.
func freshDev() error {
	const dev = "/run/dev"
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	if err := mount("dev", dev, "tmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
		return err
	}
	for _, name := range append([]string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}, deniedByDefault...) {
		var st unix.Stat_t
		if unix.Stat("/dev/"+name, &st) != nil {
			continue // of another kernel
		}
		if err := makeNode(filepath.Join(dev, name), st.Mode, st.Rdev); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, name), 0o755); err != nil {
			return err
		}
	}
	if err := mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	if err := mount("shm", dev+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	for from, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, from)); err != nil {
			return err
		}
	}
	if err := mount(dev, "/dev", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return os.Remove(dev)
}

func mkdev(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }

func makeNode(path string, mode uint32, rdev uint64) error {
	if err := unix.Mknod(path, mode, int(rdev)); err != nil {
		return &os.PathError{Op: "mknod", Path: path, Err: err}
	}
	return os.Chmod(path, os.FileMode(mode&0o777))
}

// lower holds what the overlays lie over, as it was.
var lower = map[string]*os.Root{}

// overlay lets the tests add libraries, programs and settings to the host as they see it.
func overlay(names ...string) error {
	for _, name := range names {
		if st, err := os.Lstat("/" + name); err != nil || !st.IsDir() {
			continue // /lib is a link on merged systems
		}
		below, err := os.OpenRoot("/" + name)
		if err != nil {
			return err
		}
		lower[name] = below
		upper, wd := filepath.Join(home, "over", name), filepath.Join(home, "overwork", name)
		for _, d := range []string{upper, wd} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
		}
		opts := fmt.Sprintf("lowerdir=/%s,upperdir=%s,workdir=%s", name, upper, wd)
		if err := mount("overlay", "/"+name, "overlay", 0, opts); err != nil {
			return err
		}
	}
	return nil
}

func cgroupTree(v Version) error {
	if v == V1 {
		return onlyV1()
	}
	// newest first: the tmpfs of a v1 tree, then whatever lay below it
	for n := 0; n < 8 && mounted("/sys/fs/cgroup"); n++ {
		if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
			return &os.PathError{Op: "umount", Path: "/sys/fs/cgroup", Err: err}
		}
	}
	return mount("cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// onlyV1 builds a tree of the v1 hierarchies anew. Taking the unified mount away would not do: crun makes a folder for each container
// in what lies below it, which is the machine's own tmpfs, and leaves it there.
func onlyV1() error {
	const tree = "/run/cgroup"
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if err := mount("cgroups", tree, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755"); err != nil {
		return err
	}
	entries, err := os.ReadDir("/sys/fs/cgroup")
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join("/sys/fs/cgroup", e.Name()), filepath.Join(tree, e.Name())
		if link, err := os.Readlink(from); err == nil {
			err = os.Symlink(link, to)
			if err != nil {
				return err
			}
			continue
		}
		if e.Name() == "unified" {
			continue
		}
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		if err := mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := mount(tree, "/sys/fs/cgroup", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return os.Remove(tree)
}

func mounted(path string) bool {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(raw), " "+path+" ")
}

func noteNamespaces() error {
	m := map[string]string{}
	for _, k := range report.NamespaceKinds {
		to, err := os.Readlink("/proc/self/ns/" + k)
		if err != nil {
			return err
		}
		m[k] = to
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(report.HostNamespaces, b, 0o644)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s (%s, flags %#x, %s): %w", source, target, kind, flags, data, err)
	}
	return nil
}
