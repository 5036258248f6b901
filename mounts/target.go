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
	ErrOwner     = errors.New("its directory belongs to nobody in the container's user namespace, which may not write there")
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

// target is a place for a mount: what is there, or where it will be.
type target struct {
	dir  *directory
	base string
	at   *os.File // what is there; nil where nothing is
}

// locate finds the place of a mount. The caller closes what is there.
func (r *Root) locate(unsafeTarget string) (target, error) {
	if err := checkLexically(unsafeTarget); err != nil {
		return target{}, err
	}
	unsafeDir, base := path.Split(path.Join("/", unsafeTarget))
	dir, err := r.directory(unsafeDir)
	if err != nil {
		return target{}, err
	}
	t := target{dir: dir, base: base}
	if len(dir.missing) > 0 {
		return t, nil
	}
	t.at, err = openat(dir.at, base, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return t, nil
	}
	if err != nil {
		return target{}, err
	}
	if refuseLink(t.at, unsafeTarget) == nil {
		return t, nil
	}
	t.at.Close()
	return r.locateLink(unsafeTarget)
}

// locateLink finds the place that a link leads to, and the one that a dangling link would.
func (r *Root) locateLink(unsafeTarget string) (target, error) {
	p, err := r.find(unsafeTarget)
	if err != nil || len(p.missing) == 0 {
		return target{at: p.at}, err
	}
	last := len(p.missing) - 1
	base := p.missing[last]
	p.missing = p.missing[:last]
	dir, err := r.describeDir(p)
	if err != nil {
		p.close()
		return target{}, err
	}
	r.hold(p.at)
	return target{dir: dir, base: base}, nil
}

// checkTarget finds a mount point, or the place for one, or why it cannot be.
func (r *Root) checkTarget(unsafeTarget string, dir bool) (t target, err error) {
	if t, err = r.locate(unsafeTarget); err != nil {
		return t, err
	}
	if t.at == nil {
		if t.dir.fsType == unix.PROC_SUPER_MAGIC {
			return t, refuse(unsafeTarget, ErrInProc)
		}
		if err := r.checkWritable(t.dir, unsafeTarget); err != nil {
			return t, err
		}
		return t, r.checkShared(t.dir.mount, unsafeTarget)
	}
	if err := r.checkExisting(t.at, unsafeTarget, dir); err != nil {
		t.at.Close()
		return target{}, err
	}
	return t, nil
}

// checkExisting looks at where a path led to, not at what it is called.
func (r *Root) checkExisting(at *os.File, unsafeTarget string, dir bool) error {
	st, err := fstat(at)
	if err != nil {
		return err
	}
	if isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; isDir != dir {
		return refuse(unsafeTarget, ErrKind)
	}
	if same, err := sameFile(at, r.dir); err != nil || same {
		return errors.Join(err, refuse(unsafeTarget, ErrOnRoot))
	}
	fs, err := fstatfs(at)
	if err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		name, err := r.pathOf(at)
		if err != nil || !slices.Contains(procAllowed, name) {
			return errors.Join(err, refuse(unsafeTarget, ErrInProc))
		}
	}
	id, err := mountIDOf(at)
	if err != nil {
		return err
	}
	return r.checkShared(id, unsafeTarget)
}

func (r *Root) checkShared(id mountID, unsafeTarget string) error {
	if id == r.mount && r.rootChecked {
		return nil
	}
	all, err := r.table.mounts()
	if err != nil {
		return err
	}
	m, err := all.byID(id)
	if err != nil {
		return refuse(unsafeTarget, err)
	}
	if peer, err := r.host.hasPeer(m); err != nil || peer {
		return errors.Join(err, refuse(unsafeTarget, ErrShared))
	}
	r.rootChecked = r.rootChecked || id == r.mount
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

// mountPoint opens the place for a mount, creating what is missing.
func (r *Root) mountPoint(unsafeTarget string, dir bool) (*os.File, Undo, error) {
	t, err := r.checkTarget(unsafeTarget, dir)
	if err != nil || t.at != nil {
		return t.at, noUndo, err
	}
	undoDirs, err := r.make(t.dir)
	if err != nil {
		return nil, noUndo, err
	}
	create := r.makeFile
	if dir {
		create = r.makeDir
	}
	f, undo, err := create(t.dir.at, t.base, path.Join(t.dir.name, t.base))
	if err != nil {
		return nil, noUndo, errors.Join(err, undoDirs())
	}
	return f, undos{undoDirs, undo}.run, nil
}

func dup(f *os.File) (*os.File, error) {
	return retryFd(f.Name(), func() (int, error) {
		return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	})
}
