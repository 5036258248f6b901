package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Node asks for a device node or FIFO at a place in the container.
type Node struct {
	UnsafePath   string
	Type         byte // 'b', 'c', 'p'; 'u' is an old word for 'c'
	Major, Minor uint32
	Mode         uint32 // permission bits
	UID, GID     uint32 // as the initial user namespace counts
	HostPath     string // the host's own node, bound where none may be made
	// Adopt gives an equal node that is there already this owner and mode: the runtime made
	// it, from a config that the device's own node natively replaces.
	Adopt bool
}

func (n Node) fileType() uint32 {
	switch n.Type {
	case 'b':
		return unix.S_IFBLK
	case 'p':
		return unix.S_IFIFO
	}
	return unix.S_IFCHR
}

func (n Node) rdev() uint64 {
	if n.Type == 'p' {
		return 0
	}
	return unix.Mkdev(n.Major, n.Minor)
}

func (n Node) matches(st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == n.fileType() && (n.Type == 'p' || st.Rdev == n.rdev())
}

func (n Node) String() string {
	if n.Type == 'p' {
		return "p"
	}
	return fmt.Sprintf("%c %d:%d", n.Type, n.Major, n.Minor)
}

// DifferentError says that something else is where a node should be.
type DifferentError struct {
	UnsafePath string
	Want, Have string
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("%s: there is %s already, not %s", e.UnsafePath, e.Have, e.Want)
}

func describe(st unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		return fmt.Sprintf("b %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case unix.S_IFCHR:
		return fmt.Sprintf("c %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a file"
}

// CheckNode finds out everything that can be known before n is done; nested as for
// CheckBind.
func (r *Root) CheckNode(n Node, nested bool) (*Pending, error) {
	p := &Pending{do: func() (Undo, error) { return r.node(n) }}
	if err := checkLexically(n.UnsafePath); err != nil || nested {
		return p, err
	}
	dir, name, err := r.findNode(n)
	if err != nil {
		return nil, err
	}
	if name == "" {
		p.There, p.Done = true, !n.Adopt
		return p, nil
	}
	p.Missing, p.Elsewhere = r.missing(dir, name)
	return p, r.checkNodeDir(dir, n)
}

// findNode resolves the directory of a node. An empty name means that the node is there.
func (r *Root) findNode(n Node) (*directory, string, error) {
	unsafeDir, name := path.Split(path.Join("/", n.UnsafePath))
	dir, err := r.directory(unsafeDir)
	if err != nil || len(dir.missing) > 0 {
		return dir, name, err
	}
	var st unix.Stat_t
	err = unix.Fstatat(int(dir.at.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return dir, name, nil
	case err != nil:
		return nil, "", &os.PathError{Op: "stat", Path: n.UnsafePath, Err: err}
	case n.matches(st):
		return dir, "", nil
	}
	return nil, "", &DifferentError{UnsafePath: n.UnsafePath, Want: n.String(), Have: describe(st)}
}

// checkNodeDir refuses directories in which a new node would outlive the container on
// the host: those of filesystems that the host has mounted too, but for the root's own.
func (r *Root) checkNodeDir(dir *directory, n Node) error {
	if dir.fsType == unix.PROC_SUPER_MAGIC || dir.fsType == unix.SYSFS_MAGIC {
		return &os.PathError{Op: "mknod", Path: n.UnsafePath, Err: ErrInProc}
	}
	if err := r.checkOwner(dir.at, n.UnsafePath); err != nil {
		return err
	}
	if dir.mount == r.mount {
		return nil
	}
	all, err := r.table.mounts()
	if err != nil {
		return err
	}
	m, err := all.byID(dir.mount)
	if err != nil {
		return &os.PathError{Op: "mknod", Path: n.UnsafePath, Err: err}
	}
	if known, err := r.host.hasFilesystem(m); err != nil || known {
		return errors.Join(err, &os.PathError{
			Op: "mknod", Path: n.UnsafePath,
			Err: fmt.Errorf("its directory is the mount %s: %w", m.Mountpoint, ErrHostMount),
		})
	}
	return nil
}

// node makes n the best way that is allowed: a node of its own, a node staged on a
// private tmpfs and bound over, the host's node bound.
func (r *Root) node(n Node) (Undo, error) {
	dir, name, err := r.findNode(n)
	if err != nil {
		return noUndo, err
	}
	if name == "" {
		return r.adopt(dir, n)
	}
	if err := r.checkNodeDir(dir, n); err != nil {
		return noUndo, err
	}
	undoDirs, err := r.make(dir)
	if err != nil {
		return noUndo, err
	}
	undo, err := r.nodeIn(dir.at, name, n)
	if err != nil {
		return noUndo, errors.Join(err, undoDirs())
	}
	return undos{undoDirs, undo}.run, nil
}

func (r *Root) nodeIn(dir *os.File, name string, n Node) (Undo, error) {
	if !r.UserNamespace {
		undo, err := r.makeNode(dir, name, n)
		if !forbidden(err) {
			return undo, err
		}
	}
	tree, err := r.stage(n)
	if forbidden(err) {
		tree, err = r.cloneHostNode(n)
	}
	if err != nil {
		return noUndo, err
	}
	return r.bindNode(dir, name, n, tree)
}

// forbidden tells whether a node could not be made because of who asks: EPERM without
// CAP_MKNOD, EOVERFLOW where the filesystem's user namespace does not map the caller.
func forbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOVERFLOW) || errors.Is(err, unix.EACCES)
}

// makeNode makes the node in the directory and gives it mode and owner through a
// descriptor that was verified to hold it.
func (r *Root) makeNode(dir *os.File, name string, n Node) (Undo, error) {
	err := retry(func() error {
		return unix.Mknodat(int(dir.Fd()), name, n.fileType()|n.Mode&0o7777, int(n.rdev()))
	})
	if err != nil {
		return noUndo, &os.PathError{Op: "mknod", Path: n.UnsafePath, Err: err}
	}
	f, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return noUndo, err
	}
	defer f.Close()
	st, err := fstat(f)
	if err != nil {
		return noUndo, err
	}
	if !n.matches(st) {
		return noUndo, &DifferentError{UnsafePath: n.UnsafePath, Want: n.String(), Have: describe(st)}
	}
	undo, err := r.removal(dir, name, path.Join("/", n.UnsafePath), f, 0)
	if err != nil {
		return noUndo, err
	}
	if err := own(f, n.Mode, n.UID, n.GID); err != nil {
		return noUndo, errors.Join(fmt.Errorf("%s: %w", n.UnsafePath, err), undo())
	}
	return undo, nil
}

// own gives a node its mode and owner, in the order of runtimes: set-id bits of the mode,
// which mean nothing on a node, do not survive the change of owner (chown(2)).
func own(f *os.File, mode, uid, gid uint32) error {
	if err := fchmod(f, mode&0o7777); err != nil {
		return err
	}
	return fchown(f, uid, gid)
}

// adopt gives the node that is there mode and owner, if it is a node of the container's
// own. One that is bound, or lies on a filesystem of the host, is left as it is.
func (r *Root) adopt(dir *directory, n Node) (Undo, error) {
	if !n.Adopt || r.UserNamespace || r.checkNodeDir(dir, n) != nil {
		return noUndo, nil
	}
	f, err := openat(dir.at, path.Base(n.UnsafePath), unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return noUndo, err
	}
	r.hold(f)
	st, err := fstat(f)
	if err != nil {
		return noUndo, err
	}
	if !n.matches(st) {
		return noUndo, &DifferentError{UnsafePath: n.UnsafePath, Want: n.String(), Have: describe(st)}
	}
	if id, err := mountIDOf(f); err != nil || id != dir.mount {
		return noUndo, err
	}
	if st.Mode&0o7777 == n.Mode&0o7777 && st.Uid == n.UID && st.Gid == n.GID {
		return noUndo, nil
	}
	undo := func() error { return own(f, st.Mode, st.Uid, st.Gid) }
	if err := own(f, n.Mode, n.UID, n.GID); err != nil {
		return noUndo, errors.Join(fmt.Errorf("%s: %w", n.UnsafePath, err), undo())
	}
	return undo, nil
}
