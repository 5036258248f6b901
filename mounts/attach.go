package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// attach puts a detached tree, which it takes over, on the target. Mounts that are below
// the target now are cloned first and put back on top, as if the tree had been there
// before them.
func (r *Root) attach(unsafeTarget string, dir bool, tree *os.File) (Undo, error) {
	r.hold(tree)
	target, undoPoint, err := r.mountPoint(unsafeTarget, dir)
	if err != nil {
		return noUndo, err
	}
	defer target.Close()
	var moved liftedMounts
	if dir {
		if moved, err = r.liftBelow(target, tree); err != nil {
			return noUndo, errors.Join(err, undoPoint())
		}
		defer moved.close()
	}
	if err := moveMount(tree, target); err != nil {
		return noUndo, errors.Join(refuse(unsafeTarget, err), undoPoint())
	}
	r.mounted(dir)
	undo := undos{undoPoint, func() error { return unmount(tree) }}
	if err := moved.putBack(tree); err != nil {
		return noUndo, errors.Join(err, undo.run())
	}
	return undo.run, nil
}

// lifted is a clone of a mount and the place in a new tree that it goes to.
type lifted struct {
	mount *mountinfo.Info
	rel   string // below the target
	tree  *os.File
}

type liftedMounts []lifted

func (l liftedMounts) close() {
	for _, m := range l {
		m.tree.Close()
	}
}

// putBack attaches the clones at their places below top.
func (l liftedMounts) putBack(top *os.File) error {
	for _, m := range l {
		at, err := openBeneath(top, m.rel)
		if err == nil {
			err = moveMount(m.tree, at)
			at.Close()
		}
		if err != nil {
			return fmt.Errorf("put back the mount on %s: %w", m.mount.Mountpoint, err)
		}
	}
	return nil
}

// liftBelow clones the mounts below target. The new tree must have a place for each:
// creating one would write into the source.
func (r *Root) liftBelow(target, tree *os.File) (liftedMounts, error) {
	all, err := r.table.mounts()
	if err != nil {
		return nil, err
	}
	name, err := os.Readlink(procFd(target))
	if err != nil {
		return nil, err
	}
	var moved liftedMounts
	for _, m := range all.below(name) {
		rel := strings.TrimPrefix(m.Mountpoint, strings.TrimSuffix(name, "/")+"/")
		clone, err := lift(rel, m, target, tree)
		if err != nil {
			moved.close()
			return nil, err
		}
		if clone != nil {
			moved = append(moved, lifted{mount: m, rel: rel, tree: clone})
		}
	}
	return moved, nil
}

// lift clones one mount; there is none to clone if another mount covers it already.
func lift(rel string, m *mountinfo.Info, target, tree *os.File) (*os.File, error) {
	now, err := openBeneath(target, rel)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer now.Close()
	if id, err := mountIDOf(now); err != nil || int(id) != m.ID {
		return nil, err
	}
	at, err := openBeneath(tree, rel)
	if err != nil {
		return nil, fmt.Errorf("the source has no place for the container's mount on %s: %w", m.Mountpoint, err)
	}
	defer at.Close()
	clone, err := openTree(now, "", true)
	if err != nil {
		return nil, fmt.Errorf("the container's mount on %s would be covered: %w", m.Mountpoint, err)
	}
	return clone, nil
}

// openBeneath opens a path that mountinfo names: its parts are no links.
func openBeneath(dir *os.File, rel string) (*os.File, error) {
	at, err := dup(dir)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(rel, "/") {
		next, err := openat(at, part, unix.O_PATH|unix.O_NOFOLLOW, 0)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// bindByMount does the same with mount(2), for kernels without open_tree(2) (before 5.2)
// or mount_setattr(2) (before 5.12).
func (r *Root) bindByMount(b Bind) (Undo, error) {
	source, err := openat(r.dir, b.Source, unix.O_PATH, 0)
	if err != nil {
		return noUndo, err
	}
	defer source.Close()
	st, err := fstat(source)
	if err != nil {
		return noUndo, err
	}
	target, undoPoint, err := r.mountPoint(b.UnsafeTarget, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return noUndo, err
	}
	defer target.Close()
	moved, err := r.liftBelow(target, source)
	if err != nil {
		return noUndo, errors.Join(err, undoPoint())
	}
	defer moved.close()
	top, err := r.mountOver(target, b, source)
	if err != nil {
		return noUndo, errors.Join(err, undoPoint())
	}
	r.hold(top)
	undo := undos{undoPoint, func() error { return unmount(top) }}
	err = b.Options.applyByMount(top)
	if err == nil {
		err = moved.putBack(top)
	}
	if err != nil {
		return noUndo, errors.Join(fmt.Errorf("%s: %w", b.UnsafeTarget, err), undo.run())
	}
	return undo.run, nil
}

func (r *Root) mountOver(target *os.File, b Bind, source *os.File) (*os.File, error) {
	flags := uintptr(unix.MS_BIND)
	if b.Options.Recursive {
		flags |= unix.MS_REC
	}
	if b.Options.idmap && b.UserNS != nil {
		return nil, fmt.Errorf("%s: idmap needs mount_setattr: %w", b.UnsafeTarget, unix.ENOSYS)
	}
	if err := mountFd(procFd(source), target, "", flags, ""); err != nil {
		return nil, refuse(b.UnsafeTarget, err)
	}
	r.mounted(true)
	return r.reopen(b.UnsafeTarget, source)
}

// reopen gets a descriptor of what was just mounted: the one of the target still holds
// what lies beneath.
func (r *Root) reopen(unsafeTarget string, source *os.File) (*os.File, error) {
	top, err := r.open(unsafeTarget)
	if err != nil {
		return nil, err
	}
	root, err := isMountRoot(top)
	if err == nil && root {
		if root, err = sameFile(top, source); err == nil && root {
			return top, nil
		}
	}
	top.Close()
	return nil, errors.Join(err, refuse(unsafeTarget, errors.New("changed while it was mounted on")))
}

// applyByMount is apply for an attached mount and mount(2).
func (o Options) applyByMount(top *os.File) error {
	if o.recursiveAttr != nil {
		return fmt.Errorf("recursive options need mount_setattr: %w", unix.ENOSYS)
	}
	if err := mountFd("", top, "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	if o.namesFlags() {
		if err := o.remount(top); err != nil {
			return err
		}
	}
	for _, p := range o.propagation {
		if err := mountFd("", top, "", p, ""); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) remount(top *os.File) error {
	const bindFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSYMFOLLOW | atimeFlags
	flags := o.flags&bindFlags | unix.MS_REMOUNT | unix.MS_BIND
	err := mountFd("", top, "", flags, "")
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	st, ferr := fstatfs(top)
	if ferr != nil {
		return ferr
	}
	// ST_* and MS_* of these four have the same values (statfs(2)).
	locked := uintptr(st.Flags) & (unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if locked&o.cleared != 0 {
		return fmt.Errorf("flags locked on the host cannot be cleared: %w", err)
	}
	return mountFd("", top, "", flags|locked, "")
}
