package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/specfile"
)

func validateCommand(s streams) *cobra.Command {
	var flags commonFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate [FILE|DIR...]",
		Short: "Check spec files, by themselves and against this host",
		Long: `Check spec files: those of the spec directories, or the files and directories named.

A file is valid if the CDI library takes it. Warnings are about what is most likely a
mistake, drift about what this host lacks or has otherwise. Root is not needed.

Exit code 1: a file is not valid, or files are in conflict; 4: all are valid, but differ
from this host.`,
		Example: "  oci-cdi-hook validate\n  oci-cdi-hook validate --json ./vendor.yaml",
		RunE: func(_ *cobra.Command, paths []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			v, err := hook.Validate(flags.settings, paths)
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(s.out, v); err != nil {
					return err
				}
			} else {
				printValidation(s, v)
			}
			return verdictOf(v)
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// verdictOf turns a validation into an exit code; all is said already.
func verdictOf(v *hook.Validation) error {
	switch {
	case v.Faulty():
		return silent{exitFailed}
	case v.Drifted():
		return silent{exitDiffers}
	}
	return nil
}

func printValidation(s streams, v *hook.Validation) {
	p := painter{s.out}
	for _, r := range v.Files {
		switch {
		case !r.Valid:
			fmt.Fprintf(s.out, "%s: %s\n", r.Path, p.bad("refused"))
		case len(r.Drift) > 0:
			fmt.Fprintf(s.out, "%s: %s, but not as on this host\n", r.Path, p.warn("valid"))
		default:
			fmt.Fprintf(s.out, "%s: %s, %d of %s\n", r.Path, p.good("valid"), len(r.Devices), r.Kind)
		}
		printRemarks(s.out, p.bad("error"), r.Errors)
		printRemarks(s.out, p.warn("warning"), r.Warnings)
		printRemarks(s.out, p.warn("drift"), r.Drift)
	}
	printConflicts(s.out, v.Conflicts)
	if len(v.Files) == 0 {
		fmt.Fprintln(s.err, "no spec files in", strings.Join(v.Searched, ", "))
	}
}

func printRemarks(out io.Writer, word string, remarks []specfile.Remark) {
	for _, r := range remarks {
		fmt.Fprintf(out, "  %s: %s\n", word, r)
	}
}

func convertCommand(s streams) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Print a spec file in today's form, or as JSON or YAML",
		Long: `Print a spec file anew: one in the form of the first CDI proposals in today's form, and
any with the lowest version that allows what it uses. The file itself stays as it is.`,
		Example: "  oci-cdi-hook convert old.json > /etc/cdi/vendor.json\n  oci-cdi-hook convert --to yaml vendor.json",
		Args:    wantArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "" && format != specfile.JSON && format != specfile.YAML {
				return usageError{fmt.Errorf("--to %q is neither %s nor %s", format, specfile.JSON, specfile.YAML)}
			}
			c, err := hook.Convert(args[0], format)
			if err != nil {
				return err
			}
			for _, text := range c.Lost {
				fmt.Fprintln(s.err, "oci-cdi-hook: left out:", text)
			}
			_, err = s.out.Write(c.Data)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "to", "", "print `FORMAT`, json or yaml (default the file's own)")
	return cmd
}
