package record

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Entry is a container's place in the directory, held under a lock.
type Entry struct {
	dir  *Dir
	name string
	lock *os.File
}

// ErrLocked says that another process works on the container now.
var ErrLocked = errors.New("locked by another process")

// Lock waits for the lock of a container, as long as ctx lets it.
func (d *Dir) Lock(ctx context.Context, id, bundle string) (*Entry, error) {
	return d.LockNamed(ctx, nameFor(id, bundle))
}

// LockNamed is Lock by the name that All gives.
func (d *Dir) LockNamed(ctx context.Context, name string) (*Entry, error) {
	e, err := d.lockName(name, unix.LOCK_EX|unix.LOCK_NB)
	if !errors.Is(err, ErrLocked) {
		return e, err
	}
	type result struct {
		e   *Entry
		err error
	}
	got := make(chan result, 1)
	go func() {
		e, err := d.lockName(name, unix.LOCK_EX)
		got <- result{e, err}
	}()
	select {
	case r := <-got:
		return r.e, r.err
	case <-ctx.Done():
		// The wait itself cannot be ended; it ends with this process.
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLocked, context.Cause(ctx))
	}
}

// lockName takes a lock file. Whoever holds it may remove the file, so the one that was
// locked must still be the one that is there.
func (d *Dir) lockName(name string, how int) (*Entry, error) {
	for {
		f, err := d.open(name+lockEnding, unix.O_RDWR|unix.O_CREAT)
		if err != nil {
			return nil, err
		}
		err = flock(f, how)
		if err == nil && d.isNow(f, name+lockEnding) {
			return &Entry{dir: d, name: name, lock: f}, nil
		}
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", name, ErrLocked)
		}
		if err != nil {
			return nil, &os.PathError{Op: "flock", Path: name + lockEnding, Err: err}
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (d *Dir) isNow(f *os.File, name string) bool {
	var held, now unix.Stat_t
	return unix.Fstat(int(f.Fd()), &held) == nil &&
		unix.Fstatat(int(d.f.Fd()), name, &now, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		held.Ino == now.Ino
}

// Unlock gives the lock back. Without a record the lock file goes too.
func (e *Entry) Unlock() error {
	if _, err := e.Read(); errors.Is(err, os.ErrNotExist) {
		_ = unix.Unlinkat(int(e.dir.f.Fd()), e.name+lockEnding, 0)
	}
	return e.lock.Close()
}
