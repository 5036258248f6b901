package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/vendor"
	"oci-cdi-hook/mounts/nsthread"
)

// hookStep is what the vendors' hooks need, opened before the first change.
type hookStep struct {
	hooks      []plan.Action
	namespaces map[string]*os.File // of the container, by nsenter's names
	into       *vendor.Nsenter
	inner      []byte // the state as a hook inside the container's namespaces gets it
	ran        bool   // at least one was started
}

func (h *hookStep) close() {
	for _, f := range h.namespaces {
		_ = f.Close()
	}
	if h.into != nil {
		_ = h.into.Close()
	}
}

// innerNamespaces are those that a createContainer hook runs in (runtime-spec,
// config.md); the user namespace comes first where there is one, by nsenter alone.
var innerNamespaces = []struct {
	kind, option string
	flag         int
}{
	{"ipc", "ipc", unix.CLONE_NEWIPC},
	{"uts", "uts", unix.CLONE_NEWUTS},
	{"net", "net", unix.CLONE_NEWNET},
	{"pid", "pid", unix.CLONE_NEWPID},
	{"mnt", "mount", unix.CLONE_NEWNS},
}

// checkHooks finds out what can be wrong with the vendors' hooks.
func (w *work) checkHooks() error {
	inside := false
	for _, a := range w.plan.Actions {
		if a.Hook == nil || a.Satisfied || plan.IsLater(a.Hook.Stage) {
			continue
		}
		if err := vendorHook(a.Hook).Check(); err != nil {
			return fmt.Errorf("%w (%s)", err, a.Origin)
		}
		w.hooks.hooks = append(w.hooks.hooks, a)
		inside = inside || a.Hook.Stage == plan.StageCreateContainer
	}
	if !inside {
		return nil
	}
	return w.openInside()
}

func (w *work) openInside() error {
	w.hooks.namespaces = map[string]*os.File{}
	for _, n := range innerNamespaces {
		f, err := w.container.Process.Namespace(n.kind)
		if err != nil {
			return err
		}
		w.hooks.namespaces[n.option] = f
	}
	var err error
	if w.hooks.inner, err = w.container.InnerJSON(); err != nil {
		return err
	}
	if w.cgroups.hooksIn, err = w.container.HookCgroup(); err != nil {
		return err
	}
	if !w.container.UserNamespace {
		return nil
	}
	user, err := w.container.Process.Namespace("user")
	if err != nil {
		return err
	}
	w.hooks.namespaces["user"] = user
	w.hooks.into, err = vendor.NewNsenter(nsenterPaths, w.hooks.namespaces)
	return err
}

func vendorHook(h *plan.Hook) vendor.Hook {
	return vendor.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: h.Timeout}
}

// runHooks runs the vendors' hooks in order: those of the runtime's namespaces first,
// then those inside the container's.
func (w *work) runHooks(ctx context.Context) error {
	for _, a := range w.hooks.hooks {
		var err error
		w.hooks.ran = true
		if a.Hook.Stage == plan.StageCreateContainer {
			err = w.runInside(ctx, a.Hook)
		} else {
			err = vendorHook(a.Hook).Run(ctx, w.container.JSON(), vendor.Place{Dir: w.container.Bundle})
		}
		if err != nil {
			return fmt.Errorf("%w (%s)", err, a.Origin)
		}
	}
	return nil
}

func (w *work) runInside(ctx context.Context, h *plan.Hook) error {
	at := vendor.Place{Dir: w.container.Bundle, Cgroup: w.cgroups.hooksIn.V2, Into: w.hooks.into}
	var join []nsthread.Namespace
	if at.Into == nil {
		shared, err := w.container.Process.SharesNamespace("pid")
		if err != nil {
			return err
		}
		at.OtherPids = !shared
		for _, n := range innerNamespaces {
			join = append(join, nsthread.Namespace{File: w.hooks.namespaces[n.option], Type: n.flag})
		}
	}
	enter := nsthread.Join(join...)
	thread, err := nsthread.Start(func() error { return errors.Join(w.cgroups.hooksIn.JoinV1(), enter()) })
	if err != nil {
		return err
	}
	defer thread.Close()
	at.Thread = thread
	return vendorHook(h).Run(ctx, w.hooks.inner, at)
}

// poststopGrace is what vendors' poststop hooks get after a failure: the deadline may have
// passed, and the engine's own timeout is near.
const poststopGrace = 10 * time.Second

// runPoststop runs the vendors' poststop hooks after a failure, when others of theirs have
// run: not every runtime calls poststop for a container that was never created.
func (w *work) runPoststop() error {
	if !w.hooks.ran {
		return nil
	}
	r, err := w.record(false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), poststopGrace)
	defer cancel()
	return runRecorded(ctx, r, plan.StagePoststop, w.container.JSON())
}
