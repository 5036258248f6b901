// Package hook runs the stages: it finds the container, resolves what it asks for, plans,
// checks, writes the journal, applies, and on failure undoes. It is the only place that
// joins a plan to the mounts and cgroups packages.
//
// It prints nothing and ends no process: errors and warnings are values. A vendor's hook
// that has run is not undone, and nothing is done for a container that a runtime restores
// from a checkpoint.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/policy"
	"oci-cdi-hook/hook/record"
)

// Settings are what the user of a host decides.
type Settings struct {
	SpecDirs           []string
	AnnotationPrefixes []string
	// StateDir holds the records; empty means [DefaultStateDir], or in a rootless engine
	// the user's runtime directory.
	StateDir string
	// Deadline bounds a stage: then vendors' hooks are ended and all is undone, before
	// the engine kills this process and the undo with it.
	Deadline time.Duration
	// IgnoreEnv lists variables whose absence is not worth a warning.
	IgnoreEnv []string
	// Unsupported, TrustedSpecs, Cgroup and Systemd are words of package settings; empty
	// means the default.
	Unsupported, TrustedSpecs, Cgroup, Systemd string
	Policy                                     policy.Policy
	// ConfigFiles are the files that the configuration was read from.
	ConfigFiles []string

	// Load, where it is set, puts the host's configuration in. It is called when a
	// container may ask for something, so that others cost no file.
	Load func(*Settings) error
}

// Defaults are the settings of a host that sets nothing.
func Defaults() Settings {
	return Settings{
		SpecDirs:           []string{"/etc/cdi", "/var/run/cdi"},
		AnnotationPrefixes: []string{device.DefaultPrefix},
		Deadline:           100 * time.Second,
		IgnoreEnv:          []string{"NVIDIA_VISIBLE_DEVICES=void"},
	}
}

// DefaultStateDir is where records are kept.
const DefaultStateDir = "/run/oci-cdi-hook"

// stateDir is the directory to use. A rootless engine runs hooks in a user namespace whose
// root is the user: /run is not theirs, their runtime directory (pam_systemd(8)) is. It is
// found by the user's id, as the environment is not to be trusted.
func (s Settings) stateDir() string {
	if s.StateDir != "" {
		return s.StateDir
	}
	if uid, ok := oci.OuterUID(); ok {
		return fmt.Sprintf("/run/user/%d/oci-cdi-hook", uid)
	}
	return DefaultStateDir
}

// Outcome is what a stage has done.
type Outcome struct {
	ContainerID   string
	ContainerName string     // where the engine tells it
	Pid           int        // of a container that runs
	Asked         []string   // qualified names, given or not
	Specs         []string   // files that they come from, beside those of the plan
	Plan          *plan.Plan // nil where nothing was asked
	// Already says that an earlier run had done everything.
	Already bool
	// LeftAlone says why a container that asks is none of this program's business.
	LeftAlone string
	Warnings  []string
}

// Direct is the stage createRuntime, and prestart: it gives the container whose state is
// on stdin the devices that its annotations ask for.
func Direct(ctx context.Context, s Settings, stdin io.Reader) (*Outcome, error) {
	state, err := oci.ReadState(stdin)
	if err != nil {
		return nil, err
	}
	out := &Outcome{ContainerID: state.ID, ContainerName: state.Annotations[containerNameKey]}
	if asked, err := s.configure(state.Annotations); err != nil || !asked {
		return out, err
	}
	if sign, ok := oci.VirtualMachine(state); ok {
		out.LeftAlone = sign + ": it runs in a virtual machine, whose runtime reads the annotations itself"
		return out, nil
	}
	names, err := s.requested(state.Annotations)
	out.Asked = names
	if err != nil || len(names) == 0 {
		return out, err
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	c, err := oci.Find(state)
	if err != nil {
		return out, err
	}
	defer c.Close()
	if out.Plan, err = planFor(s, c, names); err != nil {
		return out, err
	}
	out.Warnings = warnings(out.Plan)
	if err := s.vetPlan(out.Plan); err != nil {
		return out, err
	}
	d := direct{settings: s, container: c, plan: out.Plan}
	out.Already, err = d.run(ctx)
	out.Warnings = append(out.Warnings, d.warnings...)
	return out, err
}

// deadline bounds a stage.
func (s Settings) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Deadline <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, s.Deadline, fmt.Errorf("deadline of %v passed", s.Deadline))
}

// planFor resolves names and plans them for a container.
func planFor(s Settings, c *oci.Container, names []string) (*plan.Plan, error) {
	return PlanNames(s, names, PlanContainer{
		Config: c.Config, UserNamespace: c.UserNamespace, CanEnterUserNamespace: c.UserNamespace && haveNsenter(),
	})
}

func warnings(p *plan.Plan) []string {
	all := p.Warnings
	for _, u := range p.Unsupported {
		if !u.Quiet {
			all = append(all, "left out: "+u.String())
		}
	}
	return all
}

// direct is one run of direct mode for one container.
type direct struct {
	settings  Settings
	container *oci.Container
	plan      *plan.Plan
	entry     *record.Entry
	// old is the record of what the same process has been given before.
	old      *record.Record
	warnings []string
	// running says that the container has started.
	running bool
}

func (d *direct) run(ctx context.Context) (already bool, err error) {
	dir, err := record.OpenDir(d.settings.stateDir())
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if err := trusted("state directory", d.settings.stateDir()); err != nil {
		return false, err
	}
	if d.entry, err = dir.Lock(ctx, d.container.ID, d.container.Bundle); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.entry.Unlock()) }()
	if already, err = d.settlePast(); already || err != nil {
		return already, err
	}
	return false, d.give(ctx)
}

// give prepares, journals and does everything, and on failure takes it back.
func (d *direct) give(ctx context.Context) error {
	work, err := d.prepare(ctx)
	if err != nil {
		return err
	}
	defer work.close()
	if err := d.journal(work, false); err != nil {
		return err
	}
	undo, err := work.apply(ctx)
	if err == nil {
		err = d.journal(work, true)
	}
	if err == nil && d.running && !d.container.Process.Alive() {
		err = fmt.Errorf("container %s: %w meanwhile", d.container.ID, oci.ErrEnded)
	}
	if err != nil {
		err = errors.Join(err, work.runPoststop())
		if left := undo.run(); left != nil {
			// The journal stays: what is left is swept when the container is gone.
			return errors.Join(err, left)
		}
		return errors.Join(err, d.forget())
	}
	return nil
}

// forget makes the record what it was before.
func (d *direct) forget() error {
	if d.running && d.old != nil {
		return d.entry.Write(d.old)
	}
	return d.entry.Remove()
}
