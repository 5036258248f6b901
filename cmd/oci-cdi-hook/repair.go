package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/plan"
)

func repairCommand(s streams) *cobra.Command {
	var flags commonFlags
	var all, asJSON bool
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:   "repair (ID | --all)",
		Short: "Put back what running containers were given and have no more",
		Long: `Put back what running containers were given and have no more: nodes, mounts and device rules
that somebody took away, rules that an engine's or systemd's update wrote anew, numbers of a
driver that was loaded again, files of the host that were replaced. No vendor's hook is run.

Something else that stands in the place is left and said. Nothing changes where nothing
differs, so it may be called at any time, and by a timer. A [[deny]] holds.

ID is a container's id, the beginning of one, or its name where the engine tells that. The
exit code is 4 where something still differs, and 1 where not all could be seen.`,
		Example: "  oci-cdi-hook repair mycontainer\n  oci-cdi-hook repair --all --json",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			id, err := repairTarget(args, all)
			if err == nil && deadline < 0 {
				err = usageError{fmt.Errorf("--deadline %v is negative", deadline)}
			}
			if err != nil {
				return err
			}
			flags.settings.Deadline = deadline
			began := time.Now()
			r, err := hook.Repair(context.Background(), flags.settings, id)
			if err != nil {
				return err
			}
			logRepairs(&flags, began, r)
			if asJSON {
				err = printJSON(s.out, r)
			} else {
				printRepairs(s, r)
			}
			return errors.Join(err, r.Err())
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "all containers")
	cmd.Flags().DurationVar(&deadline, "deadline", hook.Defaults().Deadline, "`TIME` for each container; 0 for no end")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func repairTarget(args []string, all bool) (string, error) {
	switch {
	case all && len(args) > 0:
		return "", usageError{errors.New("an ID and --all are one too many")}
	case all:
		return "", nil
	case len(args) == 0:
		return "", usageError{errors.New("an ID or --all is missing")}
	case len(args) > 1:
		return "", usageError{fmt.Errorf("argument %q is one too many", args[1])}
	}
	return idOf(args)
}

func printRepairs(s streams, r *hook.Repairs) {
	v := hook.Verification{Errors: r.Errors}
	for _, c := range r.Containers {
		id := shortID(c.ID)
		for _, f := range c.Mended {
			fmt.Fprintf(s.out, "%s: mended: %s\n", id, plain(f.String()))
		}
		for _, w := range c.Warnings {
			fmt.Fprintf(s.err, "%s: warning: %s\n", id, plain(w))
		}
		for _, why := range c.Failed {
			fmt.Fprintf(s.err, "%s: not mended: %s\n", id, plain(oneLine(errors.New(why))))
		}
		if len(c.Failed) > 0 {
			c.Faults = nil // said already
		}
		v.Containers = append(v.Containers, c.Verified)
	}
	printVerification(s, &v)
}

// logRepairs says in the log what a timer's run has changed, and what it could not.
func logRepairs(flags *commonFlags, began time.Time, r *hook.Repairs) {
	log := &report{s: streams{out: io.Discard, err: io.Discard}, flags: flags, stage: "repair", began: began}
	for _, c := range r.Containers {
		out := &hook.Outcome{ContainerID: c.ID, ContainerName: c.Name, Pid: c.Pid, Asked: c.Devices, Warnings: c.Warnings}
		if len(c.Failed) > 0 {
			log.tell(out, errors.New(strings.Join(c.Failed, "; ")))
			out.Warnings = nil
		}
		if len(c.Mended) > 0 {
			out.Plan = &plan.Plan{Devices: c.Devices}
			log.tell(out, nil)
		}
	}
}
