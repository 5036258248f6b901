package main

import (
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
)

// filterStage is podman's own stage before create.
const filterStage = "precreate"

func precreateCommand(s streams) *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:   filterStage,
		Short: "OCI hook stage of podman: the config is on stdin, and goes to stdout with the devices in it",
		Example: `  "args": ["oci-cdi-hook", "precreate"], "stages": ["precreate"]     in a hooks.d directory of its own
  oci-cdi-hook precreate < config.json > edited.json`,
		Args: wantArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			// podman keeps stderr to itself: the log file has the only word of an error.
			began := time.Now()
			out, err := precreate(s, flags.settings)
			(&report{s: s, flags: &flags, stage: filterStage, began: began}).tell(out, err)
			return err
		},
	}
	flags.add(cmd.Flags())
	return cmd
}

// precreate writes at the end and at once: half a config must not be taken for
// a whole one.
func precreate(s streams, settings hook.Settings) (*hook.Outcome, error) {
	output, out, err := hook.Filter(settings, s.in)
	if err != nil {
		return out, err
	}
	// An engine that has closed the pipe should get an exit code, not a signal.
	signal.Ignore(syscall.SIGPIPE)
	if _, err := s.out.Write(output); err != nil {
		return out, fmt.Errorf("config of %d bytes: %w", len(output), err)
	}
	return out, nil
}
