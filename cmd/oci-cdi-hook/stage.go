package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"oci-cdi-hook/hook"
)

// stages are the OCI hook stages that this program serves. The old prestart runs at the
// same moment as createRuntime.
var stages = []string{"createRuntime", "prestart", "poststart", "poststop"}

func stageShort(name string) string {
	switch {
	case isLater(name):
		return "OCI hook stage: run the vendors' " + name + " hooks; the container's state is on stdin"
	case name == "prestart":
		return "OCI hook stage: createRuntime by its older name"
	}
	return "OCI hook stage: give the container its devices; its state is on stdin"
}

func isStage(verb string) bool { return slices.Contains(stages, verb) }

// isLater tells of stages after those that give devices.
func isLater(stage string) bool { return stage == "poststart" || stage == "poststop" }

// stageRun is a stage with its flags. A stage is part of a container's start, and mostly
// has nothing to do: it is run without the machinery of commands.
type stageRun struct {
	commonFlags
	name     string
	deadline time.Duration
}

func newStageRun(name string, f *pflag.FlagSet) *stageRun {
	r := &stageRun{name: name}
	r.add(f)
	f.DurationVar(&r.deadline, "deadline", hook.Defaults().Deadline,
		"`TIME` after which all is undone; keep it below the timeout in hooks.d; 0 for none")
	return r
}

// runStage parses the arguments behind a stage's name and runs it.
func runStage(name string, args []string, s streams) error {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(s.err)
	f.Usage = func() {}
	r := newStageRun(name, f)
	err := f.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return helpAbout(name, s)
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		return usageError{err}
	}
	return r.run(context.Background(), s)
}

func (r *stageRun) run(ctx context.Context, s streams) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.deadline < 0 {
		return usageError{fmt.Errorf("--deadline %v is negative", r.deadline)}
	}
	r.settings.Deadline = r.deadline
	began := time.Now()
	out, err := r.serve(ctx, s)
	(&report{s: s, flags: &r.commonFlags, stage: r.name, began: began}).tell(out, err)
	return err
}

func (r *stageRun) serve(ctx context.Context, s streams) (*hook.Outcome, error) {
	if isLater(r.name) {
		return hook.Later(ctx, r.settings, r.name, s.in)
	}
	return hook.Direct(ctx, r.settings, s.in)
}

// stageCommand shows a stage among the commands.
func stageCommand(name string, s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:                name,
		Short:              stageShort(name),
		Example:            `  "args": ["oci-cdi-hook", "` + name + `", "--deadline", "100s"]     in hooks.d`,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return runStage(name, args, s) },
	}
	cmd.SetOut(s.out)
	newStageRun(name, cmd.Flags())
	return cmd
}
