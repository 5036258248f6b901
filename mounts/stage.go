package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/mounts/nsthread"
)

// stagingDir is covered by the staging tmpfs in a mount namespace that ends with it.
const stagingDir = "/dev"

// stage makes the node on a private tmpfs of the caller's user namespace, where a node
// opens as it does on the host, and returns a detached clone of just that file. The
// tmpfs is mounted in a mount namespace of its own: a clone can be taken only of what is
// mounted (before kernel 6.15), and nobody else ever sees the place.
func (r *Root) stage(n Node) (*os.File, error) {
	var tree *os.File
	t, err := nsthread.Start(func() error { return unix.Unshare(unix.CLONE_NEWNS) })
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", n.UnsafePath, os.NewSyscallError("unshare", err))
	}
	defer t.Close()
	err = t.Do(func() (err error) { tree, err = r.stageHere(n); return err })
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", n.UnsafePath, err)
	}
	return tree, nil
}

func (r *Root) stageHere(n Node) (*os.File, error) {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return nil, os.NewSyscallError("mount private", err)
	}
	data := "size=64k,mode=0755"
	if r.Label != "" {
		data += `,context="` + r.Label + `"`
	}
	// Any directory but /proc will do, the namespace is this thread's alone.
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("oci-cdi-hook", stagingDir, "tmpfs", flags, data); err != nil {
		return nil, os.NewSyscallError("mount tmpfs", err)
	}
	dir, err := retryFd("staging tmpfs", func() (int, error) {
		return unix.Open(stagingDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if _, err := r.makeNode(dir, "node", n); err != nil {
		return nil, err
	}
	tree, err := openTree(dir, "node", false)
	if errors.Is(err, unix.ENOSYS) {
		return nil, fmt.Errorf("device nodes for a user namespace need open_tree (kernel 5.2): %w", err)
	}
	return tree, err
}

// cloneHostNode clones the host's own node. Whoever has no right to make a node gets the
// one that is there, with its owner and mode.
func (r *Root) cloneHostNode(n Node) (tree *os.File, err error) {
	err = r.atSources(func() error {
		tree, err = openTree(nil, n.HostPath, false)
		return err
	})
	if err != nil {
		return nil, err
	}
	st, err := fstat(tree)
	if err == nil && !n.matches(st) {
		err = &DifferentError{UnsafePath: n.HostPath, Want: n.String(), Have: describe(st)}
	}
	if err == nil {
		err = mountSetattr(tree, false, unix.MountAttr{
			Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE,
		})
		if errors.Is(err, unix.ENOSYS) {
			err = nil // neither flag matters on a device node
		}
	}
	if err != nil {
		tree.Close()
		return nil, err
	}
	return tree, nil
}

// bindNode puts a clone of a node, which it takes over, over an empty file made for it.
func (r *Root) bindNode(dir *os.File, name string, n Node, tree *os.File) (Undo, error) {
	r.hold(tree)
	target, undoFile, err := r.makeFile(dir, name, path.Join("/", n.UnsafePath))
	if err != nil {
		return noUndo, err
	}
	defer target.Close()
	if err := moveMount(tree, target); err != nil {
		return noUndo, errors.Join(fmt.Errorf("%s: %w", n.UnsafePath, err), undoFile())
	}
	return undos{undoFile, func() error { return unmount(tree) }}.run, nil
}
