package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Bind asks for a directory or file of the host at a place in the container.
type Bind struct {
	Source       string // absolute, of the host; links are followed
	UnsafeTarget string // in the root
	Options      Options
	// UserNS is the container's user namespace, needed for idmapped mounts only.
	UserNS *os.File
}

// Pending is a deed that was checked and not yet done.
type Pending struct {
	// Missing lists the paths that doing it will create on the root's own mount, where
	// they outlive the container, outermost first. They are empty directories, and at the
	// end a directory, an empty file or a node.
	Missing []string
	// Elsewhere lists those on other mounts of the container, which end with it.
	Elsewhere []string
	// There says that it is there already, with the same effect, and Done that nothing is
	// left to do about it either.
	There, Done bool

	do func() (Undo, error)
}

// Do does it. What the check found is looked at again: nothing is taken for granted.
func (p *Pending) Do() (Undo, error) {
	if p.Done {
		return noUndo, nil
	}
	return p.do()
}

// ErrNoBind is for a mount without a filesystem type that does not say bind or rbind
// either; natively the kernel answers ENODEV.
var ErrNoBind = errors.New("no such device: add bind or rbind to the options")

// CheckSource opens the source and tells whether it is a directory.
func CheckSource(source string) (dir bool, err error) {
	if !path.IsAbs(source) {
		return false, &os.PathError{Op: "open", Path: source, Err: errors.New("not an absolute path")}
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Stat(source, &st) }); err != nil {
		return false, &os.PathError{Op: "stat", Path: source, Err: err}
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// CheckBind finds out everything that can be known before b is done. With nested the
// target lies below another target of the same plan, so that what is there now says
// nothing.
func (r *Root) CheckBind(b Bind, nested bool) (*Pending, error) {
	if !b.Options.Bind {
		return nil, ErrNoBind
	}
	dir, err := CheckSource(b.Source)
	if err != nil {
		return nil, err
	}
	p := &Pending{do: func() (Undo, error) { return r.bind(b, dir) }}
	if nested {
		return p, checkLexically(b.UnsafeTarget)
	}
	var t target
	if t, err = r.checkTarget(b.UnsafeTarget, dir); err != nil {
		return p, err
	}
	if t.at == nil {
		p.Missing, p.Elsewhere = r.missing(t.dir, t.base)
		return p, nil
	}
	defer t.at.Close()
	p.Done, err = r.isBound(b, t.at)
	p.There = p.Done
	return p, err
}

// isBound tells whether the target shows what b would put there: the root of a mount,
// with the source's file and the flags that b asks for.
func (r *Root) isBound(b Bind, target *os.File) (bool, error) {
	if root, err := r.isMountRoot(target); err != nil || !root {
		return false, err
	}
	var source unix.Stat_t
	if err := unix.Stat(b.Source, &source); err != nil {
		return false, &os.PathError{Op: "stat", Path: b.Source, Err: err}
	}
	have, err := fstat(target)
	if err != nil || have.Dev != source.Dev || have.Ino != source.Ino {
		return false, err
	}
	return r.sameFlags(b, target)
}

const comparedFlags = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_NOATIME |
	unix.ST_NODIRATIME | unix.ST_RELATIME

// sameFlags compares with a detached clone of the source, changed as b says: what the
// kernel makes of flags and locks is not guessed. Without open_tree(2) the answer is no,
// which stacks an equal mount.
func (r *Root) sameFlags(b Bind, target *os.File) (bool, error) {
	tree, err := r.cloneTree(b)
	if errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer tree.Close()
	want, err := fstatfs(tree)
	if err != nil {
		return false, err
	}
	have, err := fstatfs(target)
	return want.Flags&comparedFlags == have.Flags&comparedFlags, err
}

// bind puts the source, known to be a directory or not, over the target.
func (r *Root) bind(b Bind, dir bool) (Undo, error) {
	tree, err := r.cloneTree(b)
	if errors.Is(err, unix.ENOSYS) {
		if r.running != nil {
			return noUndo, fmt.Errorf("mount %s on %s: %w", b.Source, b.UnsafeTarget, ErrRunningKernel)
		}
		return r.bindByMount(b)
	}
	if err != nil {
		return noUndo, fmt.Errorf("mount %s on %s: %w", b.Source, b.UnsafeTarget, err)
	}
	return r.attach(b.UnsafeTarget, dir, tree)
}

// cloneTree makes a detached clone of the source, with flags and propagation as asked. It
// is made in the calling thread's mount namespace: there the locks of a less privileged
// namespace stay on it (mount_namespaces(7), "Restrictions"). Where the container runs that
// namespace does not show the source, and the clone is made outside and private.
func (r *Root) cloneTree(b Bind) (tree *os.File, err error) {
	err = r.atSources(func() error {
		tree, err = openTree(nil, b.Source, b.Options.Recursive)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A clone is in its source's peer group. Where that group reaches the host, what a
	// container mounts inside would appear there, so it leaves the group first.
	leave := uint64(unix.MS_SLAVE)
	if r.running != nil {
		leave = unix.MS_PRIVATE
	}
	if err := b.Options.apply(tree, b, leave); err != nil {
		tree.Close()
		return nil, err
	}
	return tree, nil
}

// apply changes a detached tree. What has no mount_setattr(2) answers ENOSYS.
func (o Options) apply(tree *os.File, b Bind, leave uint64) error {
	if leave == unix.MS_PRIVATE || !o.leavesPeers() {
		if err := mountSetattr(tree, true, unix.MountAttr{Propagation: leave}); err != nil {
			return err
		}
	}
	if o.namesFlags() {
		if err := o.setFlags(tree); err != nil {
			return err
		}
	}
	if o.recursiveAttr != nil {
		if err := mountSetattr(tree, true, *o.recursiveAttr); err != nil {
			return err
		}
	}
	for _, p := range o.propagation {
		attr := unix.MountAttr{Propagation: uint64(p &^ unix.MS_REC)}
		if err := mountSetattr(tree, p&unix.MS_REC != 0, attr); err != nil {
			return err
		}
	}
	if o.idmap && b.UserNS != nil {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(b.UserNS.Fd())}
		if err := mountSetattr(tree, o.idmapRecursive, attr); err != nil {
			return fmt.Errorf("idmap: %w", err)
		}
	}
	return nil
}

// leavesPeers tells whether the first propagation word already takes the whole tree out of
// its peer groups.
func (o Options) leavesPeers() bool {
	return len(o.propagation) > 0 &&
		(o.propagation[0] == unix.MS_PRIVATE|unix.MS_REC || o.propagation[0] == unix.MS_SLAVE|unix.MS_REC)
}

// setFlags sets just the named flags on the top mount. Flags that are locked because a
// more privileged namespace set them (EPERM) stay; asking to clear one is an error.
func (o Options) setFlags(tree *os.File) error {
	attr := o.attr()
	err := mountSetattr(tree, false, attr)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	st, ferr := fstatfs(tree)
	if ferr != nil {
		return ferr
	}
	locked := lockedAttr(uint64(st.Flags))
	if clear := locked & attrOf(o.cleared); clear != 0 {
		return fmt.Errorf("flags locked on the host cannot be cleared (%s): %w", attrWords(clear), err)
	}
	attr.Attr_set |= locked
	attr.Attr_clr &^= locked
	return mountSetattr(tree, false, attr)
}

// lockedAttr gives the flags of a mount that a less privileged namespace cannot clear.
func lockedAttr(statfsFlags uint64) (attr uint64) {
	for _, f := range []struct{ st, attr uint64 }{
		{unix.ST_RDONLY, unix.MOUNT_ATTR_RDONLY},
		{unix.ST_NOSUID, unix.MOUNT_ATTR_NOSUID},
		{unix.ST_NODEV, unix.MOUNT_ATTR_NODEV},
		{unix.ST_NOEXEC, unix.MOUNT_ATTR_NOEXEC},
	} {
		if statfsFlags&f.st != 0 {
			attr |= f.attr
		}
	}
	return attr
}

func attrWords(attr uint64) (words string) {
	for _, f := range []struct {
		attr uint64
		word string
	}{
		{unix.MOUNT_ATTR_RDONLY, "ro"}, {unix.MOUNT_ATTR_NOSUID, "nosuid"},
		{unix.MOUNT_ATTR_NODEV, "nodev"}, {unix.MOUNT_ATTR_NOEXEC, "noexec"},
	} {
		if attr&f.attr != 0 {
			words += "," + f.word
		}
	}
	if words == "" {
		return words
	}
	return words[1:]
}
