package mounts

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// ErrNotGiven says that another mount is at a place than the one that was made there.
var ErrNotGiven = errors.New("another mount is there by now")

// RemoveNode takes a node away that was made here, or bound. Nothing there is fine; something
// else there is a [*DifferentError], and stays.
func (r *Root) RemoveNode(n Node) error {
	unsafeDir, name := path.Split(path.Join("/", n.UnsafePath))
	dir, err := r.directory(unsafeDir)
	if errors.Is(err, unix.ENOTDIR) || err == nil && len(dir.missing) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := openat(dir.at, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := fstat(f)
	if err != nil {
		return err
	}
	if !n.matches(st) {
		return &DifferentError{UnsafePath: n.UnsafePath, Want: n.String(), Have: describe(st)}
	}
	id, err := mountIDOf(f)
	if err != nil {
		return err
	}
	if id == dir.mount {
		if err := r.checkNodeDir(dir, n); err != nil {
			return err
		}
		return r.unlink(dir.at, name, n.UnsafePath)
	}
	if err := unmount(f); err != nil {
		return err
	}
	return r.removePlaceholder(dir.at, name, n)
}

// removePlaceholder removes the empty file that a node was bound over.
func (r *Root) removePlaceholder(dir *os.File, name string, n Node) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: n.UnsafePath, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != 0 || st.Nlink != 1 {
		return nil
	}
	return r.unlink(dir, name, n.UnsafePath)
}

func (r *Root) unlink(dir *os.File, name, whole string) error {
	if r.Keep != nil && r.Keep(path.Join("/", whole)) {
		return nil
	}
	err := retry(func() error { return unix.Unlinkat(int(dir.Fd()), name, 0) })
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unlink", Path: whole, Err: err}
	}
	return nil
}

// RemoveMount unmounts what is at a place if it is the root of a mount and the file that was
// given. Nothing mounted there is fine; another mount is [ErrNotGiven], and stays.
func (r *Root) RemoveMount(unsafeTarget string, given Sight) error {
	t, err := r.locate(unsafeTarget)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOENT) || err == nil && t.at == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.at.Close()
	root, err := r.isMountRoot(t.at)
	if err != nil || !root {
		return err
	}
	now, err := sight(int(t.at.Fd()), "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	if !now.SameFile(given) {
		return refuse(unsafeTarget, ErrNotGiven)
	}
	if err := unmount(t.at); err != nil {
		return err
	}
	r.mounted(true)
	return nil
}

// isHosts tells whether a mount of the container is of a filesystem that the host has too.
func (r *Root) isHosts(id mountID) (bool, error) {
	all, err := r.table.mounts()
	if err != nil {
		return false, err
	}
	m, err := all.byID(id)
	if err != nil {
		return false, err
	}
	return r.host.hasFilesystem(m)
}
