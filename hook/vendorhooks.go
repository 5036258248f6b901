package hook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/vendor"
)

// hookStep is what the vendors' hooks need, opened before the first change.
type hookStep struct {
	outside []plan.Action
	within  []plan.Action
	inside  vendor.Inside
	ran     bool // at least one was started
}

func (h *hookStep) close() {
	for _, n := range h.inside.Namespaces {
		_ = n.File.Close()
	}
}

// innerNamespaces are those that a createContainer hook runs in (runtime-spec,
// config.md), besides the user namespace.
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
	h := &w.hooks
	for _, a := range w.plan.Actions {
		if a.Hook == nil || a.Satisfied || plan.IsLater(a.Hook.Stage) {
			continue
		}
		err := vendorHook(a.Hook).Check()
		if err == nil {
			err = trusted("hook", a.Hook.Path)
		}
		if err != nil {
			return fmt.Errorf("%w (%s)", err, a.Origin)
		}
		if a.Hook.Stage == plan.StageCreateContainer {
			h.within = append(h.within, a)
			h.inside.Hooks = append(h.inside.Hooks, vendorHook(a.Hook))
		} else {
			h.outside = append(h.outside, a)
		}
	}
	if len(h.within) == 0 {
		return nil
	}
	return w.openInside()
}

// openInside opens the container's namespaces and cgroups.
func (w *work) openInside() error {
	in := &w.hooks.inside
	in.Dir, in.Nsenter = w.container.Bundle, nsenterPaths
	for _, n := range innerNamespaces {
		if err := w.openNamespace(n.kind, n.option, n.flag); err != nil {
			return err
		}
	}
	if w.container.UserNamespace {
		if err := w.openNamespace("user", "user", unix.CLONE_NEWUSER); err != nil {
			return err
		}
	}
	shared, err := w.container.Process.SharesNamespace("pid")
	if err != nil {
		return err
	}
	in.OtherPids = !shared
	if in.State, err = w.container.InnerJSON(); err != nil {
		return err
	}
	w.cgroups.hooksIn, err = w.container.HookCgroup()
	in.CgroupV2, in.CgroupsV1 = w.cgroups.hooksIn.V2, w.cgroups.hooksIn.V1
	return err
}

func (w *work) openNamespace(kind, option string, flag int) error {
	f, err := w.container.Process.Namespace(kind)
	if err == nil {
		w.hooks.inside.Namespaces = append(w.hooks.inside.Namespaces, vendor.InsideNamespace{Option: option, Type: flag, File: f})
	}
	return err
}

func vendorHook(h *plan.Hook) vendor.Hook {
	return vendor.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: h.Timeout}
}

// runHooks runs the vendors' hooks in order: those of the runtime's namespaces first,
// then those inside the container's.
func (w *work) runHooks(ctx context.Context) error {
	for _, a := range w.hooks.outside {
		w.hooks.ran = true
		if err := vendorHook(a.Hook).Run(ctx, w.container.JSON(), vendor.Place{Dir: w.container.Bundle}); err != nil {
			return fmt.Errorf("%w (%s)", err, a.Origin)
		}
	}
	if len(w.hooks.within) == 0 {
		return nil
	}
	w.hooks.ran = true
	err := w.hooks.inside.Run(ctx)
	var failed *vendor.FailedError
	if errors.As(err, &failed) && failed.Index < len(w.hooks.within) {
		return fmt.Errorf("%w (%s)", err, w.hooks.within[failed.Index].Origin)
	}
	return err
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
