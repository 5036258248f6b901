package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/mounts"
	"oci-cdi-hook/mounts/nsthread"
)

// work is a plan that was checked against its container: everything that can be opened
// or found wrong before the first change has been.
type work struct {
	*direct
	thread *nsthread.Thread
	root   *mounts.Root
	// rootBorn is the root's identity in time.
	rootBorn string
	userNS   *os.File
	// hostTable is the mounts of the host's side, opened before the thread left it.
	hostTable *os.File
	// foreign is held of the namespace of a container that runs.
	foreign nsthread.Foreign

	files   []fileStep
	cgroups cgroupStep
	scope   scopeStep
	hooks   hookStep

	targets []string
	missing []record.Missing
	mounted []record.Mounted
	// hostless are nodes of the plan that a spec spells out and the host does not have.
	hostless []int
}

// undos takes steps back, the newest first.
type undos []func() error

func (u undos) run() error {
	var errs []error
	for i := len(u) - 1; i >= 0; i-- {
		errs = append(errs, u[i]())
	}
	return errors.Join(errs...)
}

// ErrRestored says that there is no container file system to work on yet.
var ErrRestored = errors.New("nothing of config.json is mounted: a restore from a checkpoint is not supported")

// ErrHostRoot says that what the config calls the root is a mount of the host's as it is.
var ErrHostRoot = errors.New("no runtime has mounted it for the container: it is a mount of the host")

// ErrStarted says that the container's process has changed its root already.
var ErrStarted = errors.New("the container has started: its root is its own already")

func (d *direct) prepare(ctx context.Context) (*work, error) {
	w := &work{direct: d}
	err := w.enter()
	if err == nil {
		err = w.checkCgroups()
	}
	if err == nil {
		err = w.checkHooks()
	}
	if err == nil {
		w.checkScope(ctx)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *work) close() {
	w.hooks.close()
	w.scope.close()
	w.cgroups.close()
	if w.root != nil {
		_ = w.root.Close()
	}
	for _, f := range []*os.File{w.userNS, w.hostTable} {
		if f != nil {
			_ = f.Close()
		}
	}
	w.foreign.Close()
	if w.thread != nil {
		w.thread.Close()
	}
}

// enter joins the container's mount namespace, finds its root there, and looks at every
// mount and node of the plan.
func (w *work) enter() error {
	c := w.container
	ns, err := c.Process.Namespace("mnt")
	if err != nil {
		return err
	}
	defer ns.Close()
	hostTable, err := oci.OpenMountinfo()
	if err != nil {
		return err
	}
	if w.userNS, err = c.Process.Namespace("user"); err != nil {
		return errors.Join(err, hostTable.Close())
	}
	join := nsthread.Join(nsthread.Namespace{File: ns, Type: unix.CLONE_NEWNS})
	if w.running {
		join = nsthread.JoinForeign(ns, &w.foreign)
	}
	w.thread, err = nsthread.Start(func() error {
		err := join()
		if err == nil {
			err = w.ownFiles()
		}
		if err == nil {
			err = w.openRoot(hostTable)
		}
		if err == nil {
			err = w.checkFiles()
		}
		return err
	})
	return err
}

// ownFiles makes new files belong to the container's root, or whom it has instead.
func (w *work) ownFiles() error {
	if !w.container.UserNamespace {
		return nil
	}
	return nsthread.SetFSIDs(w.container.FileOwner())
}

func (w *work) openRoot(hostTable *os.File) error {
	w.hostTable = hostTable
	if w.running {
		return w.openRunningRoot()
	}
	dir, pivoted, err := w.container.OpenRoot()
	if err != nil {
		return err
	}
	if pivoted {
		return errors.Join(ErrStarted, dir.Close())
	}
	if w.rootBorn, err = oci.Born(dir); err != nil {
		return errors.Join(err, dir.Close())
	}
	w.root, err = mounts.NewRoot(dir, func() ([]byte, error) { return io.ReadAll(hostTable) })
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	w.describeRoot()
	return w.checkMounted()
}

// describeRoot tells the root what is known of the container.
func (w *work) describeRoot() {
	if w.root.UserNamespace = w.container.UserNamespace; w.root.UserNamespace {
		w.root.Mapped = w.container.Mapped
	}
	w.root.ReadOnly = w.readOnlyBinds()
	w.root.Label = w.container.MountLabel()
	self := &record.Record{ID: w.container.ID, Bundle: w.container.Bundle, Root: w.container.RootPath}
	w.root.Keep = func(path string) bool { return inUse(w.entry, self, path) }
}

// readOnlyBinds lists what config.json gives the container of the host to read only.
func (w *work) readOnlyBinds() []mounts.ReadOnly {
	if w.container.Config == nil {
		return nil
	}
	var all []mounts.ReadOnly
	for _, m := range w.container.Config.Mounts {
		if o := mounts.ParseOptions(m.Options); o.Bind && o.ReadOnly() {
			all = append(all, mounts.ReadOnly{UnsafePath: m.Destination, Recursive: o.ReadOnlyBelow()})
		}
	}
	return all
}

// checkMounted refuses a restore from a checkpoint: there the hook runs before the mounts
// exist, and what it does would be lost or end on the host.
func (w *work) checkMounted() error {
	mounted, err := w.root.IsMountPoint("/")
	if err != nil {
		return err
	}
	if !mounted {
		return fmt.Errorf("%s is not a mount point: %w", w.container.RootPath, ErrRestored)
	}
	if own, err := w.root.HasOwnMount(); err != nil || !own {
		return errors.Join(err, fmt.Errorf("%s: %w", w.container.RootPath, ErrHostRoot))
	}
	if w.container.Config == nil || len(w.container.Config.Mounts) == 0 {
		return nil
	}
	for _, m := range w.container.Config.Mounts {
		// A mount that another one covers cannot be found; one that is found is enough.
		if mounted, err := w.root.IsMountPoint(m.Destination); err == nil && mounted {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", w.container.RootPath, ErrRestored)
}

// apply does everything in order. What it returns takes back what was done, whether it
// failed or not.
func (w *work) apply(ctx context.Context) (undos, error) {
	undo, err := w.applyFiles(ctx)
	if err != nil {
		return undo, err
	}
	u, err := w.applyCgroups()
	if err != nil {
		return undo, err
	}
	undo = append(undo, u)
	return undo, w.runHooks(ctx)
}
