package cgroups

import (
	"errors"
	"fmt"
	"os"
)

// ErrUnreadable says that a program cannot be read, and so not be extended either.
var ErrUnreadable = errors.New("the program cannot be read")

const instead = "ask for the device in the container's configuration instead, before the runtime creates it (a precreate hook can)"

// builder makes the successors of the programs of one cgroup.
type builder struct {
	kernel kernel
	rules  []Rule
	opts   Options
	alone  bool // the cgroup has this one program
}

// replacement loads the program to put in old's place; nil if old allows the rules.
func (b builder) replacement(old *os.File) (*os.File, error) {
	info, err := b.kernel.inspect(old)
	if err != nil {
		return nil, err
	}
	if b.allowedBy(info.code) {
		return nil, nil
	}
	code, err := reloadable(info.code)
	switch {
	case info.hidden != "":
		return b.rebuild(info, info.hidden)
	case errors.Is(err, errBlinded):
		return b.rebuild(info, err.Error()+" (sysctl net.core.bpf_jit_harden)")
	case err != nil:
		return nil, fmt.Errorf("%w, so that it cannot be loaded again with rules in front: %s", err, instead)
	}
	return b.kernel.load(inFront(b.rules, code))
}

func (b builder) allowedBy(code []insn) bool {
	for _, r := range b.rules {
		if judge(code, r) != allows {
			return false
		}
	}
	return true
}

// rebuild makes anew what the runtime made of the rules it was given.
func (b builder) rebuild(info programInfo, why string) (*os.File, error) {
	refuse := func(reason string) error {
		return fmt.Errorf("%w: %s; %s: %s", ErrUnreadable, why, reason, instead)
	}
	if b.opts.Rebuild == nil {
		return nil, refuse("what the runtime made it of is not known")
	}
	if !b.alone {
		return nil, refuse("others are attached beside it, so that it is not the runtime's for sure")
	}
	code, err := rebuilt(b.opts.Rebuild)
	if err != nil {
		return nil, refuse(err.Error())
	}
	if b.allowedBy(code) {
		return nil, nil
	}
	return b.loadUnlessSame(info, inFront(b.rules, code), refuse)
}

// loadUnlessSame makes twice once for programs that cannot be read: what is loaded from
// the same instructions has the same tag.
func (b builder) loadUnlessSame(old programInfo, code []insn, refuse func(string) error) (*os.File, error) {
	prog, err := b.kernel.load(code)
	if err != nil {
		return nil, err
	}
	info, err := b.kernel.inspect(prog)
	switch {
	case err != nil:
		return nil, errors.Join(err, prog.Close())
	case info.tag == old.tag:
		return nil, prog.Close()
	case old.name == ourName:
		// It may allow more than the rules it would be rebuilt from.
		return nil, errors.Join(refuse("it was already extended with other rules"), prog.Close())
	}
	return prog, nil
}
