package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/record"
)

func statusCommand(s streams) *cobra.Command {
	var flags commonFlags
	var failed, asJSON bool
	cmd := &cobra.Command{
		Use:   "status [ID]",
		Short: "Show which containers were given which devices",
		Long: `Show which containers were given which devices, or what one of them was given, or
with --failed the last refusals with their reasons.

ID is a container's id, the beginning of one, or its name where the engine tells that.`,
		Example: "  oci-cdi-hook status\n  oci-cdi-hook status 4f5f --json\n  oci-cdi-hook status --failed",
		Args:    wantArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			id, err := idOf(args)
			if err != nil {
				return err
			}
			if failed {
				return showFailures(s, flags.settings, id, asJSON)
			}
			return showStatus(s, flags.settings, id, asJSON)
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&failed, "failed", false, "show the last refusals and failures instead")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// idOf is the one argument that may be there.
func idOf(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	if args[0] == "" {
		return "", usageError{errors.New("the container's id is empty")}
	}
	return args[0], nil
}

func showStatus(s streams, settings hook.Settings, id string, asJSON bool) error {
	report, err := hook.Status(settings, id)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(s.out, report)
	} else if id != "" {
		for _, c := range report.Containers {
			printGiven(s.out, c)
		}
	} else {
		printStatus(s.out, report)
	}
	for _, b := range report.Errors {
		fmt.Fprintf(s.err, "oci-cdi-hook: container %s: %s\n", plain(b.ID), plain(b.Error))
	}
	if id == "" && len(report.Containers)+len(report.Errors) == 0 && !asJSON {
		fmt.Fprintln(s.err, "no container has a record")
	}
	if err == nil && id != "" && len(report.Containers) == 0 {
		return errSaid
	}
	return err
}

func printStatus(out io.Writer, r *hook.StatusReport) {
	if len(r.Containers) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tENGINE\tPID\tSTATE\tGIVEN\tDEVICES\tLEFT OUT")
	for _, c := range r.Containers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", shortID(c.ID), orDash(c.Name), orDash(c.Engine), c.Pid, c.State,
			given(c.Time), orDash(strings.Join(c.Devices, ",")), leftOut(c))
	}
	_ = w.Flush()
}

// leftOut counts the edits that somebody may miss.
func leftOut(c hook.Given) string {
	n := 0
	for _, u := range c.Unsupported {
		if !u.Quiet {
			n++
		}
	}
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func printGiven(out io.Writer, c hook.Given) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, line := range [][2]string{
		{"container", c.ID}, {"name", c.Name}, {"engine", c.Engine}, {"pod", c.Pod}, {"bundle", c.Bundle},
		{"pid", fmt.Sprintf("%d, %s", c.Pid, c.State)}, {"given", given(c.Time)},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", line[0], plain(line[1]))
		}
	}
	for _, d := range c.Devices {
		fmt.Fprintf(w, "device\t%s\n", plain(d))
	}
	_ = w.Flush()
	printActions(out, c.Actions)
	for _, u := range c.Unsupported {
		fmt.Fprintln(out, "left out", plain(u.String()))
	}
}

func showFailures(s streams, settings hook.Settings, id string, asJSON bool) error {
	list, err := hook.Failed(settings, id)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(s.out, list)
	}
	if len(list.Failures) == 0 {
		fmt.Fprintln(s.err, "no failure is kept")
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tID\tNAME\tSTAGE\tEXIT\tDEVICES\tREASON")
	for _, f := range list.Failures {
		printFailure(w, f)
	}
	return w.Flush()
}

func printFailure(w io.Writer, f record.Failure) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", given(f.Time), orDash(shortID(f.ID)), orDash(f.Name), plain(f.Stage), f.ExitCode,
		orDash(strings.Join(f.Devices, ",")), plain(f.Reason))
}

// shortID shortens the ids of engines, which are 64 digits, as the engines do.
func shortID(id string) string {
	const engines, shown = 64, 12
	if len(id) == engines && strings.Trim(id, "0123456789abcdef") == "" {
		return id[:shown]
	}
	return plain(id)
}

func given(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02T15:04:05Z07:00")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return plain(s)
}

// plain keeps what others have written from moving the cursor, or a column.
func plain(s string) string {
	if strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.Quote(s)
	}
	return s
}
