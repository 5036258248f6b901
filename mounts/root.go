package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
)

// Root is the root directory of a container, held from inside the container's mount
// namespace.
type Root struct {
	dir   *os.File // O_PATH
	name  string   // its path in the mount namespace
	mount mountID  // the mount that the root is on
	host  hostMounts
	table namespaceMounts

	// UserNamespace says that the container's user namespace is not the caller's, so
	// that a node made in its filesystems would not open.
	UserNamespace bool
	// Label is the SELinux mount label (context=) for filesystems mounted here; empty
	// where SELinux is off.
	Label string
	// Keep tells that a path in the root that was made here must stay when the deed is
	// taken back, because somebody else's mount is on it by now: removing a mount point
	// detaches what other namespaces mounted there. May be nil.
	Keep func(path string) bool
}

// NewRoot takes over dir, an O_PATH descriptor of the root directory opened in the
// mount namespace of the calling thread. hostMountinfo reads /proc/self/mountinfo of the
// host's side, when it is needed: what is mounted there as well is the host's and never
// written to.
func NewRoot(dir *os.File, hostMountinfo func() ([]byte, error)) (*Root, error) {
	id, err := mountIDOf(dir)
	if err != nil {
		return nil, err
	}
	name, err := os.Readlink(procFd(dir))
	if err != nil {
		return nil, err
	}
	return &Root{dir: dir, name: name, mount: id, host: hostMounts{read: hostMountinfo}}, nil
}

// Close gives the descriptor back.
func (r *Root) Close() error { return r.dir.Close() }

// IsMountPoint tells whether something is mounted on a place in the root; "/" is the root
// itself.
func (r *Root) IsMountPoint(unsafePath string) (bool, error) {
	f, err := r.open(unsafePath)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return isMountRoot(f)
}

// open resolves unsafePath beneath the root, following links as if the root were "/".
func (r *Root) open(unsafePath string) (*os.File, error) {
	f, err := openInRoot(r.dir, unsafePath)
	if errors.Is(err, unix.ENOSYS) {
		f, err = pathrs.OpenatInRoot(r.dir, unsafePath)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open in root", Path: unsafePath, Err: plainErrno(err)}
	}
	return f, nil
}

// plainErrno drops the wrapping of a path error: the path inside is not the one that the
// user wrote.
func plainErrno(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// maxLinks is how many dangling links a path may go through before it counts as a loop,
// as in path_resolution(7).
const maxLinks = 40

// place is where a path leads: the last directory that exists and what is missing
// below it. A place without missing parts exists itself.
type place struct {
	at      *os.File // O_PATH
	missing []string
}

func (p place) close() { closeAll(p.at) }

// find resolves unsafePath as far as it exists. A dangling link is followed inside the
// root, as runtimes do: what it names is missing then.
func (r *Root) find(unsafePath string) (place, error) {
	unsafe := path.Join("/", unsafePath)
	for range maxLinks {
		p, err := r.longestPrefix(unsafe)
		if err != nil || len(p.missing) == 0 {
			return p, err
		}
		unsafeLink, err := readlinkat(p.at, p.missing[0])
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return p, r.checkMissing(p, unsafePath)
		}
		existing := strings.TrimSuffix(unsafe, strings.Join(p.missing, "/"))
		rest := strings.Join(p.missing[1:], "/")
		p.close()
		if err != nil {
			return place{}, &os.PathError{Op: "readlink", Path: unsafePath, Err: err}
		}
		if !path.IsAbs(unsafeLink) {
			unsafeLink = existing + unsafeLink
		}
		unsafe = strings.TrimSuffix(unsafeLink+"/"+rest, "/")
	}
	return place{}, &os.PathError{Op: "open in root", Path: unsafePath, Err: unix.ELOOP}
}

// checkMissing refuses what cannot be created one name after the other.
func (r *Root) checkMissing(p place, unsafePath string) error {
	for _, name := range p.missing {
		if name == ".." || name == "." {
			p.close()
			return &os.PathError{Op: "open in root", Path: unsafePath, Err: unix.ENOENT}
		}
	}
	st, err := fstat(p.at)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = &os.PathError{Op: "open in root", Path: unsafePath, Err: unix.ENOTDIR}
	}
	if err != nil {
		p.close()
	}
	return err
}

// longestPrefix opens the longest part of the path that resolves.
func (r *Root) longestPrefix(unsafePath string) (place, error) {
	parts := strings.FieldsFunc(unsafePath, func(c rune) bool { return c == '/' })
	for n := len(parts); ; n-- {
		f, err := r.open("/" + strings.Join(parts[:n], "/"))
		if err == nil {
			return place{at: f, missing: parts[n:]}, nil
		}
		if n == 0 || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			var perr *os.PathError
			if errors.As(err, &perr) {
				perr.Path = unsafePath
			}
			return place{}, err
		}
	}
}

func readlinkat(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// makeDirs creates the missing directories below p, all but the last keep of them, and
// returns the innermost one. New directories are 0755 whatever the umask is and belong
// to the thread's file system ids.
func (r *Root) makeDirs(p place, keep int) (*os.File, Undo, error) {
	undo := undos{}
	names, err := r.missingPaths(p)
	if err != nil {
		return nil, noUndo, err
	}
	dir, err := openat(p.at, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, noUndo, err
	}
	for i, name := range p.missing[:len(p.missing)-keep] {
		next, u, err := r.makeDir(dir, name, names[i])
		dir.Close()
		if err != nil {
			return nil, noUndo, errors.Join(err, undo.run())
		}
		undo = append(undo, u)
		dir = next
	}
	return dir, undo.run, nil
}

func (r *Root) makeDir(dir *os.File, name, whole string) (*os.File, Undo, error) {
	err := retry(func() error { return unix.Mkdirat(int(dir.Fd()), name, 0o755) })
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, noUndo, &os.PathError{Op: "mkdirat", Path: name, Err: err}
	}
	// Another container that shares this root may have made it meanwhile; a link or a
	// file put here is refused.
	f, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, noUndo, err
	}
	if !made {
		return f, noUndo, nil
	}
	undo, err := r.removal(dir, name, whole, f, unix.AT_REMOVEDIR)
	if err != nil {
		f.Close()
		return nil, noUndo, err
	}
	return f, undo, fchmod(f, 0o755)
}

// makeFile creates an empty file as a mount point. It is never opened for reading or
// writing afterwards.
func (r *Root) makeFile(dir *os.File, name, whole string) (*os.File, Undo, error) {
	err := retry(func() error {
		return unix.Mknodat(int(dir.Fd()), name, unix.S_IFREG|0o644, 0)
	})
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, noUndo, &os.PathError{Op: "mknodat", Path: name, Err: err}
	}
	f, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, noUndo, err
	}
	st, err := fstat(f)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = &os.PathError{Op: "create", Path: name, Err: unix.ELOOP}
	}
	if err != nil {
		f.Close()
		return nil, noUndo, err
	}
	if !made {
		return f, noUndo, nil
	}
	undo, err := r.removal(dir, name, whole, f, 0)
	if err != nil {
		f.Close()
		return nil, noUndo, err
	}
	return f, undo, nil
}

// removal returns the undo of having created name in dir: it is removed if it is still
// the same file. whole is its path in the root.
func (r *Root) removal(dir *os.File, name, whole string, made *os.File, flags int) (Undo, error) {
	want, err := fstat(made)
	if err != nil {
		return nil, err
	}
	parent, err := openat(dir, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return func() error {
		defer parent.Close()
		if r.Keep != nil && r.Keep(whole) {
			return nil
		}
		var now unix.Stat_t
		err := unix.Fstatat(int(parent.Fd()), name, &now, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) || err == nil && (now.Ino != want.Ino || now.Dev != want.Dev) {
			return nil
		}
		if err == nil {
			err = retry(func() error { return unix.Unlinkat(int(parent.Fd()), name, flags) })
		}
		// Something was put into a directory of ours meanwhile: not ours to remove.
		if err != nil && !errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("undo: %w", &os.PathError{Op: "unlinkat", Path: name, Err: err})
		}
		return nil
	}, nil
}

// undos runs from the newest to the oldest.
type undos []Undo

func (u undos) run() error {
	var errs []error
	for i := len(u) - 1; i >= 0; i-- {
		errs = append(errs, u[i]())
	}
	return errors.Join(errs...)
}
