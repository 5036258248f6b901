package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/mounts"
)

// fileStep is a mount or a node.
type fileStep struct {
	index   int // in the plan
	action  plan.Action
	pending *mounts.Pending
}

// checkFiles looks at every mount and node before any is done.
func (w *work) checkFiles() error {
	var errs []error
	for i, a := range w.plan.Actions {
		w.lookAtHost(i, a)
		if a.Satisfied || a.Mount == nil && a.Node == nil {
			continue
		}
		pending, err := w.check(a)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w (%s)", err, a.Origin))
			continue
		}
		if a.Mount != nil && !a.Mount.Bind && w.isStillMounted(a) {
			pending.There, pending.Done = true, true
		}
		w.plan.Actions[i].Found = pending.There
		w.files = append(w.files, fileStep{index: i, action: a, pending: pending})
		w.note(a, pending)
	}
	return errors.Join(errs...)
}

func (w *work) lookAtHost(index int, a plan.Action) {
	if a.Node == nil {
		return
	}
	if _, err := mounts.HostAt(a.Node.HostPath, false); isNothing(err) {
		w.hostless = append(w.hostless, index)
	}
}

// isStillMounted tells of a filesystem, which looks like any other of its type, whether it
// is the one that the same process was given before.
func (w *work) isStillMounted(a plan.Action) bool {
	if w.old == nil {
		return false
	}
	before, err := recordedActions(w.old)
	if err != nil {
		return false
	}
	given, known := givenMount(w.old, indexOf(before, &a), a.Mount)
	if !known {
		return false
	}
	now, err := w.root.At(a.Mount.Target)
	return err == nil && now.MountRoot && now.SameFile(given)
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
	for _, name := range p.Elsewhere {
		w.missing = append(w.missing, record.Missing{Path: name, Elsewhere: true})
	}
	// What the target resolved to may have another name than the one in the spec.
	if n := len(p.Missing); n > 0 {
		w.targets = append(w.targets, p.Missing[n-1])
	}
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
			w.identify(f)
		}
		return nil
	})
	return undo, err
}

// identify keeps what has been mounted, for who looks later. Not to know it is no harm:
// then the source is what counts.
func (w *work) identify(f fileStep) {
	if f.action.Mount == nil {
		return
	}
	if at, err := w.root.At(f.action.Mount.Target); err == nil {
		w.mounted = append(w.mounted, record.Mounted{Action: f.index, Dev: at.Dev, Ino: at.Ino})
	}
}
