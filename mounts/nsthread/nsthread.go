// Package nsthread runs functions on one OS thread that has entered namespaces.
//
// The thread is locked to one goroutine and is thrown away with it: a thread that
// entered a mount namespace cannot be made fit for general use again. Go multiplexes
// goroutines over threads, so nothing else may run on it (setns(2), unshare(2)).
//
// What it does not do: it cannot enter a user namespace. The kernel refuses that to a
// process of several threads (setns(2), EINVAL), which every Go process is. Functions
// run one after the other; goroutines that they start run elsewhere, outside.
package nsthread

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("namespace thread is closed")

// Thread is an OS thread of its own that has entered namespaces.
type Thread struct {
	jobs chan job
	gone chan struct{}
}

type job struct {
	f    func() error
	done chan error
}

// Start makes a thread and runs enter on it first. If enter fails, the thread is gone
// and its error is returned. The thread has a file system context of its own
// (CLONE_FS), so that its root, working directory and umask are nobody else's.
func Start(enter func() error) (*Thread, error) {
	t := &Thread{jobs: make(chan job), gone: make(chan struct{})}
	started := make(chan error)
	go t.run(enter, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return t, nil
}

// Join returns an enter function that joins the given namespaces in order.
func Join(namespaces ...Namespace) func() error {
	return func() error {
		for _, n := range namespaces {
			if err := n.join(); err != nil {
				return err
			}
		}
		return nil
	}
}

// Namespace is an open namespace file and the type that it must be of.
type Namespace struct {
	File *os.File
	Type int // CLONE_NEWNS, CLONE_NEWPID, ...
}

func (n Namespace) join() error {
	if err := unix.Setns(int(n.File.Fd()), n.Type); err != nil {
		return &os.PathError{Op: "setns", Path: n.File.Name(), Err: err}
	}
	return nil
}

// Do runs f on the thread and returns what it returns. It must not be called from a
// function that itself runs on the thread.
func (t *Thread) Do(f func() error) error {
	j := job{f: f, done: make(chan error, 1)}
	select {
	case t.jobs <- j:
		return <-j.done
	case <-t.gone:
		return ErrClosed
	}
}

// Close ends the thread and waits until it takes no more work. A second Close does
// nothing.
func (t *Thread) Close() {
	select {
	case t.jobs <- job{}:
		<-t.gone
	case <-t.gone:
	}
}

func (t *Thread) run(enter func() error, started chan<- error) {
	// Never unlocked: the runtime ends the thread together with this goroutine.
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The runtime never ends the main thread, and /proc/self speaks of it: keep
		// it out of other namespaces. While this goroutine holds it, the next one
		// gets another thread.
		again := make(chan struct{})
		go func() { defer close(again); t.run(enter, started) }()
		<-again
		runtime.UnlockOSThread()
		return
	}
	defer close(t.gone)
	// A thread that shares its file system context may not change mount namespace
	// (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		started <- os.NewSyscallError("unshare(CLONE_FS)", err)
		return
	}
	if err := enter(); err != nil {
		started <- err
		return
	}
	started <- nil
	for j := range t.jobs {
		if j.f == nil {
			return
		}
		j.done <- guard(j.f)
	}
}

// guard turns a panic of f into its error: nobody above this goroutine could.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	return f()
}
