package cgroups

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func openat(dir *os.File, name string, flags int) (*os.File, error) {
	return openatAs(dir, name, dir.Name()+"/"+name, flags)
}

func openatAs(dir *os.File, name, as string, flags int) (*os.File, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(int(dir.Fd()), name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: as, Err: err}
	}
	return os.NewFile(uintptr(fd), as), nil
}

func readAt(dir *os.File, name string) ([]byte, error) {
	f, err := openat(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// writeAt writes data in one write(2): the kernel takes one rule a call.
func writeAt(dir *os.File, name, data string) error {
	f, err := openat(dir, name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(data); err != nil {
		return fmt.Errorf("%q: %w", data, err)
	}
	return nil
}

type identity struct {
	magic         int64 // of the file system
	device, inode uint64
}

// identify tells the directory, and what file system it is of.
func identify(dir *os.File) (identity, error) {
	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(dir.Fd()), &fs) }); err != nil {
		return identity{}, &os.PathError{Op: "fstatfs", Path: dir.Name(), Err: err}
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(dir.Fd()), &st) }); err != nil {
		return identity{}, &os.PathError{Op: "fstat", Path: dir.Name(), Err: err}
	}
	return identity{int64(fs.Type), uint64(st.Dev), st.Ino}, nil //nolint:unconvert // their sizes differ between machines
}

func duplicate(f *os.File) (*os.File, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
