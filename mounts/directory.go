package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// directory is where the path of a directory leads, kept for the items that follow: many
// nodes and libraries go into few directories. Once resolved it is used as a descriptor,
// whatever becomes of the path.
type directory struct {
	place
	name   string // of the part that exists, as the container sees it
	mount  mountID
	fsType int64
}

// directory resolves the path of a directory as far as it exists. The descriptor lives as
// long as the root.
func (r *Root) directory(unsafeDir string) (*directory, error) {
	unsafeDir = path.Join("/", unsafeDir)
	if d := r.dirs[unsafeDir]; d != nil {
		return d, nil
	}
	p, err := r.find(unsafeDir)
	if err != nil {
		return nil, err
	}
	d, err := r.describeDir(p)
	if err != nil {
		p.close()
		return nil, err
	}
	if r.dirs == nil {
		r.dirs = map[string]*directory{}
	}
	r.dirs[unsafeDir] = d
	r.hold(d.at)
	return d, nil
}

func (r *Root) describeDir(p place) (*directory, error) {
	st, err := fstat(p.at)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = &os.PathError{Op: "open in root", Path: p.at.Name(), Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	d := &directory{place: p}
	fs, err := fstatfs(p.at)
	if err != nil {
		return nil, err
	}
	d.fsType = fs.Type
	if d.mount, err = mountIDOf(p.at); err != nil {
		return nil, err
	}
	d.name, err = r.pathOf(p.at)
	return d, err
}

// mounted forgets resolved paths: something was mounted on a directory, and they may lead
// elsewhere now. A mount on a file leads nowhere.
func (r *Root) mounted(dir bool) {
	if dir {
		r.dirs = nil
		r.table.table = nil
	}
}

// missing names the missing parts and what comes after them: lasting are those that
// outlive the container, which are on the root's own mount.
func (r *Root) missing(d *directory, names ...string) (lasting, others []string) {
	var all []string
	name := d.name
	for _, part := range append(d.missing[:len(d.missing):len(d.missing)], names...) {
		name = path.Join(name, part)
		all = append(all, name)
	}
	if d.mount == r.mount {
		return all, nil
	}
	return nil, all
}

// make creates the missing parts of a directory, 0755 whatever the umask is and owned by
// the thread's file system ids. The directory is complete afterwards, for all that use it.
func (r *Root) make(d *directory) (Undo, error) {
	undo := undos{}
	for len(d.missing) > 0 {
		name := path.Join(d.name, d.missing[0])
		next, u, err := r.makeDir(d.at, d.missing[0], name)
		if err != nil {
			r.dirs = nil
			return noUndo, errors.Join(err, undo.run())
		}
		undo = append(undo, u)
		d.at, d.name, d.missing = r.hold(next), name, d.missing[1:]
	}
	if len(undo) == 0 {
		return noUndo, nil
	}
	return func() error { r.dirs = nil; return undo.run() }, nil
}

func (r *Root) makeDir(dir *os.File, name, whole string) (*os.File, Undo, error) {
	if err := r.checkOwner(dir, whole); err != nil {
		return nil, noUndo, err
	}
	err := mkdirat(dir, name)
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, noUndo, &os.PathError{Op: "mkdir", Path: whole, Err: err}
	}
	// Another container that shares this root may have made it meanwhile; a link or a
	// file put here is refused.
	f, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, noUndo, err
	}
	if !made {
		return f, noUndo, sameMount(dir, f, whole)
	}
	undo, err := r.removal(dir, name, whole, f, unix.AT_REMOVEDIR)
	if err != nil {
		f.Close()
		return nil, noUndo, err
	}
	return f, undo, nil
}

// mkdirat makes a directory 0755. The umask, which is the calling thread's own, is set
// aside for it: a change of mode afterwards might meet another directory that somebody
// has put in the new one's place.
func mkdirat(dir *os.File, name string) error {
	defer unix.Umask(unix.Umask(0))
	return retry(func() error { return unix.Mkdirat(int(dir.Fd()), name, 0o755) })
}

// makeFile creates an empty file as a mount point. It is never opened for reading or
// writing afterwards. An existing one serves as well, a link does not.
func (r *Root) makeFile(dir *os.File, name, whole string) (*os.File, Undo, error) {
	if err := r.checkOwner(dir, whole); err != nil {
		return nil, noUndo, err
	}
	err := retry(func() error {
		return unix.Mknodat(int(dir.Fd()), name, unix.S_IFREG|0o644, 0)
	})
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, noUndo, &os.PathError{Op: "mknod", Path: whole, Err: err}
	}
	f, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, noUndo, err
	}
	undo := Undo(noUndo)
	if made {
		undo, err = r.removal(dir, name, whole, f, 0)
	} else {
		err = refuseLink(f, whole)
	}
	if err != nil {
		f.Close()
		return nil, noUndo, err
	}
	return f, undo, nil
}

func refuseLink(f *os.File, whole string) error {
	st, err := fstat(f)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = &os.PathError{Op: "create", Path: whole, Err: unix.ELOOP}
	}
	return err
}

// removal returns the undo of having created name in dir, a descriptor that the root
// holds: it is removed if it is still the same file. whole is its path in the root.
func (r *Root) removal(dir *os.File, name, whole string, made *os.File, flags int) (Undo, error) {
	want, err := fstat(made)
	if err != nil {
		return nil, err
	}
	return func() error {
		if r.Keep != nil && r.Keep(whole) {
			return nil
		}
		var now unix.Stat_t
		err := unix.Fstatat(int(dir.Fd()), name, &now, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) || err == nil && (now.Ino != want.Ino || now.Dev != want.Dev) {
			return nil
		}
		if err == nil {
			err = retry(func() error { return unix.Unlinkat(int(dir.Fd()), name, flags) })
		}
		// Something was put into a directory of ours meanwhile: not ours to remove.
		if err != nil && !errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("undo: %w", &os.PathError{Op: "unlink", Path: whole, Err: err})
		}
		return nil
	}, nil
}
