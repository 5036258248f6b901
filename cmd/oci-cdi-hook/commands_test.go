package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const commandsFile = "../../docs/commands.md"

// TestCommands keeps docs/commands.md, from which the man page is made, as the program's
// own help has it. -update writes it anew.
func TestCommands(t *testing.T) {
	have, err := os.ReadFile(commandsFile)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "-update -->\n", "<!-- end of verbs -->"
	before, rest, found := strings.Cut(string(have), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the verbs", commandsFile)
	}
	want := before + begin + verbsText(verbs(t)) + end + after
	if *update {
		if err := os.WriteFile(commandsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(have) {
		t.Errorf("%s is not what the program says: go test ./cmd/oci-cdi-hook -run TestCommands -update", commandsFile)
	}
}

// TestHelp: each verb says what it does and shows how it is used.
func TestHelp(t *testing.T) {
	for _, cmd := range verbs(t) {
		r := runWith(t, "", cmd.Name(), "--help")
		for _, want := range []string{text(cmd), "Usage:\n  oci-cdi-hook " + cmd.Name(), "Examples:\n  ", "oci-cdi-hook"} {
			if r.code != 0 || r.err != "" || !strings.Contains(r.out, want) {
				t.Errorf("%s --help: %+v, want %q", cmd.Name(), r, want)
			}
		}
		if other := runWith(t, "", "help", cmd.Name()); other.out != r.out {
			t.Errorf("help %s differs from %[1]s --help:\n%s", cmd.Name(), other.out)
		}
	}
}

// TestVerbsInReadme: a reader who looks for something to do finds each verb.
func TestVerbsInReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range verbs(t) {
		if !strings.Contains(string(readme), "`"+cmd.Name()) && !strings.Contains(string(readme), "oci-cdi-hook "+cmd.Name()) {
			t.Errorf("README.md has no %s", cmd.Name())
		}
	}
}

// verbs are all that users see, in the order of help.
func verbs(t *testing.T) []*cobra.Command {
	t.Helper()
	root := newRoot(nil, streams{})
	root.InitDefaultHelpCmd()
	var out []*cobra.Command
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			out = append(out, cmd)
		}
	}
	if len(out) < len(stages)+10 {
		t.Fatalf("only %d verbs", len(out))
	}
	return out
}

func verbsText(verbs []*cobra.Command) string {
	var common commonFlags
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	common.add(shared)
	var b strings.Builder
	for _, title := range []string{"Verbs", "Stages"} {
		fmt.Fprintf(&b, "\n## %s\n", title)
		for _, cmd := range verbs {
			if inStages := isStage(cmd.Name()) || cmd.Name() == filterStage; inStages == (title == "Stages") {
				writeVerb(&b, cmd, shared)
			}
		}
	}
	b.WriteString("\n## Common flags\n\nAll verbs that look at specs, records or containers have these, stages too. They win over the configuration.\n\n")
	writeFlags(&b, shared, nil)
	b.WriteString("\n")
	return b.String()
}

func writeVerb(b *strings.Builder, cmd *cobra.Command, shared *pflag.FlagSet) {
	fmt.Fprintf(b, "\n### %s\n\n    %s\n\n", cmd.Name(), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	fmt.Fprintf(b, "%s\n\n", text(cmd))
	if own := flagsOf(cmd.Flags(), shared); len(own) > 0 {
		writeFlags(b, cmd.Flags(), shared)
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "For example:\n\n%s\n", indent(cmd.Example))
}

func text(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short
}

// flagsOf are the flags of a set that are not those of the other.
func flagsOf(set, without *pflag.FlagSet) (out []*pflag.Flag) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden && (without == nil || without.Lookup(f.Name) == nil) {
			out = append(out, f)
		}
	})
	return out
}

func writeFlags(b *strings.Builder, set, without *pflag.FlagSet) {
	for _, f := range flagsOf(set, without) {
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			value = " " + value
		}
		fmt.Fprintf(b, "* `--%s%s`: %s", f.Name, value, usage)
		switch f.DefValue {
		case "", "false", "[]", "0":
		default:
			fmt.Fprintf(b, " (default `%s`)", strings.Trim(f.DefValue, "[]"))
		}
		b.WriteString("\n")
	}
}

// indent makes the two blanks of an example the four of a code block.
func indent(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = "    " + strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
