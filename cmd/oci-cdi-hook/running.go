package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/plan"
)

// targetFlags name a container that runs.
type targetFlags struct {
	commonFlags
	target   hook.Target
	deadline time.Duration
	asJSON   bool
}

func (t *targetFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	t.add(f)
	f.IntVar(&t.target.Pid, "pid", 0, "the container whose first process is `PID`, in place of ID")
	f.StringArrayVar(&t.target.Roots, "root", nil,
		"search `DIR`, a runtime's state directory, for ID; a pattern as for the shell; may be repeated; replaces the default: those of runc, crun, youki, podman, CRI-O, containerd")
	f.DurationVar(&t.deadline, "deadline", hook.Defaults().Deadline, "`TIME` after which all is undone; 0 for none")
	f.BoolVar(&t.asJSON, "json", false, "print one JSON object")
}

// split takes the id off the arguments, where there is no --pid.
func (t *targetFlags) split(args []string) (names []string, err error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	t.settings.Deadline = t.deadline
	switch byPid := t.set.Changed("pid"); {
	case t.deadline < 0:
		err = fmt.Errorf("--deadline %v is negative", t.deadline)
	case byPid && t.target.Pid <= 0:
		err = fmt.Errorf("--pid %d is no pid", t.target.Pid)
	case byPid:
		names = args
	case len(args) == 0 || args[0] == "" || strings.Contains(args[0], "="):
		err = errors.New("an ID or --pid is missing")
	default:
		t.target.ID, names = args[0], args[1:]
	}
	if err == nil && len(names) == 0 {
		err = errors.New("a device NAME is missing")
	}
	if err != nil {
		return nil, usageError{err}
	}
	return names, nil
}

func attachCommand(s streams) *cobra.Command {
	var flags targetFlags
	cmd := &cobra.Command{
		Use:   "attach (ID | --pid PID) NAME...",
		Short: "Give a running container devices",
		Long: `Give a container that runs devices, besides those that it has: nodes, mounts and cgroup
rules. It is not restarted. What a running container cannot be given is named: variables,
groups, hooks; and mounts, where it has a user namespace. Everything lasts as long as the
container's first process.

ID is the runtime's, podman's name for the container, or the beginning of a long id.

Root needs no [[allow]] rule for this; a [[deny]] holds for root too. Done twice it is done
once; a failure takes back what was done.`,
		Example: `  oci-cdi-hook attach mycontainer vendor.com/device=myDevice
  oci-cdi-hook attach --pid 4711 vendor.com/device=myDevice vendor.com/device=other`,
		RunE: func(_ *cobra.Command, args []string) error {
			names, err := flags.split(args)
			if err != nil {
				return err
			}
			began := time.Now()
			out, err := hook.Attach(context.Background(), flags.settings, flags.target, names)
			return flags.finish(s, "attach", began, out, err)
		},
	}
	flags.addTo(cmd)
	return cmd
}

func detachCommand(s streams) *cobra.Command {
	var flags targetFlags
	cmd := &cobra.Command{
		Use:   "detach (ID | --pid PID) NAME...",
		Short: "Take devices away from a running container",
		Long: `Take devices away from a container that runs: the nodes, mounts and cgroup rules that this
program gave it for them, when it was created or with attach, and that no other device
which it keeps needs. What somebody else gave it, or has changed since, stays. Programs
that have the device open keep it open. Variables and groups stay.`,
		Example: `  oci-cdi-hook detach mycontainer vendor.com/device=myDevice
  oci-cdi-hook detach --pid 4711 vendor.com/device=myDevice`,
		RunE: func(_ *cobra.Command, args []string) error {
			names, err := flags.split(args)
			if err != nil {
				return err
			}
			began := time.Now()
			out, err := hook.Detach(context.Background(), flags.settings, flags.target, names)
			return flags.finish(s, "detach", began, out, err)
		},
	}
	flags.addTo(cmd)
	return cmd
}

// attachment is what attach and detach print as JSON.
type attachment struct {
	Container string        `json:"container"`
	Pid       int           `json:"pid"`
	Devices   []string      `json:"devices"`
	Actions   []plan.Action `json:"actions"`

	Unsupported []plan.Unsupported `json:"unsupported"`
	Warnings    []string           `json:"warnings"`
}

// finish tells what was done, to the caller and to the log.
func (t *targetFlags) finish(s streams, verb string, began time.Time, out *hook.Outcome, err error) error {
	(&report{s: s, flags: &t.commonFlags, stage: verb, began: began}).tell(out, err)
	if err != nil || out.Plan == nil {
		return err
	}
	if t.asJSON {
		return printJSON(s.out, attachment{
			Container: out.ContainerID, Pid: out.Pid, Devices: out.Plan.Devices, Actions: out.Plan.Actions,
			Unsupported: out.Plan.Unsupported, Warnings: append([]string{}, out.Warnings...),
		})
	}
	fmt.Fprintf(s.out, "container %s, pid %d: %s %s\n", out.ContainerID, out.Pid, verb, strings.Join(out.Plan.Devices, " "))
	printAttachment(s.out, out.Plan.Actions, verb)
	return nil
}

func printAttachment(out io.Writer, actions []plan.Action, verb string) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, a := range actions {
		note := ""
		switch {
		case a.IsOurs():
		case verb == "attach":
			note = "\t(was there)"
		default:
			note = "\t(not ours, stays)"
		}
		fmt.Fprintf(w, "  %s\t%s%s\n", a.Kind, describe(a), note)
	}
	_ = w.Flush()
}
