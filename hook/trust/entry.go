package trust

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// entry is a component of a path: held open, not followed.
type entry struct {
	fd     int
	parent *directory
	name   string
	st     unix.Stat_t
}

// lookAt opens a component as what it is. It is tried as a directory first, which is what
// most components are, and what has the kernel mount an autofs.
func lookAt(parent *directory, name string) (*entry, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat(parent.fd, name, flags|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		fd, err = openat(parent.fd, name, flags)
	}
	if err != nil {
		return nil, err
	}
	e := &entry{fd: fd, parent: parent, name: name}
	if err := fstat(fd, &e.st); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *entry) close() { _ = unix.Close(e.fd) }

func (e *entry) kind() uint32 { return e.st.Mode & unix.S_IFMT }

func (e *entry) path() string { return path.Join(e.parent.path, e.name) }

func (e *entry) target() (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(e.fd, "", buf) // since 2.6.39
	if err != nil {
		return "", err
	}
	if n == len(buf) {
		return "", unix.ENAMETOOLONG
	}
	return string(buf[:n]), nil
}

// writable asks the kernel whether we could write it or put something else in its place.
func (e *entry) writable() (bool, error) {
	if e.parent.path != "" {
		if can, err := canWrite(e.parent.fd, "."); can || err != nil {
			return can, err
		}
	}
	if e.kind() == unix.S_IFLNK || e.isSticky() {
		return false, nil
	}
	return canWrite(e.parent.fd, e.name)
}

func (e *entry) isSticky() bool {
	return e.kind() == unix.S_IFDIR && e.st.Mode&unix.S_ISVTX != 0
}

func canWrite(dirfd int, name string) (bool, error) {
	err := unix.Faccessat(dirfd, name, unix.W_OK, 0)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return false, nil
	}
	return false, fmt.Errorf("access to %q: %w", name, err)
}

// The calls below may be interrupted on network and FUSE filesystems.

func openat(dirfd int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func fstat(fd int, st *unix.Stat_t) error {
	for {
		if err := unix.Fstat(fd, st); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
