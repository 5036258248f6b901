package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/plan"
)

func listCommand(s streams) *cobra.Command {
	var flags commonFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the devices that can be asked for",
		Long: `List the devices that can be asked for, and the spec file that each comes from. What
cannot be had is named with the reason: definitions that another directory hides, names
defined twice in one directory, files that do not load.

The exit code is 0 also where files could not be used: the others still count.`,
		Example: "  oci-cdi-hook list\n  oci-cdi-hook list --json --spec-dir /etc/cdi",
		Args:    wantArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			l, err := hook.List(flags.settings)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(s.out, l)
			}
			printListing(s, l)
			return nil
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printListing(s streams, l *hook.Listing) {
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	for _, d := range l.Devices {
		fmt.Fprintf(w, "%s\t%s\n", d.Name, d.Spec)
	}
	_ = w.Flush()
	for _, d := range l.Shadowed {
		fmt.Fprintf(s.err, "shadowed: %s of %s\n", d.Name, d.Spec)
	}
	printConflicts(s.err, l.Conflicts)
	for _, e := range l.Errors {
		fmt.Fprintf(s.err, "not usable: %s: %s\n", e.Path, e.Reason())
	}
	for _, u := range l.Untrusted {
		fmt.Fprintln(s.err, "refused unless trusted-specs says otherwise:", u.Error)
	}
	if len(l.Devices) == 0 {
		fmt.Fprintln(s.err, "no devices in", strings.Join(l.Searched, ", "))
	}
}

func printConflicts(out io.Writer, conflicts []device.Conflict) {
	for _, c := range conflicts {
		fmt.Fprintf(out, "conflict: %s is in %s\n", c.Name, strings.Join(c.Specs, " and "))
	}
}

func planCommand(s streams) *cobra.Command {
	var flags commonFlags
	var config, bundle string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan NAME...",
		Short: "Show what a container would be given for device names",
		Long: `Show what a container would be given for device names, in the order in which it is done:
mounts, nodes, cgroup rules and hooks; then what a hook cannot give, with the flags or the
pod's YAML that do. Nothing is changed. With --config or --bundle it is said of a certain
container, else of one that has nothing of its own.

Exit code 3 if a name is unknown or malformed, or the request would be refused.`,
		Example: `  oci-cdi-hook plan vendor.com/device=myDevice
  oci-cdi-hook plan vendor.com/device=myDevice --bundle /run/containers/mine --json`,
		Args: wantArgs(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, names []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if config != "" && bundle != "" {
				return usageError{errors.New("--config and --bundle exclude each other")}
			}
			if bundle != "" {
				config = path.Join(bundle, "config.json")
			}
			p, err := hook.PlanFor(flags.settings, names, config)
			if err != nil {
				return err
			}
			if asJSON {
				return errors.Join(printJSON(s.out, p), p.Refusal)
			}
			printPlan(s.out, p.Plan)
			return p.Refusal
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().StringVar(&config, "config", "", "the container's OCI config is `FILE`")
	cmd.Flags().StringVar(&bundle, "bundle", "", "the container's OCI bundle is `DIR`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printPlan(out io.Writer, p *plan.Plan) {
	for _, d := range p.Devices {
		fmt.Fprintln(out, "device", d)
	}
	printActions(out, p.Actions)
	for _, u := range p.Unsupported {
		fmt.Fprintln(out, "left out", u)
	}
	for _, text := range slices.Concat(p.Warnings, p.Notes) {
		fmt.Fprintln(out, "note", text)
	}
	printRemainder(out, p)
}

func printActions(out io.Writer, actions []plan.Action) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, a := range actions {
		note := ""
		if a.Satisfied {
			note = "\t(in the config already)"
		}
		fmt.Fprintf(w, "  %s\t%s%s\n", a.Kind, describe(a), note)
	}
	_ = w.Flush()
}

func describe(a plan.Action) string {
	switch {
	case a.Mount != nil && a.Mount.Bind:
		return fmt.Sprintf("%s -> %s  %s", a.Mount.Source, a.Mount.Target, strings.Join(a.Mount.Options, ","))
	case a.Mount != nil:
		return fmt.Sprintf("%s -> %s  %s", a.Mount.Type, a.Mount.Target, strings.Join(a.Mount.Options, ","))
	case a.Node != nil:
		n := a.Node
		from := ""
		if n.HostPath != n.Path {
			from = n.HostPath + " -> "
		}
		return fmt.Sprintf("%s%s  %s %d:%d  mode %04o  owner %d:%d", from, n.Path, n.Type, n.Major, n.Minor, uint32(n.Mode), n.UID, n.GID)
	case a.Rule != nil:
		return fmt.Sprintf("allow %s %d:%d %s", a.Rule.Type, a.Rule.Major, a.Rule.Minor, a.Rule.Access)
	case a.Hook != nil:
		return fmt.Sprintf("%s %s  %q", a.Hook.Stage, a.Hook.Path, a.Hook.Args)
	}
	return ""
}

// printRemainder shows what the user can set beside the annotation to have the rest.
func printRemainder(out io.Writer, p *plan.Plan) {
	r := plan.RemainderOf(p)
	if r.Empty() {
		return
	}
	fmt.Fprintf(out, "set beside the annotation, with podman:\n  %s\n", strings.Join(r.PodmanFlags(), " "))
	fmt.Fprintf(out, "or in the pod:\n")
	for _, line := range r.PodYAML() {
		fmt.Fprintln(out, " ", line)
	}
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
