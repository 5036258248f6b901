package mounts

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Leftover is a path in the root that somebody meant to create and may have.
type Leftover struct {
	UnsafePath string
	Node       *Node // what it would be; nil for mount points and directories
	// Elsewhere: on another mount of the container than the root's own.
	Elsewhere bool
}

// RemoveLeftovers removes what was made in a root and is of no use any more: empty
// directories, empty files and the very nodes that were planned, and those only on the
// root's own mount, or where a leftover says so on another, but never on one of the host's.
// Paths come outermost first. Everything else at these paths stays, and so does what
// r.Keep says.
func (r *Root) RemoveLeftovers(all []Leftover) error {
	var errs []error
	for i := len(all) - 1; i >= 0; i-- {
		errs = append(errs, r.removeLeftover(all[i]))
	}
	return errors.Join(errs...)
}

func (r *Root) removeLeftover(l Leftover) error {
	unsafe := path.Join("/", l.UnsafePath)
	if unsafe == "/" || r.Keep != nil && r.Keep(unsafe) {
		return nil
	}
	dir, name := path.Split(unsafe)
	parent, err := r.open(dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	id, err := mountIDOf(parent)
	if err != nil || (id != r.mount) != l.Elsewhere {
		return err
	}
	if l.Elsewhere {
		if hosts, err := r.isHosts(id); err != nil || hosts {
			return err
		}
	}
	var st unix.Stat_t
	err = unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: unsafe, Err: err}
	}
	flags := 0
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR
	case unix.S_IFREG:
		if st.Size != 0 || st.Nlink != 1 {
			return nil
		}
	default:
		if l.Node == nil || !l.Node.matches(st) {
			return nil
		}
	}
	err = retry(func() error { return unix.Unlinkat(int(parent.Fd()), name, flags) })
	if err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unlink", Path: unsafe, Err: err}
	}
	return nil
}
