package hook

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/cgroups/systemd"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/settings"
)

// cgroupStep is what the cgroup rules of a plan need, opened before the first change.
type cgroupStep struct {
	rules   []cgroups.Rule
	origins []plan.Origin // of the rules
	actions []int         // of the plan that they are
	own     *cgroups.Cgroup
	// alone are the cgroups that hold this container and nobody else: its own, and the
	// scope above it where crun puts the container one level deeper.
	alone []*cgroups.Cgroup
	// skipped says that the rules were left to the permissions of the host's nodes.
	skipped bool
	// scope is the path of the one among them that systemd may have as a scope.
	scope string
	// hooksIn is where createContainer hooks run.
	hooksIn oci.HookCgroup
}

func (c *cgroupStep) close() {
	for _, cg := range c.alone {
		_ = cg.Close()
	}
	if c.own != nil && !slices.Contains(c.alone, c.own) {
		_ = c.own.Close()
	}
	c.hooksIn.Close()
}

// ErrSharedCgroup says that the container has no cgroup that is only its own.
var ErrSharedCgroup = errors.New("the container has no cgroup of its own, and one that it shares is not changed")

// checkCgroups finds the container's cgroups and whether the rules can take effect.
func (w *work) checkCgroups() error {
	c := &w.cgroups
	for i, a := range w.plan.Actions {
		if a.Rule == nil || a.Satisfied {
			continue
		}
		c.rules = append(c.rules, ruleOf(a.Rule))
		c.origins = append(c.origins, a.Origin)
		c.actions = append(c.actions, i)
	}
	if len(c.rules) == 0 || w.settings.Cgroup == settings.Skip {
		c.rules, c.skipped = nil, len(c.rules) > 0
		return nil
	}
	if oci.InUserNamespace() {
		// In a rootless engine no device cgroup is in the way: the permissions of the
		// host's nodes decide, and the container's cgroup may be the caller's own.
		if w.settings.Cgroup == settings.Require {
			return fmt.Errorf("cgroup = %q is set, and a user namespace cannot open a device cgroup (%s)", settings.Require, c.origins[0])
		}
		c.rules, c.skipped = nil, true
		return nil
	}
	if err := w.openCgroups(); err != nil {
		return err
	}
	if err := w.checkAbove(); err != nil || !w.running {
		return err
	}
	return w.findRules()
}

// findRules marks the rules that the container has already, and not because of what this
// program gave it before.
func (w *work) findRules() error {
	c := &w.cgroups
	var given []plan.Action
	if w.old != nil {
		var err error
		if given, err = recordedActions(w.old); err != nil {
			return err
		}
	}
	for i, r := range c.rules {
		found := !slices.ContainsFunc(given, func(a plan.Action) bool {
			return a.Rule != nil && a.IsOurs() && a.Rule.Type == string(r.Type) && a.Rule.Major == r.Major && a.Rule.Minor == r.Minor
		})
		for _, cg := range c.alone {
			allowed, sure, err := cg.Allows([]cgroups.Rule{r})
			if err != nil {
				return err
			}
			found = found && allowed && sure
		}
		w.plan.Actions[c.actions[i]].Found = found
	}
	return nil
}

func (w *work) openCgroups() error {
	c := &w.cgroups
	theirs, err := w.cgroupText()
	if err != nil {
		return err
	}
	table, err := oci.OpenMountinfo()
	if err != nil {
		return err
	}
	defer table.Close()
	dir, version, err := cgroups.Find([]byte(theirs), table)
	if err != nil {
		return err
	}
	if c.own, err = cgroups.Open(dir); err != nil {
		return err
	}
	alone, err := w.isAlone(c.own)
	if err != nil || !alone {
		return err
	}
	c.alone = append(c.alone, c.own)
	unsafePath, err := cgroups.PathOf([]byte(theirs), version)
	if err != nil {
		return err
	}
	if _, ok := systemd.ScopeName(dir); ok {
		c.scope = unsafePath
		return nil
	}
	if version == cgroups.V1 {
		return nil
	}
	return w.openScope(dir, unsafePath)
}

// cgroupText is the /proc/PID/cgroup that tells the container's own cgroups. One that has
// not started is still in them.
func (w *work) cgroupText() (string, error) {
	if w.running {
		return w.container.OuterCgroup(within)
	}
	return w.container.Process.Read("cgroup")
}

// openScope opens the systemd scope above the cgroup that crun puts a container in,
// "container" where no annotation says otherwise, which has device programs of its own.
func (w *work) openScope(dir, unsafePath string) error {
	above := path.Dir(dir)
	if _, ok := systemd.ScopeName(above); !ok {
		return nil
	}
	entries, err := os.ReadDir(above)
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != path.Base(dir) {
			return nil // somebody else lives there too
		}
	}
	scope, err := cgroups.Open(above)
	if err != nil {
		return err
	}
	alone, err := w.isAlone(scope)
	if err != nil || !alone {
		return errors.Join(err, scope.Close())
	}
	w.cgroups.alone = append(w.cgroups.alone, scope)
	w.cgroups.scope = path.Dir(unsafePath)
	return nil
}

// isAlone tells whether all processes of a cgroup are the container's.
func (w *work) isAlone(c *cgroups.Cgroup) (bool, error) {
	if w.running {
		return w.isAloneInTime(c)
	}
	pids, err := c.Procs()
	if err != nil {
		return false, err
	}
	for _, pid := range pids {
		if pid != w.container.Process.Pid && !w.container.Process.Owns(pid) {
			return false, nil
		}
	}
	return true, nil
}

// checkAbove refuses what a cgroup above denies, and what a shared one of the
// container's own denies.
func (w *work) checkAbove() error {
	c := &w.cgroups
	top := c.own
	if len(c.alone) > 0 {
		top = c.alone[len(c.alone)-1]
	} else {
		allowed, sure, err := c.own.Allows(c.rules)
		if err != nil {
			return err
		}
		if !allowed && sure {
			return fmt.Errorf("cgroup %s: %w (%s)", c.own.Path(), ErrSharedCgroup, c.origins[0])
		}
	}
	denials, err := top.Denying(c.rules)
	if err != nil {
		return err
	}
	for _, d := range denials {
		if d.Sure {
			return fmt.Errorf("%w (%s)", &cgroups.DeniedError{Cgroup: top.Path(), By: d}, w.originOf(d.Rule))
		}
	}
	return nil
}

func (w *work) originOf(r cgroups.Rule) plan.Origin {
	if i := slices.Index(w.cgroups.rules, r); i >= 0 {
		return w.cgroups.origins[i]
	}
	return plan.Origin{}
}

// applyCgroups opens the devices on every cgroup that is the container's alone, all
// rules at once.
func (w *work) applyCgroups() (func() error, error) {
	c := &w.cgroups
	var undo undos
	for _, cg := range c.alone {
		u, err := cg.Allow(c.rules, cgroups.Options{Rebuild: deviceDecisions(w.container)})
		if err != nil {
			return undo.run, errors.Join(fmt.Errorf("%w (%s)", err, c.origins[0]), undo.run())
		}
		undo = append(undo, u)
	}
	undo = append(undo, w.applyScope()...)
	return undo.run, nil
}
