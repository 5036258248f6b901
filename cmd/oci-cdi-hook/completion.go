package main

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completionCommand is in place of cobra's own, which takes an unknown shell for a call for
// help.
func completionCommand(s streams) *cobra.Command {
	scripts := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"zsh":  (*cobra.Command).GenZshCompletion,
		"fish": func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
	}
	shells := slices.Sorted(maps.Keys(scripts))
	return &cobra.Command{
		Use:       "completion " + strings.Join(shells, "|"),
		Short:     "Print a shell's completion script",
		Example:   "  source <(oci-cdi-hook completion bash)\n  oci-cdi-hook completion fish > ~/.config/fish/completions/oci-cdi-hook.fish",
		ValidArgs: shells,
		Args:      wantArgs(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		RunE:      func(cmd *cobra.Command, args []string) error { return scripts[args[0]](cmd.Root(), s.out) },
	}
}
