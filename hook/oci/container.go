package oci

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Container is a container that a runtime has created and not started.
type Container struct {
	*State
	Config   *Config // nil where the bundle cannot be read and the state names the root
	RootPath string  // in the runtime's mount namespace
	Process  *Process

	// UserNamespace says that it is another than the caller's.
	UserNamespace bool
	UIDs, GIDs    IDMap

	root identity
}

type identity struct{ dev, ino uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{dev: st.Dev, ino: st.Ino} }

// Reasons for which a container is refused.
var (
	ErrOwnNamespace = errors.New("its mount namespace is the host's own")
	ErrOwnRoot      = errors.New("its root file system is the host's own")
	ErrNoRoot       = errors.New("its root file system is not in its mount namespace")
)

// Find looks up the container that a state names. Everything of its process goes through
// one descriptor from here on.
func Find(s *State) (*Container, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	c := &Container{State: s}
	var err error
	c.Config, err = ReadConfig(s.Bundle)
	if err != nil && !(os.IsPermission(err) && path.IsAbs(s.Root)) {
		return nil, err
	}
	if c.RootPath, err = RootPath(s.Bundle, c.Config, s); err != nil {
		return nil, err
	}
	if c.Process, err = OpenProcess(s.Pid); err != nil {
		return nil, err
	}
	if err := c.look(); err != nil {
		c.Process.Close()
		return nil, fmt.Errorf("container %s, pid %d: %w", s.ID, s.Pid, err)
	}
	return c, nil
}

// Close gives the descriptors back.
func (c *Container) Close() error {
	if c.Process == nil {
		return nil
	}
	return c.Process.Close()
}

func (c *Container) look() error {
	own, err := c.Process.SharesNamespace("mnt")
	if err != nil {
		return err
	}
	if own {
		return ErrOwnNamespace
	}
	var st, host unix.Stat_t
	if err := unix.Stat(c.RootPath, &st); err != nil {
		return &os.PathError{Op: "stat", Path: c.RootPath, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &os.PathError{Op: "stat", Path: c.RootPath, Err: unix.ENOTDIR}
	}
	if err := unix.Stat("/", &host); err != nil {
		return &os.PathError{Op: "stat", Path: "/", Err: err}
	}
	if c.root = identityOf(&st); c.root == identityOf(&host) {
		return ErrOwnRoot
	}
	return c.lookAtIDs()
}

func (c *Container) lookAtIDs() error {
	shared, err := c.Process.SharesNamespace("user")
	if err != nil {
		return err
	}
	c.UserNamespace = !shared
	if c.UIDs, err = c.idMap("uid_map"); err != nil {
		return err
	}
	c.GIDs, err = c.idMap("gid_map")
	return err
}

func (c *Container) idMap(name string) (IDMap, error) {
	text, err := c.Process.Read(name)
	if err != nil {
		return nil, err
	}
	return ParseIDMap(text)
}

// InnerJSON gives the state as the runtime gives it to a createContainer hook: with the
// pid that the process has in its own pid namespace. crun, which is known by the root in
// its state, says 0 there.
func (c *Container) InnerJSON() ([]byte, error) {
	if c.Root != "" {
		return c.withPid(0)
	}
	pid, err := c.Process.InnerPid()
	if err != nil {
		return nil, err
	}
	return c.withPid(pid)
}

// OpenRoot opens the container's root directory. The calling thread must be in the
// container's mount namespace. The root is found by its identity: it is what the
// namespace's root is (pivoted), or lies in it at the path that the runtime uses.
func (c *Container) OpenRoot() (root *os.File, pivoted bool, err error) {
	for _, name := range []string{"/", c.RootPath} {
		f, err := openFile(name, unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			f.Close()
			return nil, false, &os.PathError{Op: "fstat", Path: name, Err: err}
		}
		if identityOf(&st) == c.root {
			return f, name == "/", nil
		}
		f.Close()
	}
	return nil, false, fmt.Errorf("%s: %w", c.RootPath, ErrNoRoot)
}

// Born tells a directory from one that has its path, or its inode number, at another time:
// by its time of birth (statx(2), STATX_BTIME), where the filesystem keeps one. Without,
// it says nothing. An overlay gives that of the directory beneath, however often it is
// mounted.
func Born(dir *os.File) (string, error) {
	var stx unix.Statx_t
	err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &stx)
	if errors.Is(err, unix.ENOSYS) || err == nil && stx.Mask&unix.STATX_BTIME == 0 {
		return "", nil
	}
	if err != nil {
		return "", &os.PathError{Op: "statx", Path: dir.Name(), Err: err}
	}
	return fmt.Sprintf("%d.%09d", stx.Btime.Sec, stx.Btime.Nsec), nil
}

// HostIDs translates an owner inside the container for the caller's user namespace.
func (c *Container) HostIDs(uid, gid uint32) (hostUID, hostGID uint32, err error) {
	if !c.UserNamespace {
		return uid, gid, nil
	}
	hostUID, ok := c.UIDs.ToHost(uid)
	if !ok {
		return 0, 0, fmt.Errorf("uid %d is not mapped in the container's user namespace", uid)
	}
	hostGID, ok = c.GIDs.ToHost(gid)
	if !ok {
		return 0, 0, fmt.Errorf("gid %d is not mapped in the container's user namespace", gid)
	}
	return hostUID, hostGID, nil
}

// Mapped tells whether an owner and a group of the caller's user namespace are known in
// the container's.
func (c *Container) Mapped(uid, gid uint32) bool {
	return c.UIDs.covers(uid) && c.GIDs.covers(gid)
}

// FileOwner gives the caller's ids for what is made in the container's filesystems: those of
// its root or, where that is not mapped, of its process, as crun does. Filesystems that it
// mounted itself take files of ids that it maps and of no others (EOVERFLOW).
func (c *Container) FileOwner() (hostUID, hostGID uint32) {
	var uid, gid uint32
	if c.Config != nil && c.Config.Process != nil {
		uid, gid = c.Config.Process.User.UID, c.Config.Process.User.GID
	}
	return c.UIDs.rootOr(uid), c.GIDs.rootOr(gid)
}

func (m IDMap) rootOr(id uint32) uint32 {
	if host, ok := m.ToHost(0); ok {
		return host
	}
	host, _ := m.ToHost(id)
	return host
}

// MountLabel gives the SELinux label for what is mounted in the container, or nothing
// where SELinux is off.
func (c *Container) MountLabel() string {
	if c.Config == nil || c.Config.Linux == nil || c.Config.Linux.MountLabel == "" {
		return ""
	}
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err != nil {
		return ""
	}
	return c.Config.Linux.MountLabel
}
