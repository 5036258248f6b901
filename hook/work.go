package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
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

	files   []fileStep
	cgroups cgroupStep
	hooks   hookStep

	targets []string
	missing []record.Missing
}

// fileStep is a mount or a node.
type fileStep struct {
	action  plan.Action
	pending *mounts.Pending
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

func (d *direct) prepare() (*work, error) {
	w := &work{direct: d}
	err := w.enter()
	if err == nil {
		err = w.checkCgroups()
	}
	if err == nil {
		err = w.checkHooks()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *work) close() {
	w.hooks.close()
	w.cgroups.close()
	if w.root != nil {
		_ = w.root.Close()
	}
	for _, f := range []*os.File{w.userNS, w.hostTable} {
		if f != nil {
			_ = f.Close()
		}
	}
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

// ownFiles makes new files belong to the container's root.
func (w *work) ownFiles() error {
	if !w.container.UserNamespace {
		return nil
	}
	uid, gid, err := w.container.HostIDs(0, 0)
	if err != nil {
		return nil // without a mapped root there is nobody to give them to
	}
	return nsthread.SetFSIDs(uid, gid)
}

func (w *work) openRoot(hostTable *os.File) error {
	w.hostTable = hostTable
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
	w.root.UserNamespace = w.container.UserNamespace
	w.root.Label = w.container.MountLabel()
	self := &record.Record{ID: w.container.ID, Bundle: w.container.Bundle, Root: w.container.RootPath}
	w.root.Keep = func(path string) bool { return inUse(w.entry, self, path) }
	return w.checkMounted()
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

// checkFiles looks at every mount and node before any is done.
func (w *work) checkFiles() error {
	var errs []error
	for _, a := range w.plan.Actions {
		if a.Satisfied || a.Mount == nil && a.Node == nil {
			continue
		}
		pending, err := w.check(a)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w (%s)", err, a.Origin))
			continue
		}
		w.files = append(w.files, fileStep{action: a, pending: pending})
		w.note(a, pending)
	}
	return errors.Join(errs...)
}

func (w *work) check(a plan.Action) (*mounts.Pending, error) {
	if a.Node != nil {
		n, err := w.node(a.Node)
		if err != nil {
			return nil, err
		}
		return w.root.CheckNode(n, w.nested(a.Node.Path))
	}
	options := mounts.ParseOptions(a.Mount.Options)
	if a.Mount.Bind {
		return w.root.CheckBind(mounts.Bind{
			Source: a.Mount.Source, UnsafeTarget: a.Mount.Target, Options: options, UserNS: w.idmapNamespace(),
		}, w.nested(a.Mount.Target))
	}
	return w.root.CheckFilesystem(mounts.Filesystem{
		Type: a.Mount.Type, Source: a.Mount.Source, UnsafeTarget: a.Mount.Target, Options: options,
	}, w.nested(a.Mount.Target))
}

// idmapNamespace is the user namespace for idmapped mounts, which a container without
// its own does not have.
func (w *work) idmapNamespace() *os.File {
	if !w.container.UserNamespace {
		return nil
	}
	return w.userNS
}

func (w *work) node(n *plan.Node) (mounts.Node, error) {
	uid, gid, err := w.container.HostIDs(n.UID, n.GID)
	if err != nil {
		return mounts.Node{}, fmt.Errorf("%s: %w", n.Path, err)
	}
	return mounts.Node{
		UnsafePath: n.Path, Type: n.Type[0], Major: uint32(n.Major), Minor: uint32(n.Minor),
		Mode: uint32(n.Mode), UID: uid, GID: gid, HostPath: n.HostPath,
		Adopt: w.isInConfig(n.Path),
	}, nil
}

// isInConfig tells whether config.json has a node at a path, which the runtime has made.
func (w *work) isInConfig(name string) bool {
	c := w.container.Config
	return c != nil && c.Linux != nil && slices.ContainsFunc(c.Linux.Devices, func(d specs.LinuxDevice) bool {
		return path.Clean(d.Path) == path.Clean(name)
	})
}

// nested tells whether a target lies below the target of an earlier mount of the plan,
// so that what is there now says nothing.
func (w *work) nested(target string) bool {
	target = path.Join("/", target)
	for _, f := range w.files {
		if f.action.Mount == nil {
			continue
		}
		if above := path.Join("/", f.action.Mount.Target); target == above || strings.HasPrefix(target, above+"/") {
			return true
		}
	}
	return false
}

// note keeps what the journal has to name.
func (w *work) note(a plan.Action, p *mounts.Pending) {
	target := ""
	if a.Node != nil {
		target = a.Node.Path
	} else {
		target = a.Mount.Target
	}
	w.targets = append(w.targets, path.Join("/", target))
	for i, name := range p.Missing {
		m := record.Missing{Path: name}
		if a.Node != nil && i == len(p.Missing)-1 {
			m.Type, m.Major, m.Minor = a.Node.Type, uint32(a.Node.Major), uint32(a.Node.Minor)
		}
		w.missing = append(w.missing, m)
	}
	// What the target resolved to may have another name than the one in the spec.
	if n := len(p.Missing); n > 0 {
		w.targets = append(w.targets, p.Missing[n-1])
	}
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

// applyFiles does mounts and nodes, all on the container's thread.
func (w *work) applyFiles(ctx context.Context) (undo undos, err error) {
	err = w.thread.Do(func() error {
		for _, f := range w.files {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			u, err := f.pending.Do()
			if err != nil {
				return fmt.Errorf("%w (%s)", err, f.action.Origin)
			}
			undo = append(undo, func() error { return w.thread.Do(u) })
		}
		return nil
	})
	return undo, err
}
