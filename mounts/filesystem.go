package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Filesystem asks for a new filesystem at a place in the container.
type Filesystem struct {
	Type         string
	Source       string // what mountinfo shows as its source
	UnsafeTarget string
	Options      Options
}

// Mountable tells whether a filesystem of this type is the same whoever mounts it. The
// others show the namespaces of the process that mounts them, which here is not the
// container's.
func Mountable(fstype string) bool { return fstype == "tmpfs" || fstype == "efivarfs" }

// CheckFilesystem finds out everything that can be known before f is done; nested as for
// CheckBind.
func (r *Root) CheckFilesystem(f Filesystem, nested bool) (*Pending, error) {
	if !Mountable(f.Type) {
		return nil, fmt.Errorf("mount a %s on %s: %w", f.Type, f.UnsafeTarget, errors.ErrUnsupported)
	}
	p := &Pending{do: func() (Undo, error) { return r.mountFilesystem(f) }}
	if nested {
		return p, checkLexically(f.UnsafeTarget)
	}
	t, err := r.checkTarget(f.UnsafeTarget, true)
	closeAll(t.at)
	if err == nil && t.at == nil {
		p.Missing, p.Elsewhere = r.missing(t.dir, t.base)
	}
	return p, err
}

func (r *Root) mountFilesystem(f Filesystem) (Undo, error) {
	data, err := r.dataOf(f)
	if err != nil {
		return noUndo, err
	}
	tree, err := newFilesystem(f, data)
	if errors.Is(err, unix.ENOSYS) {
		return r.mountFilesystemByMount(f, data)
	}
	if err != nil {
		return noUndo, fmt.Errorf("mount a %s on %s: %w", f.Type, f.UnsafeTarget, err)
	}
	return r.attach(f.UnsafeTarget, true, tree)
}

// dataOf gives the filesystem's own options. A tmpfs takes the mode of the directory
// that it covers, as natively.
func (r *Root) dataOf(f Filesystem) ([]string, error) {
	data := f.Options.data
	if f.Type == "tmpfs" {
		p, err := r.find(f.UnsafeTarget)
		if err != nil {
			return nil, err
		}
		defer p.close()
		if len(p.missing) == 0 {
			st, err := fstat(p.at)
			if err != nil {
				return nil, err
			}
			data = append([]string{fmt.Sprintf("mode=%04o", st.Mode&0o7777)}, data...)
		}
	}
	if r.Label != "" {
		data = append(data[:len(data):len(data)], "context="+r.Label)
	}
	return data, nil
}

// newFilesystem makes a detached mount of a new filesystem: fsopen(2), kernel 5.2.
func newFilesystem(f Filesystem, data []string) (*os.File, error) {
	fs, err := retryFd(f.Type, func() (int, error) { return unix.Fsopen(f.Type, unix.FSOPEN_CLOEXEC) })
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer fs.Close()
	if err := configure(int(fs.Fd()), f.Source, data); err != nil {
		return nil, err
	}
	tree, err := retryFd(f.Type, func() (int, error) {
		return unix.Fsmount(int(fs.Fd()), unix.FSMOUNT_CLOEXEC, int(attrOf(f.Options.flags)))
	})
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	for _, p := range f.Options.propagation {
		attr := unix.MountAttr{Propagation: uint64(p &^ unix.MS_REC)}
		if err := mountSetattr(tree, p&unix.MS_REC != 0, attr); err != nil {
			tree.Close()
			return nil, err
		}
	}
	return tree, nil
}

func configure(fs int, source string, data []string) error {
	if source != "" {
		if err := unix.FsconfigSetString(fs, "source", source); err != nil {
			return fmt.Errorf("fsconfig source=%s: %w", source, err)
		}
	}
	for _, word := range data {
		key, value, isPair := strings.Cut(word, "=")
		var err error
		if isPair {
			err = unix.FsconfigSetString(fs, key, value)
		} else {
			err = unix.FsconfigSetFlag(fs, key)
		}
		if err != nil {
			return fmt.Errorf("fsconfig %s: %w", word, err)
		}
	}
	return os.NewSyscallError("fsconfig create", unix.FsconfigCreate(fs))
}

func (r *Root) mountFilesystemByMount(f Filesystem, data []string) (Undo, error) {
	target, undoPoint, err := r.mountPoint(f.UnsafeTarget, true)
	if err != nil {
		return noUndo, err
	}
	defer target.Close()
	const own = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | atimeFlags
	err = retry(func() error {
		return unix.Mount(f.Source, procFd(target), f.Type, f.Options.flags&own, strings.Join(data, ","))
	})
	if err != nil {
		return noUndo, errors.Join(fmt.Errorf("mount a %s on %s: %w", f.Type, f.UnsafeTarget, err), undoPoint())
	}
	r.mounted(true)
	top, err := r.open(f.UnsafeTarget)
	if err != nil {
		return noUndo, errors.Join(err, undoPoint())
	}
	r.hold(top)
	undo := undos{undoPoint, func() error { return unmount(top) }}
	for _, p := range f.Options.propagation {
		if err := mountFd("", top, "", p, ""); err != nil {
			return noUndo, errors.Join(err, undo.run())
		}
	}
	return undo.run, nil
}
