package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
)

// Sight is what is at a place: what stat(2) tells, and whether something is mounted there.
type Sight struct {
	// Type is the letter of ls(1): b, c, p, d, l, s, or - for a file.
	Type         byte
	Major, Minor uint32 // of a device node
	// Dev and Ino name the file on this host, until it is removed.
	Dev, Ino uint64
	// MountRoot says that it is the root of a mount. Kernels before 5.8 cannot tell, and
	// then it is true: what Dev and Ino name is enough.
	MountRoot bool
}

// String names it in a few words, device nodes with their numbers.
func (s Sight) String() string {
	switch s.Type {
	case 'b', 'c':
		return fmt.Sprintf("%c %d:%d", s.Type, s.Major, s.Minor)
	case 'p':
		return "a FIFO"
	case 'd':
		return "a directory"
	case 'l':
		return "a symbolic link"
	case 's':
		return "a socket"
	}
	return "a file"
}

// SameFile tells whether both are the same file.
func (s Sight) SameFile(o Sight) bool { return s.Dev == o.Dev && s.Ino == o.Ino }

// SameNode tells whether both are device nodes, or FIFOs, of the same numbers.
func (s Sight) SameNode(o Sight) bool {
	return s.Type == o.Type && s.Major == o.Major && s.Minor == o.Minor
}

// View looks at the files of a container from outside its mount namespace. It opens
// nothing for reading: what is in the container may answer to that.
type View struct{ root *os.File }

// NewView takes over root, an O_PATH descriptor of the container's root directory
// (proc_pid_root(5)).
func NewView(root *os.File) View { return View{root} }

// Close gives the descriptor back.
func (v View) Close() error { return v.root.Close() }

// At looks at where a path leads, links and all, as if the root were "/".
func (v View) At(unsafePath string) (Sight, error) { return see(v.root, unsafePath, 0) }

// NodeAt looks at the file that has the path, were it a link.
func (v View) NodeAt(unsafePath string) (Sight, error) {
	return see(v.root, unsafePath, unix.O_NOFOLLOW)
}

// At looks at where a path leads inside the root.
func (r *Root) At(unsafePath string) (Sight, error) { return see(r.dir, unsafePath, 0) }

// HostAt looks at a path of the caller's own; a link counts as itself where follow is
// false.
func HostAt(name string, follow bool) (Sight, error) {
	flags := unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	if !follow {
		flags |= unix.AT_SYMLINK_NOFOLLOW
	}
	s, err := sight(unix.AT_FDCWD, name, flags)
	if err != nil {
		return s, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return s, nil
}

func see(root *os.File, unsafePath string, flags uint64) (Sight, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd := -1
	err := error(unix.EAGAIN)
	for i := 0; i < maxRaces && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)); i++ {
		fd, err = unix.Openat2(int(root.Fd()), unsafePath, &how)
	}
	if errors.Is(err, unix.ENOSYS) {
		return seeWithout(root, unsafePath, flags)
	}
	if err != nil {
		return Sight{}, &os.PathError{Op: "open in root", Path: unsafePath, Err: err}
	}
	defer unix.Close(fd)
	return sight(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC)
}

// seeWithout does without openat2(2).
func seeWithout(root *os.File, unsafePath string, flags uint64) (Sight, error) {
	unsafe, base := unsafePath, ""
	if flags&unix.O_NOFOLLOW != 0 {
		unsafe, base = path.Split(path.Join("/", unsafePath))
	}
	f, err := pathrs.OpenatInRoot(root, unsafe)
	if err != nil {
		return Sight{}, &os.PathError{Op: "open in root", Path: unsafePath, Err: plainErrno(err)}
	}
	defer f.Close()
	if base == "" {
		return sight(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC)
	}
	at, err := openat(f, base, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Sight{}, &os.PathError{Op: "open in root", Path: unsafePath, Err: plainErrno(err)}
	}
	defer at.Close()
	return sight(int(at.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC)
}

func sight(at int, name string, flags int) (Sight, error) {
	var stx unix.Statx_t
	err := retry(func() error { return unix.Statx(at, name, flags, unix.STATX_BASIC_STATS, &stx) })
	if err != nil {
		return Sight{}, err
	}
	s := Sight{
		Type: typeLetter(uint32(stx.Mode)), Ino: stx.Ino, Dev: unix.Mkdev(stx.Dev_major, stx.Dev_minor),
		MountRoot: stx.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0,
	}
	if s.Type == 'b' || s.Type == 'c' {
		s.Major, s.Minor = stx.Rdev_major, stx.Rdev_minor
	}
	return s, nil
}

func typeLetter(mode uint32) byte {
	switch mode & unix.S_IFMT {
	case unix.S_IFBLK:
		return 'b'
	case unix.S_IFCHR:
		return 'c'
	case unix.S_IFIFO:
		return 'p'
	case unix.S_IFDIR:
		return 'd'
	case unix.S_IFLNK:
		return 'l'
	case unix.S_IFSOCK:
		return 's'
	}
	return '-'
}
