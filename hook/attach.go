package hook

import (
	"context"
	"errors"
	"fmt"
	"os"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/policy"
)

// RefusedError says why a container that runs is given, or loses, nothing.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// ExitCode is that of a refused request.
func (e *RefusedError) ExitCode() int { return device.ExitRequest }

// errNotRoot is about who may work on containers that run.
var errNotRoot = errors.New("root of the host is needed to work on a container that runs")

func mayWorkOnRunning() error {
	if os.Geteuid() != 0 || oci.InUserNamespace() {
		return errNotRoot
	}
	return nil
}

// Attach gives a container that runs the devices of these names, besides those that it was
// given before. What it can be given then is what needs no part of its start: nodes, mounts
// and rules. The caller is root, and needs no rule that allows him a device; those that
// deny one hold for him too.
func Attach(ctx context.Context, s Settings, t Target, names []string) (*Outcome, error) {
	out := &Outcome{ContainerID: t.ID, Asked: names}
	if err := s.load(); err != nil {
		return out, err
	}
	ref, err := s.find(t)
	if err != nil {
		return out, err
	}
	return s.attach(ctx, ref, names)
}

func (s Settings) attach(ctx context.Context, ref oci.Reference, names []string) (*Outcome, error) {
	out := &Outcome{ContainerID: ref.ID, ContainerName: ref.Annotations[containerNameKey], Pid: ref.Pid, Asked: names}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	c, err := s.takeUp(ref)
	if err != nil {
		return out, err
	}
	defer c.Close()
	if err := s.Policy.CheckDenied(names, policy.WhoIs(c.Annotations)); err != nil {
		return out, err
	}
	out.Plan, err = PlanNames(s, names, PlanContainer{Config: c.Config, UserNamespace: c.UserNamespace, Running: true})
	if err != nil {
		return out, err
	}
	out.Warnings = warnings(out.Plan)
	if err := s.vetPlan(out.Plan); err != nil {
		return out, err
	}
	d := direct{settings: s, container: c, plan: out.Plan, running: true}
	_, err = d.run(ctx)
	out.Warnings = append(out.Warnings, d.warnings...)
	return out, err
}

// takeUp finds the container and refuses what is none.
func (s *Settings) takeUp(ref oci.Reference) (*oci.Container, error) {
	if err := mayWorkOnRunning(); err != nil {
		return nil, err
	}
	if sign, ok := oci.VirtualMachine(&ref.State); ok {
		return nil, &RefusedError{fmt.Sprintf("container %s: %s: it runs in a virtual machine, or is none", ref.ID, sign)}
	}
	c, err := oci.FindRunning(ref)
	if err != nil {
		return nil, err
	}
	if sign, ok := oci.VirtualMachine(c.State); ok {
		return nil, errors.Join(&RefusedError{fmt.Sprintf("container %s: %s: it runs in a virtual machine", ref.ID, sign)}, c.Close())
	}
	return c, nil
}
