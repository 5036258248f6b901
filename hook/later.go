package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/hook/vendor"
)

// Later is the stages poststart and poststop: it runs the vendors' hooks of that stage
// from the record of what the container was given, so that a spec deleted meanwhile does
// no harm. A container without a record was given nothing.
//
// What a vendor's poststop hook does wrong is a warning: a container that has stopped
// cannot be stopped better.
func Later(ctx context.Context, s Settings, stage string, stdin io.Reader) (*Outcome, error) {
	state, err := oci.ReadState(stdin)
	if err != nil {
		return nil, err
	}
	out := &Outcome{ContainerID: state.ID, ContainerName: state.Annotations[containerNameKey]}
	if err := state.CheckName(); err != nil {
		return out, err
	}
	dir, err := record.OpenExisting(s.stateDir())
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer dir.Close()
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	entry, err := dir.Lock(ctx, state.ID, state.Bundle)
	if err != nil {
		return out, err
	}
	defer func() { _ = entry.Unlock() }()
	r, err := entry.Read()
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Plan = &plan.Plan{Devices: r.Devices}
	out.Plan.Actions, _ = recordedActions(r) // running them tells
	// The configuration says where to log. That it has been broken since, is no reason to
	// end the container.
	if err := s.load(); err != nil {
		out.Warnings = append(out.Warnings, err.Error())
	}
	if stage == plan.StagePoststart {
		return out, poststart(ctx, entry, r, state)
	}
	return out, poststop(ctx, entry, r, state, out)
}

// poststart runs the hooks once: an entry may be there twice, or in two directories.
func poststart(ctx context.Context, entry *record.Entry, r *record.Record, state *oci.State) error {
	if r.Started {
		return nil
	}
	r.Started = true
	return errors.Join(runRecorded(ctx, r, plan.StagePoststart, state.JSON()), entry.Write(r))
}

// poststop runs the hooks, takes away what a start that was cut short left, and then the
// journal that names it.
func poststop(ctx context.Context, entry *record.Entry, r *record.Record, state *oci.State, out *Outcome) error {
	// A restart may have come first: then the record is of the new process, whose devices
	// are in use, and the old one's hooks have been run when it was written.
	if !isGone(r) {
		out.Already = true
		return nil
	}
	if err := runRecorded(ctx, r, plan.StagePoststop, state.JSON()); err != nil {
		out.Warnings = append(out.Warnings, err.Error())
	}
	if err := sweep(entry, r); err != nil {
		out.Warnings = append(out.Warnings, err.Error())
		return nil
	}
	return entry.Remove()
}

// runRecorded runs the hooks of a stage that a record holds, each of them whatever the
// one before did, in the runtime's namespaces (runtime-spec, config.md).
func runRecorded(ctx context.Context, r *record.Record, stage string, state []byte) error {
	actions, err := recordedActions(r)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range actions {
		if a.Hook == nil || a.Hook.Stage != stage || a.Satisfied {
			continue
		}
		h := vendorHook(a.Hook)
		err := h.Check()
		if err == nil {
			err = trusted("hook", h.Path)
		}
		if err == nil {
			err = h.Run(ctx, state, vendor.Place{Dir: existingDir(r.Bundle)})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w (%s)", stage, err, a.Origin))
		}
	}
	return errors.Join(errs...)
}

func recordedActions(r *record.Record) ([]plan.Action, error) {
	var actions []plan.Action
	if err := json.Unmarshal(r.Actions, &actions); err != nil {
		return nil, fmt.Errorf("record of container %s: %w", r.ID, err)
	}
	return actions, nil
}

// existingDir is a place to run a hook in: the bundle may be gone by poststop.
func existingDir(bundle string) string {
	if st, err := os.Stat(bundle); err == nil && st.IsDir() {
		return bundle
	}
	return "/"
}

// stoppedState is the state document of a container that has ended, for poststop hooks
// that no runtime calls.
func stoppedState(r *record.Record) []byte {
	state, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2", "id": r.ID, "status": "stopped", "pid": 0, "bundle": r.Bundle,
	})
	if err != nil {
		return []byte("{}")
	}
	return state
}
