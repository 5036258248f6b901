package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Reasons for which a place in the root is refused.
var (
	ErrOnRoot    = errors.New("would cover the container's root")
	ErrInProc    = errors.New("inside /proc, where nothing is mounted")
	ErrKind      = errors.New("a directory and a file cannot cover each other")
	ErrHostMount = errors.New("on a filesystem of the host, where nothing is created")
	ErrShared    = errors.New("on a mount that is shared with the host, where it would appear too")
)

// procAllowed is what runc lets be mounted over inside /proc: what lxcfs emulates.
var procAllowed = []string{
	"/proc/cpuinfo", "/proc/diskstats", "/proc/meminfo", "/proc/stat", "/proc/swaps", "/proc/uptime",
	"/proc/loadavg", "/proc/slabinfo", "/proc/sys/kernel/ns_last_pid", "/proc/sys/crypto/fips_enabled",
}

// checkLexically refuses what no resolution could make right.
func checkLexically(unsafeTarget string) error {
	switch clean := path.Join("/", unsafeTarget); {
	case clean == "/":
		return refuse(unsafeTarget, ErrOnRoot)
	case clean == "/proc", strings.HasPrefix(clean, "/proc/") && !slices.Contains(procAllowed, clean):
		return refuse(unsafeTarget, ErrInProc)
	}
	return nil
}

func refuse(unsafeTarget string, why error) error {
	return &os.PathError{Op: "mount on", Path: unsafeTarget, Err: why}
}

// checkTarget tells what is missing of a mount point, or why it cannot be one.
func (r *Root) checkTarget(unsafeTarget string, dir bool) (missing []string, err error) {
	if err := checkLexically(unsafeTarget); err != nil {
		return nil, err
	}
	p, err := r.find(unsafeTarget)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := r.checkPlace(p, unsafeTarget, dir); err != nil {
		return nil, err
	}
	return r.lastingPaths(p)
}

// checkPlace looks at where a path led to, not at what it is called.
func (r *Root) checkPlace(p place, unsafeTarget string, dir bool) error {
	st, err := fstat(p.at)
	if err != nil {
		return err
	}
	if len(p.missing) == 0 {
		if isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; isDir != dir {
			return refuse(unsafeTarget, ErrKind)
		}
		if same, err := sameFile(p.at, r.dir); err != nil || same {
			return errors.Join(err, refuse(unsafeTarget, ErrOnRoot))
		}
	}
	fs, err := fstatfs(p.at)
	if err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		name, err := r.pathOf(p.at)
		if err != nil {
			return err
		}
		if len(p.missing) > 0 || !slices.Contains(procAllowed, name) {
			return refuse(unsafeTarget, ErrInProc)
		}
	}
	return r.checkShared(p.at, unsafeTarget)
}

func (r *Root) checkShared(at *os.File, unsafeTarget string) error {
	id, err := mountIDOf(at)
	if err != nil || id == r.mount {
		return err
	}
	all, err := r.table.mounts()
	if err != nil {
		return err
	}
	m, err := all.of(at)
	if err != nil {
		return err
	}
	if peer, err := r.host.hasPeer(m); err != nil || peer {
		return errors.Join(err, refuse(unsafeTarget, ErrShared))
	}
	return nil
}

func sameFile(a, b *os.File) (bool, error) {
	sa, err := fstat(a)
	if err != nil {
		return false, err
	}
	sb, err := fstat(b)
	return sa.Dev == sb.Dev && sa.Ino == sb.Ino, err
}

// pathOf names a file of the root as the container sees it.
func (r *Root) pathOf(f *os.File) (string, error) {
	name, err := os.Readlink(procFd(f))
	if err != nil {
		return "", err
	}
	rel, ok := strings.CutPrefix(name, strings.TrimSuffix(r.name, "/"))
	if !ok {
		return "", fmt.Errorf("%s: not below the root %s", name, r.name)
	}
	return path.Join("/", rel), nil
}

// lastingPaths names what has to be created, as far as it outlives the container: what
// lies on the root's own mount.
func (r *Root) lastingPaths(p place) ([]string, error) {
	if id, err := mountIDOf(p.at); err != nil || id != r.mount {
		return nil, err
	}
	return r.missingPaths(p)
}

// missingPaths names what has to be created.
func (r *Root) missingPaths(p place) ([]string, error) {
	if len(p.missing) == 0 {
		return nil, nil
	}
	name, err := r.pathOf(p.at)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, part := range p.missing {
		name = path.Join(name, part)
		all = append(all, name)
	}
	return all, nil
}

// mountPoint opens the place for a mount, creating what is missing.
func (r *Root) mountPoint(unsafeTarget string, dir bool) (*os.File, Undo, error) {
	if err := checkLexically(unsafeTarget); err != nil {
		return nil, noUndo, err
	}
	p, err := r.find(unsafeTarget)
	if err != nil {
		return nil, noUndo, err
	}
	defer p.close()
	if err := r.checkPlace(p, unsafeTarget, dir); err != nil {
		return nil, noUndo, err
	}
	if len(p.missing) == 0 {
		f, err := dup(p.at)
		return f, noUndo, err
	}
	if dir {
		return r.makeDirs(p, 0)
	}
	parent, undoDirs, err := r.makeDirs(p, 1)
	if err != nil {
		return nil, noUndo, err
	}
	defer parent.Close()
	f, undoFile, err := r.makeFile(parent, p.missing[len(p.missing)-1], path.Join("/", unsafeTarget))
	if err != nil {
		return nil, noUndo, errors.Join(err, undoDirs())
	}
	return f, undos{undoDirs, undoFile}.run, nil
}

func dup(f *os.File) (*os.File, error) {
	return retryFd(f.Name(), func() (int, error) {
		return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	})
}
