package mounts

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Undo takes back one deed. It removes only what that deed made and may be called once.
type Undo func() error

func noUndo() error { return nil }

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func retryFd(name string, call func() (int, error)) (*os.File, error) {
	for {
		fd, err := call()
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}

func openat(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	f, err := retryFd(name, func() (int, error) {
		return unix.Openat(int(dir.Fd()), name, flags|unix.O_CLOEXEC, mode)
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	return f, nil
}

// maxRaces bounds how often a look-up is tried again that a rename or a mount on its way
// disturbed (openat2(2), EAGAIN).
const maxRaces = 128

// openInRoot opens a path as if root were "/". openat2(2), kernel 5.6.
func openInRoot(root *os.File, unsafePath string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	var f *os.File
	err := error(unix.EAGAIN)
	for i := 0; i < maxRaces && errors.Is(err, unix.EAGAIN); i++ {
		f, err = retryFd(unsafePath, func() (int, error) { return unix.Openat2(int(root.Fd()), unsafePath, &how) })
	}
	return f, err
}

// openTree clones the mount at path (relative to dir, or dir itself for "") as a
// detached tree; recursive takes the mounts below it along. open_tree(2), kernel 5.2.
func openTree(dir *os.File, path string, recursive bool) (*os.File, error) {
	at, flags := unix.AT_FDCWD, uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if dir != nil {
		at = int(dir.Fd())
	}
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	f, err := retryFd(path, func() (int, error) { return unix.OpenTree(at, path, flags) })
	if err != nil {
		return nil, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	return f, nil
}

// moveMount attaches a detached tree on top of target. move_mount(2), kernel 5.2.
func moveMount(tree, target *os.File) error {
	return os.NewSyscallError("move_mount", retry(func() error {
		return unix.MoveMount(int(tree.Fd()), "", int(target.Fd()), "",
			unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}))
}

// mountSetattr changes a mount, or with recursive all of its tree. mount_setattr(2),
// kernel 5.12.
func mountSetattr(tree *os.File, recursive bool, attr unix.MountAttr) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return os.NewSyscallError("mount_setattr", retry(func() error {
		return unix.MountSetattr(int(tree.Fd()), "", flags, &attr)
	}))
}

// mountFd is mount(2) onto the file that a descriptor holds; source may be a path of
// the same kind. /proc must be the host's, which it is before the container pivots.
func mountFd(source string, target *os.File, fstype string, flags uintptr, data string) error {
	return os.NewSyscallError("mount", retry(func() error {
		return unix.Mount(source, procFd(target), fstype, flags, data)
	}))
}

// procFd names a descriptor of the calling thread as a path.
func procFd(f *os.File) string {
	return "/proc/thread-self/fd/" + strconv.Itoa(int(f.Fd()))
}

// unmount detaches the mount whose root the descriptor holds.
func unmount(root *os.File) error {
	return os.NewSyscallError("umount2", retry(func() error {
		return unix.Unmount(procFd(root), unix.MNT_DETACH)
	}))
}

func fstat(f *os.File) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(int(f.Fd()), &st) })
	if err != nil {
		return st, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return st, nil
}

func fstatfs(f *os.File) (unix.Statfs_t, error) {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(int(f.Fd()), &st) })
	if err != nil {
		return st, &os.PathError{Op: "fstatfs", Path: f.Name(), Err: err}
	}
	return st, nil
}

// fchmod sets the mode of a file held by an O_PATH descriptor, which fchmod(2) refuses:
// by fchmodat2(2) (kernel 6.6), else through /proc.
func fchmod(f *os.File, mode uint32) error {
	err := retry(func() error {
		return unix.Fchmodat(int(f.Fd()), "", mode, unix.AT_EMPTY_PATH)
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		err = retry(func() error { return unix.Chmod(procFd(f), mode) })
	}
	if err != nil {
		return &os.PathError{Op: "fchmod", Path: f.Name(), Err: err}
	}
	return nil
}

func fchown(f *os.File, uid, gid uint32) error {
	err := retry(func() error {
		return unix.Fchownat(int(f.Fd()), "", int(uid), int(gid), unix.AT_EMPTY_PATH)
	})
	if err != nil {
		return &os.PathError{Op: "fchown", Path: f.Name(), Err: err}
	}
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
