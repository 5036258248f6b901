package mounts

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// sameMount refuses a directory that was not there when the path was resolved, and on
// which something is mounted: somebody has moved it here since, mount and all.
func sameMount(dir, f *os.File, whole string) error {
	id, err := mountIDOf(dir)
	if err != nil {
		return err
	}
	if now, err := mountIDOf(f); err != nil || now != id {
		return errors.Join(err, &os.PathError{Op: "create", Path: whole, Err: errors.New("another mount has come there meanwhile")})
	}
	return nil
}

// checkWritable refuses directories in which the container itself could create nothing.
func (r *Root) checkWritable(d *directory, whole string) error {
	if err := r.checkOwner(d.at, whole); err != nil || d.mount == r.mount {
		return err
	}
	for _, ro := range r.ReadOnly {
		in, err := r.isIn(d, ro)
		if err != nil || in {
			return errors.Join(err, &os.PathError{Op: "create", Path: whole, Err: unix.EROFS})
		}
	}
	return nil
}

func (r *Root) isIn(d *directory, ro ReadOnly) (bool, error) {
	f, err := r.open(ro.UnsafePath)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if id, err := mountIDOf(f); err != nil || id == d.mount {
		return err == nil, err
	}
	name, err := r.pathOf(f)
	return ro.Recursive && strings.HasPrefix(d.name+"/", strings.TrimSuffix(name, "/")+"/"), err
}

// checkOwner refuses to create something in a directory where the container's own root
// could not: the calling thread may write anywhere, and the image's links decide where
// that is. Natively the runtime creates mount points with the rights that the container
// has (user_namespaces(7): its capabilities reach files whose owner and group are mapped).
func (r *Root) checkOwner(dir *os.File, whole string) error {
	if r.Mapped == nil {
		return nil
	}
	st, err := fstat(dir)
	if err != nil {
		return err
	}
	const writeAndSearch = unix.S_IWOTH | unix.S_IXOTH
	if r.Mapped(st.Uid, st.Gid) || st.Mode&writeAndSearch == writeAndSearch {
		return nil
	}
	return &os.PathError{Op: "create", Path: whole, Err: ErrOwner}
}
