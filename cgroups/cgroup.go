package cgroups

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Version is the kind of hierarchy a cgroup belongs to.
type Version int

// V1 is a hierarchy with the devices controller, V2 the unified one.
const (
	V1 Version = 1
	V2 Version = 2
)

func (v Version) String() string { return "v" + strconv.Itoa(int(v)) }

// Cgroup is a directory of a cgroup file system, held open.
type Cgroup struct {
	dir     *os.File
	version Version
	kernel  kernel
}

// Options is what Allow is told beside the rules.
type Options struct {
	// Rebuild is what the runtime was asked for, in order: the rules of the OCI config,
	// then its default devices. It serves only on cgroup v2, where the program that the
	// runtime made of it cannot be read; nil means to refuse then.
	Rebuild []Decision
}

// Undo takes back what one Allow changed, and nothing else. The second call does nothing.
type Undo func() error

func noUndo() error { return nil }

// Open opens the cgroup at path. The path is trusted: links in it are followed.
func Open(path string) (*Cgroup, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	c, err := FromDir(dir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return c, nil
}

// FromDir takes over an open directory of a cgroup file system. Its name serves errors.
// The file system itself says which version it is: hybrid hosts have both.
func FromDir(dir *os.File) (*Cgroup, error) {
	id, err := identify(dir)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	switch id.magic {
	case unix.CGROUP_SUPER_MAGIC:
		return &Cgroup{dir: dir, version: V1, kernel: syscalls{}}, nil
	case unix.CGROUP2_SUPER_MAGIC:
		return &Cgroup{dir: dir, version: V2, kernel: syscalls{}}, nil
	}
	return nil, fmt.Errorf("cgroup %s: not on a cgroup file system (type %#x)", dir.Name(), id.magic)
}

// Close closes the directory. An Undo of this cgroup stays usable.
func (c *Cgroup) Close() error { return c.dir.Close() }

// Version tells the hierarchy.
func (c *Cgroup) Version() Version { return c.version }

// Path is the path it was opened by.
func (c *Cgroup) Path() string { return c.dir.Name() }

// Allow lets the cgroup open what the rules name, where it may not already. It is all or
// nothing: on an error it has taken back what it had done. The Undo is never nil; after
// the cgroup is gone it has nothing to do and succeeds.
//
// Cgroup v1 refuses what an ancestor denies: a [*DeniedError] names it. Cgroup v2 takes
// the rules all the same and denies later: ask Denying first.
func (c *Cgroup) Allow(rules []Rule, opts Options) (Undo, error) {
	if err := validate(rules); err != nil {
		return noUndo, err
	}
	if len(rules) == 0 {
		return noUndo, nil
	}
	if c.version == V1 {
		return c.allowV1(rules)
	}
	return c.allowV2(rules, opts)
}

// Procs lists the processes of this cgroup itself, not of those below it, as this
// process's pid namespace numbers them; 0 is one outside it.
func (c *Cgroup) Procs() ([]int, error) {
	data, err := readAt(c.dir, "cgroup.procs")
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range bytes.FieldsSeq(data) {
		pid, err := strconv.Atoi(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", c.Path(), err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// parent opens the cgroup above, or nil at the root of the mount.
func (c *Cgroup) parent() (*Cgroup, error) {
	here, err := identify(c.dir)
	if err != nil {
		return nil, err
	}
	up, err := openatAs(c.dir, "..", filepath.Dir(c.Path()), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	above, err := identify(up)
	// A detached mount's root, and that of a process, is its own parent.
	if err != nil || above.magic != here.magic || above.device != here.device || above.inode == here.inode {
		return nil, errors.Join(err, up.Close())
	}
	return &Cgroup{dir: up, version: c.version, kernel: c.kernel}, nil
}

// ancestors opens all cgroups above, nearest first.
func (c *Cgroup) ancestors() (above []*Cgroup, err error) {
	for at := c; ; {
		up, err := at.parent()
		if err != nil {
			closeAll(above)
			return nil, fmt.Errorf("cgroup above %s: %w", at.Path(), err)
		}
		if up == nil {
			return above, nil
		}
		above = append(above, up)
		at = up
	}
}

func closeAll(all []*Cgroup) {
	for _, c := range all {
		c.Close()
	}
}
