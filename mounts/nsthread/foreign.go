package nsthread

import (
	"os"

	"golang.org/x/sys/unix"
)

// Foreign is what is held of a mount namespace that a thread entered with [JoinForeign].
type Foreign struct {
	// Root is the namespace's root directory (O_PATH).
	Root *os.File
	// Mountinfo lists the namespace's mounts; read anew from its start, it lists those of
	// that moment.
	Mountinfo *os.File
}

// Close gives the descriptors back.
func (f *Foreign) Close() {
	for _, file := range []*os.File{f.Root, f.Mountinfo} {
		if file != nil {
			file.Close()
		}
	}
}

// JoinForeign returns an enter function for the mount namespace of somebody who may set
// traps: a container that runs. The thread mounts there, and is given descriptors of its
// root and mounts, but every path that it looks up is still one of the caller's root:
// setns(2) would make the container's root the thread's, /proc and all.
func JoinForeign(ns *os.File, into *Foreign) func() error {
	return func() error {
		own, err := openPath("/")
		if err != nil {
			return err
		}
		defer own.Close()
		proc, err := openPath("/proc")
		if err != nil {
			return err
		}
		defer proc.Close()
		if err := (Namespace{File: ns, Type: unix.CLONE_NEWNS}).join(); err != nil {
			return err
		}
		// The list is of what the reader's root reaches, as it was when it was opened.
		into.Mountinfo, err = openIn(proc, "thread-self/mountinfo")
		if err == nil {
			into.Root, err = openPath("/")
		}
		if err == nil {
			err = os.NewSyscallError("fchdir", unix.Fchdir(int(own.Fd())))
		}
		if err == nil {
			err = os.NewSyscallError("chroot", unix.Chroot("."))
		}
		if err != nil {
			into.Close()
		}
		return err
	}
}

func openPath(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openIn(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), dir.Name()+"/"+name), nil
}
