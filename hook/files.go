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
	action  plan.Action
	pending *mounts.Pending
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
