package mounts

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Feature is a kernel interface that this package would like to use.
type Feature struct {
	Name    string
	Since   string // kernel version
	Present bool
	// Err is why it could not be told, as where this user may not use it.
	Err error
	// Instead is what serves where it is missing.
	Instead string
}

// Features asks the kernel, with calls that change nothing.
func Features() []Feature {
	return []Feature{
		feature("openat2", "5.6", "a walk of its own, component by component", func() error {
			return closeFd(unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}))
		}),
		feature("open_tree", "5.2", "mount(2)", func() error {
			return closeFd(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC))
		}),
		feature("fsopen", "5.2", "mount(2)", func() error {
			return closeFd(unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC))
		}),
		// EBADF tells that the call is there: -1 is no directory.
		feature("mount_setattr", "5.12", "mount(2) with MS_REMOUNT; no id-mapped mounts", func() error {
			err := unix.MountSetattr(-1, "x", unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{})
			if errors.Is(err, unix.EBADF) {
				return nil
			}
			return err
		}),
		feature("statx mount id", "5.8", "/proc/self/fdinfo", func() error {
			var st unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_MNT_ID, &st)
			if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
				return unix.ENOSYS
			}
			return err
		}),
	}
}

func feature(name, since, instead string, call func() error) Feature {
	err := retry(call)
	f := Feature{Name: name, Since: since, Instead: instead, Present: err == nil}
	if err != nil && !errors.Is(err, unix.ENOSYS) {
		f.Err = err
	}
	return f
}

func closeFd(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
