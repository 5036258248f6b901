package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"oci-cdi-hook/hook"
)

// stages are the OCI hook stages that this program serves. The old prestart runs at the
// same moment as createRuntime.
var stages = []string{"createRuntime", "prestart", "poststart", "poststop"}

func isStage(verb string) bool { return slices.Contains(stages, verb) }

// commonFlags are those of all verbs.
type commonFlags struct {
	settings hook.Settings
	logFile  string
	logLevel string
}

func (c *commonFlags) add(f *pflag.FlagSet) {
	c.settings = hook.Defaults()
	f.StringArrayVar(&c.settings.SpecDirs, "spec-dir", c.settings.SpecDirs,
		"directory of CDI specs; may be repeated, later ones win; replaces the default")
	f.StringVar(&c.settings.StateDir, "state-dir", c.settings.StateDir,
		"directory of the records of what was done to containers")
	f.StringVar(&c.logFile, "log-file", "", "file that warnings and errors are appended to as well")
	f.StringVar(&c.logLevel, "log-level", "warning", "error or warning: what is told besides failing")
}

func (c *commonFlags) check() error {
	if !slices.Contains([]string{"error", "warning"}, c.logLevel) {
		return usageError{fmt.Errorf("--log-level %q is neither error nor warning", c.logLevel)}
	}
	return nil
}

func stageCommand(name string, s streams) *cobra.Command {
	var flags commonFlags
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:     name,
		Short:   "OCI hook stage: the container's state is on stdin",
		Example: `  in hooks.d: "args": ["oci-cdi-hook", "` + name + `", "--deadline", "100s"]`,
		Args:    wantArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			flags.settings.Deadline = deadline
			out, err := serve(cmd.Context(), name, flags.settings, s)
			if out != nil {
				err = tell(s, flags, out, err)
			}
			return err
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().DurationVar(&deadline, "deadline", hook.Defaults().Deadline,
		"time after which all is undone; keep it below the timeout in hooks.d; 0 for none")
	return cmd
}

func serve(ctx context.Context, stage string, settings hook.Settings, s streams) (*hook.Outcome, error) {
	if stage == "poststart" || stage == "poststop" {
		return hook.Later(ctx, settings, stage, s.in)
	}
	return hook.Direct(ctx, settings, s.in)
}

// tell reports what the engine's user should know, and gives err its container.
func tell(s streams, flags commonFlags, out *hook.Outcome, err error) error {
	var lines []string
	if flags.logLevel == "warning" {
		for _, w := range out.Warnings {
			lines = append(lines, "oci-cdi-hook: warning: "+w)
		}
	}
	for _, line := range lines {
		fmt.Fprintln(s.err, line)
	}
	if err != nil {
		lines = append(lines, "oci-cdi-hook: "+err.Error())
	}
	if flags.logFile == "" || len(lines) == 0 {
		return err
	}
	if lerr := appendLog(flags.logFile, out.ContainerID, lines); lerr != nil {
		fmt.Fprintln(s.err, "oci-cdi-hook: warning: log:", lerr)
	}
	return err
}

func appendLog(name, id string, lines []string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(f, "%s container %q: %s\n", time.Now().Format(time.RFC3339), id, line); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}
