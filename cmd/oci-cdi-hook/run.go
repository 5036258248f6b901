package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
)

// Exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
	exitDiffers = 4
)

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) ExitCode() int { return exitUsage }

// run is the program: it returns the exit code and lets no panic out.
func run(args []string, s streams) (code int) {
	defer func() {
		if r := recover(); r != nil {
			code = exitFailed
			complain(s, fmt.Errorf("internal error: %v", r))
		}
	}()
	if len(args) > 0 && isStage(args[0]) {
		return finish(runStage(args[0], args[1:], s), s)
	}
	root := newRoot(args, s)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	return finish(root.Execute(), s)
}

// silent is an exit code about which all has been said.
type silent struct{ code int }

func (e silent) Error() string { return "" }
func (e silent) ExitCode() int { return e.code }
func (e silent) Unwrap() error { return errSaid }

func finish(err error, s streams) int {
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errSaid) {
		complain(s, err)
	}
	return exitCode(err)
}

// exitCode asks the error: packages mark what a caller has to tell apart.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitFailed
}

// complain prints an error as one line. Joined errors become its parts.
func complain(s streams, err error) {
	fmt.Fprintln(s.err, "oci-cdi-hook:", oneLine(err))
}

func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}

// newRoot builds the commands; for a stage, which is a container's start, no more than
// that one.
func newRoot(args []string, s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "oci-cdi-hook",
		Short: "An OCI hook that gives containers their CDI devices",
		Long: `An OCI hook that gives a container the CDI devices its annotations ask for.

Engines run it by itself, from hooks.d. People use it to see what there is (list), what
would be done (plan), what was done (status), and whether it is still so (verify).`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          wantArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return usageError{errors.New("a verb is missing")}
		},
	}
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	if len(args) > 0 && args[0] == filterStage {
		root.AddCommand(precreateCommand(s))
		return root
	}
	if len(args) > 0 && (args[0] == hook.ExecVerb || args[0] == hook.SuperviseVerb) {
		root.AddCommand(execCommand(), superviseCommand(s))
		return root
	}
	const forPeople, forEngines = "people", "engines"
	root.AddGroup(&cobra.Group{ID: forPeople, Title: "For people:"}, &cobra.Group{ID: forEngines, Title: "For engines, from hooks.d:"})
	root.SetHelpCommandGroupID(forPeople)
	for _, name := range stages {
		root.AddCommand(stageCommand(name, s))
	}
	root.AddCommand(precreateCommand(s))
	for _, cmd := range root.Commands() {
		cmd.GroupID = forEngines
	}
	root.AddCommand(listCommand(s), validateCommand(s), planCommand(s), convertCommand(s))
	root.AddCommand(statusCommand(s), verifyCommand(s), repairCommand(s), doctorCommand(s), completionCommand(s), versionCommand(s))
	root.AddCommand(attachCommand(s), detachCommand(s))
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" {
			cmd.GroupID = forPeople
		}
	}
	return root
}

// wantArgs wraps cobra's argument checks into usage errors.
func wantArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// superviseCommand is the process that runs vendors' hooks inside a container. It is not
// for users.
func superviseCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use: hook.SuperviseVerb, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return hook.SuperviseVendorHooks(s.in, s.out) },
	}
}

// execCommand is the second half of running a vendor's hook in a user namespace. It is
// not for users.
func execCommand() *cobra.Command {
	return &cobra.Command{
		Use: hook.ExecVerb, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return hook.ExecVendorHook(args) },
	}
}

// helpAbout is what help prints for a verb.
func helpAbout(name string, s streams) error {
	root := newRoot(nil, s)
	root.SetArgs([]string{"help", name})
	root.SetOut(s.out)
	return root.Execute()
}

// helpCommand is cobra's, but for words that it would take for no mistake.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [verb]", Short: "Help about a verb", Example: "  oci-cdi-hook help plan",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("no verb %q", strings.Join(args, " "))}
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}
