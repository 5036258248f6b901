package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
)

// errSaid is an error of which nothing more is to be said.
var errSaid = errors.New("")

func verifyCommand(s streams) *cobra.Command {
	var flags commonFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [ID]",
		Short: "Compare running containers with what they were given",
		Long: `Compare running containers with what they were given: is each node, mount and device
rule still there, and are a node's numbers and a mount's source still the host's.

ID is a container's id, the beginning of one, or its name where the engine tells that. The
exit code is 4 where anything differs, and 1 where nothing does but not all could be seen.`,
		Example: "  oci-cdi-hook verify\n  oci-cdi-hook verify 4f5f --json",
		Args:    wantArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			id, err := idOf(args)
			if err != nil {
				return err
			}
			v, err := hook.Verify(context.Background(), flags.settings, id)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(s.out, v)
			} else {
				printVerification(s, v)
			}
			return errors.Join(err, v.Err())
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printVerification(s streams, v *hook.Verification) {
	for _, c := range v.Containers {
		id := shortID(c.ID)
		for _, f := range c.Faults {
			fmt.Fprintf(s.out, "%s: %s\n", id, plain(f.String()))
		}
		for _, why := range c.Unchecked {
			fmt.Fprintf(s.err, "%s: not compared: %s\n", id, plain(why))
		}
		switch c.State {
		case hook.StateGone, hook.StateStarting, hook.StateUnderWay:
			fmt.Fprintf(s.err, "%s: %s\n", id, c.State)
		}
	}
	for _, b := range v.Errors {
		fmt.Fprintf(s.err, "%s: not compared: %s\n", shortID(b.ID), plain(b.Error))
	}
}
