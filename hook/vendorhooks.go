package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/vendor"
)

// hookStep is what the vendors' hooks need, opened before the first change.
type hookStep struct {
	outer, inner supervised
	ran          bool // at least one was started
}

// supervised are the hooks of one place with the actions that they come from.
type supervised struct {
	vendor.Supervised
	actions []plan.Action
}

func (s *supervised) add(a plan.Action) {
	s.actions = append(s.actions, a)
	s.Hooks = append(s.Hooks, vendorHook(a.Hook))
}

func (h *hookStep) close() {
	for _, n := range h.inner.Namespaces {
		_ = n.File.Close()
	}
}

// innerNamespaces are those that a createContainer hook runs in (runtime-spec,
// config.md: "the container namespace"), besides the user namespace. That of cgroups is
// there since kernel 4.6.
var innerNamespaces = []struct {
	kind, option string
	flag         int
}{
	{"ipc", "ipc", unix.CLONE_NEWIPC},
	{"uts", "uts", unix.CLONE_NEWUTS},
	{"net", "net", unix.CLONE_NEWNET},
	{"cgroup", "cgroup", unix.CLONE_NEWCGROUP},
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
			h.inner.add(a)
		} else {
			h.outer.add(a)
		}
	}
	h.outer.Dir, h.outer.State = w.container.Bundle, w.container.JSON()
	if len(h.inner.Hooks) == 0 {
		return nil
	}
	return w.openInside()
}

// openInside opens the container's namespaces and cgroups.
func (w *work) openInside() error {
	in := &w.hooks.inner
	in.Dir, in.Nsenter = w.container.Bundle, nsenterPaths
	for _, n := range innerNamespaces {
		// What the container shares with us stays as it is: a rootless user may not join
		// the host's namespaces again (setns(2), EPERM).
		if shared, err := w.container.Process.SharesNamespace(n.kind); err == nil && shared {
			continue
		}
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
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kind that this kernel lacks
	}
	if err == nil {
		in := &w.hooks.inner
		in.Namespaces = append(in.Namespaces, vendor.Namespace{Option: option, Type: flag, File: f})
	}
	return err
}

func vendorHook(h *plan.Hook) vendor.Hook {
	return vendor.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: h.Timeout}
}

// runHooks runs the vendors' hooks in order: those of the runtime's namespaces first,
// then those inside the container's.
func (w *work) runHooks(ctx context.Context) error {
	for _, s := range []*supervised{&w.hooks.outer, &w.hooks.inner} {
		if len(s.Hooks) == 0 {
			continue
		}
		w.hooks.ran = true
		err := s.Run(ctx)
		var failed *vendor.FailedError
		if errors.As(err, &failed) && failed.Index < len(s.actions) {
			return fmt.Errorf("%w (%s)", err, s.actions[failed.Index].Origin)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
