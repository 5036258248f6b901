package mounts

import (
	"errors"
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
	dirs  map[string]*directory // by unsafe path, see [Root.directory]
	// running is set where the container runs.
	running *Running
	held    []*os.File // closed with the root
	// rootChecked: the root's own mount has no peer on the host.
	rootChecked bool

	// UserNamespace says that the container's user namespace is not the caller's, so
	// that a node made in its filesystems would not open.
	UserNamespace bool
	// Mapped tells whether that user namespace has an owner and a group of the caller's;
	// nil where it is the caller's own.
	Mapped func(uid, gid uint32) bool
	// ReadOnly names the mounts that the runtime makes read-only at the end, crun all of
	// them, and that can be written to until then.
	ReadOnly []ReadOnly
	// Label is the SELinux mount label (context=) for filesystems mounted here; empty
	// where SELinux is off.
	Label string
	// Keep tells that a path in the root that was made here must stay when the deed is
	// taken back, because somebody else's mount is on it by now: removing a mount point
	// detaches what other namespaces mounted there. May be nil.
	Keep func(path string) bool
}

// ReadOnly is a mount in the root that its container may not write to, or with Recursive
// a tree of mounts.
type ReadOnly struct {
	UnsafePath string
	Recursive  bool
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

// Close gives all descriptors back. Nothing can be undone afterwards.
func (r *Root) Close() error {
	closeAll(r.held...)
	r.held, r.dirs = nil, nil
	return r.dir.Close()
}

// hold keeps a descriptor open as long as the root.
func (r *Root) hold(f *os.File) *os.File {
	r.held = append(r.held, f)
	return f
}

// HasOwnMount tells whether something is mounted on the root here that is not mounted there
// on the host: every runtime binds the root on itself, in the container's namespace alone.
func (r *Root) HasOwnMount() (bool, error) {
	here, err := r.table.mounts()
	if err != nil {
		return false, err
	}
	there, err := r.host.mounts()
	if err != nil {
		return false, err
	}
	return here.countOn(r.name) > there.countOn(r.name), nil
}

// IsMountPoint tells whether something is mounted on a place in the root; "/" is the root
// itself.
func (r *Root) IsMountPoint(unsafePath string) (bool, error) {
	f, err := r.open(unsafePath)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return r.isMountRoot(f)
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
		parts := components(unsafe)
		existing := "/" + strings.Join(parts[:len(parts)-len(p.missing)], "/") + "/"
		rest := strings.Join(p.missing[1:], "/")
		p.close()
		if err != nil {
			return place{}, &os.PathError{Op: "readlink", Path: unsafePath, Err: err}
		}
		if !path.IsAbs(unsafeLink) {
			unsafeLink = existing + unsafeLink
		}
		unsafe = unsafeLink + "/" + rest
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
	parts := components(unsafePath)
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

func components(unsafePath string) []string {
	return strings.FieldsFunc(unsafePath, func(c rune) bool { return c == '/' })
}

func readlinkat(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
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
