package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/doctor"
)

func doctorCommand(s streams) *cobra.Command {
	var flags commonFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell whether this host can run the hook",
		Long: `Tell whether this host can run the hook: the kernel, the cgroup layout, the engines and
where they look for hooks, the hook's own entries there, specs, policy and log. Each line
is ok, a warning or a fault, with what to do.

Exit code 1 if there is a fault.`,
		Example: "  oci-cdi-hook doctor\n  oci-cdi-hook doctor --json",
		Args:    wantArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			x := hook.Doctor(cmd.Context(), flags.settings, thisHost())
			if asJSON {
				if err := printJSON(s.out, x); err != nil {
					return err
				}
			} else {
				printExamination(s, x)
			}
			if x.Checks.Faulty() {
				return silent{exitFailed}
			}
			return nil
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// thisHost is where doctor looks. A rootless user's engine reads that user's files too.
func thisHost() doctor.Host {
	h := doctor.Host{Path: os.Getenv("PATH")}
	if os.Geteuid() != 0 {
		h.Home, _ = os.UserHomeDir() // without one there are no files
	}
	return h
}

func printExamination(s streams, x *hook.Examination) {
	p := painter{s.out}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', tabwriter.FilterHTML)
	for _, f := range x.Checks {
		state := string(f.State)
		switch f.State {
		case doctor.Fault:
			state = p.bad(state)
		case doctor.Warning:
			state = p.warn(state)
		default:
			state = p.good(state)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", state, f.Subject, plain(f.Text))
		if f.Do != "" {
			fmt.Fprintf(w, "\t\t  -> %s\n", plain(f.Do))
		}
	}
	_ = w.Flush()
}
