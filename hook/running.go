package hook

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/mounts"
	"oci-cdi-hook/mounts/nsthread"
)

// openRunningRoot takes the root of the container's mount namespace, which is what its
// processes have, whatever one of them has made its own root since.
func (w *work) openRunningRoot() error {
	dir := w.foreign.Root
	w.foreign.Root = nil
	err := oci.CheckRunningRoot(dir)
	if err == nil {
		w.rootBorn, err = oci.Born(dir)
	}
	if err == nil {
		w.root, err = mounts.NewRunningRoot(dir, func() ([]byte, error) { return io.ReadAll(w.hostTable) },
			mounts.Running{Mounts: w.mountsNow, Outside: outside})
	}
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	w.describeRoot()
	return nil
}

// mountsNow reads the container's mounts anew: a reader that goes back to the start is
// shown what is there then.
func (w *work) mountsNow() ([]byte, error) {
	if _, err := w.foreign.Mountinfo.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(w.foreign.Mountinfo)
}

// outside runs f on another thread than the one that has joined the container: a goroutine
// never shares the thread of one that is locked to it.
func outside(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return <-done
}

// within runs f on a thread that has joined a cgroup namespace.
func within(ns *os.File, f func() error) error {
	thread, err := nsthread.Start(nsthread.Join(nsthread.Namespace{File: ns, Type: unix.CLONE_NEWCGROUP}))
	if err != nil {
		return err
	}
	defer thread.Close()
	return thread.Do(f)
}

// How long processes that do not seem to be the container's are watched, and how often. A
// runtime's own that join a container to execute something are gone in a moment.
const (
	strangersFor   = time.Second
	strangersEvery = 10 * time.Millisecond
)

// isAloneInTime tells whether all processes of a cgroup are the container's but for those
// that come and go.
func (w *work) isAloneInTime(c *cgroups.Cgroup) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), strangersFor)
	defer cancel()
	tick := time.NewTicker(strangersEvery)
	defer tick.Stop()
	var strangers map[int]bool
	for {
		now, err := w.strangers(c)
		if err != nil {
			return false, err
		}
		for pid := range now {
			if strangers != nil && !strangers[pid] {
				delete(now, pid) // not there all the time
			}
		}
		if strangers = now; len(strangers) == 0 {
			return true, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (w *work) strangers(c *cgroups.Cgroup) (map[int]bool, error) {
	pids, err := c.Procs()
	if err != nil {
		return nil, err
	}
	found := map[int]bool{}
	for _, pid := range pids {
		ours, err := w.container.Holds(pid)
		if err != nil {
			return nil, err
		}
		if !ours {
			found[pid] = true
		}
	}
	return found, nil
}
