package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/log"
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
	level    log.Level
}

func (c *commonFlags) add(f *pflag.FlagSet) {
	c.settings = hook.Defaults()
	f.StringArrayVar(&c.settings.SpecDirs, "spec-dir", c.settings.SpecDirs,
		"directory of CDI specs; may be repeated, later ones win; replaces the default")
	f.StringVar(&c.settings.StateDir, "state-dir", c.settings.StateDir,
		"directory of the records of what was done to containers (default "+hook.DefaultStateDir+", rootless the user's runtime directory)")
	f.StringVar(&c.logFile, "log-file", log.Auto, "file to log to; auto is the journal, else syslog")
	f.StringVar(&c.logLevel, "log-level", log.Info.String(), "what is logged: error, warning, info or debug")
}

func (c *commonFlags) check() (err error) {
	if c.level, err = log.ParseLevel(c.logLevel); err != nil {
		return usageError{err}
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
			began := time.Now()
			out, err := serve(cmd.Context(), name, flags.settings, s)
			report{s, flags, name, began}.tell(out, err)
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
