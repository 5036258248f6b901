// Package record keeps what was done to containers: a journal of what is going to be
// done, written before the first change, which becomes the record when it is done. One
// file a container, `<id>-<hash of its bundle>.json`, in a directory that only its owner
// can enter.
//
// It does not undo anything itself, and a record proves nothing about the container: it
// says what the hook did, not what is so now.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Version of the file's form. A reader refuses newer ones.
const Version = 1

// Record is what a file holds.
type Record struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Bundle  string `json:"bundle"`

	// The container's process, and the boot that its numbers belong to.
	Pid       int    `json:"pid"`
	StartTime uint64 `json:"startTime"` // clock ticks since boot
	BootID    string `json:"bootID"`

	// Done turns the journal into the record.
	Done    bool     `json:"done"`
	Devices []string `json:"devices"`

	// Time is when the container was given its devices, or was going to be.
	Time time.Time `json:"time,omitzero"`
	// Engine, Name and Pod ("NAMESPACE/NAME") are there where the engine tells them.
	Engine string `json:"engine,omitempty"`
	Name   string `json:"name,omitempty"`
	Pod    string `json:"pod,omitempty"`

	// Root is the container's root file system in the runtime's mount namespace.
	Root string `json:"root"`
	// RootBorn tells it from another directory that gets its path later.
	RootBorn string `json:"rootBorn,omitempty"`
	// Targets are the paths in the root that are mounted on or hold nodes; Missing those
	// that were not there before.
	Targets []string  `json:"targets,omitempty"`
	Missing []Missing `json:"missing,omitempty"`
	// Scope is what systemd was told, where it has a scope for the container.
	Scope *Scope `json:"scope,omitempty"`
	// Started says that the poststart hooks have been run.
	Started bool `json:"started,omitempty"`
	// Actions and Unsupported are the plan as it was printed.
	Actions     json.RawMessage `json:"actions,omitempty"`
	Unsupported json.RawMessage `json:"unsupported,omitempty"`
	// Mounted tells what was mounted from what the same path holds later.
	Mounted []Mounted `json:"mounted,omitempty"`
	// Hostless are the nodes, by index in Actions, that the host itself did not have.
	Hostless []int `json:"hostless,omitempty"`
	// Leaving are those of Devices that are being taken away.
	Leaving []string `json:"leaving,omitempty"`
	// RulesSkipped says that no cgroup was changed: the permissions of the nodes decide.
	RulesSkipped bool `json:"rulesSkipped,omitempty"`
}

// Mounted is the file, as stat(2) names it, that is the root of an action's mount.
type Mounted struct {
	Action int    `json:"action"` // index in Actions
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
}

// Scope is the container's own unit of systemd, and what was changed of it.
type Scope struct {
	Unit string `json:"unit"`
	// DeviceAllow is what was added; nothing where systemd does not filter.
	DeviceAllow []DeviceAllow `json:"deviceAllow,omitempty"`
	// Programs are pinned in bpffs for systemd to attach, and were replaced there.
	Programs []string `json:"programs,omitempty"`
}

// DeviceAllow is one such property, with the access that its path had before.
type DeviceAllow struct {
	Path   string `json:"path"`
	Access string `json:"access"`
	Before string `json:"before,omitempty"`
}

// Missing is a path in the root that was going to be created: a directory or an empty
// file, or a node where Type is set.
type Missing struct {
	Path string `json:"path"`
	// Elsewhere says that it is on another mount than the root's, and ends with it.
	Elsewhere bool `json:"elsewhere,omitempty"`

	Type  string `json:"type,omitempty"`
	Major uint32 `json:"major,omitempty"`
	Minor uint32 `json:"minor,omitempty"`
}

// Dir is the state directory, held open.
type Dir struct{ f *os.File }

// OpenDir opens the state directory and makes it where it is missing (mode 0700; its
// parents must exist). Others may not own it or enter it.
func OpenDir(name string) (*Dir, error) {
	if err := unix.Mkdir(name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return OpenExisting(name)
}

// OpenExisting opens a state directory that is there.
func OpenExisting(name string) (*Dir, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	switch {
	case err != nil:
	case int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("owned by uid %d, not by uid %d", st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		err = fmt.Errorf("mode %04o lets others in, 0700 is wanted", st.Mode&0o7777)
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "state directory", Path: name, Err: err}
	}
	return &Dir{f: f}, nil
}

// Close gives the descriptor back.
func (d *Dir) Close() error { return d.f.Close() }

// nameFor names the files of a container without their ending. An id that leaves no
// room for it in a file name is cut, and counts in the hash.
func nameFor(id, bundle string) string {
	const room = 200
	hashed := bundle
	if len(id) > room {
		hashed += "\x00" + id
		id = id[:room]
	}
	// Bundles are the engine's own names: the hash tells them apart, it need not withstand
	// anybody. crypto/sha256 costs every start the self-test of its module.
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(hashed))
	return fmt.Sprintf("%s-%016x", id, sum.Sum64())
}

// IDOf gives the container's id, or as much of it as there is, from the name of its files.
func IDOf(name string) string {
	if at := strings.LastIndexByte(name, '-'); at >= 0 {
		return name[:at]
	}
	return name
}

const (
	recordEnding = ".json"
	lockEnding   = ".lock"
	tempEnding   = ".tmp"
)

func (d *Dir) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.f.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.f.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), d.f.Name()+"/"+name), nil
}

// Read reads the record; os.ErrNotExist where there is none.
func (e *Entry) Read() (*Record, error) { return e.dir.read(e.name) }

const maxRecord = 64 << 20

func (d *Dir) read(name string) (*Record, error) {
	f, err := d.open(name+recordEnding, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("%s: not a record: %w; remove it to go on without", f.Name(), err)
	}
	if r.Version > Version {
		return nil, fmt.Errorf("%s: version %d is newer than this program's %d; remove it to go on without", f.Name(), r.Version, Version)
	}
	return r, nil
}

// Write replaces the record at once and for good: it is on the disk when Write returns.
func (e *Entry) Write(r *Record) error {
	r.Version = Version
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record %s: %w", e.name, err)
	}
	f, err := e.dir.open(e.name+tempEnding, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	defer f.Close()
	dir := int(e.dir.f.Fd())
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = unix.Renameat(dir, e.name+tempEnding, dir, e.name+recordEnding)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, e.name+tempEnding, 0)
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return e.dir.f.Sync()
}

// Remove removes the record; none there is fine.
func (e *Entry) Remove() error {
	dir := int(e.dir.f.Fd())
	_ = unix.Unlinkat(dir, e.name+tempEnding, 0)
	err := unix.Unlinkat(dir, e.name+recordEnding, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unlink", Path: e.dir.f.Name() + "/" + e.name + recordEnding, Err: err}
	}
	return nil
}
