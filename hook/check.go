package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/mounts"
)

// Why a container is not looked at.
var (
	errGone     = errors.New("it has ended")
	errStarting = errors.New("it has not started yet")
)

// verifier compares containers with their records. What all of them ask is found once.
type verifier struct {
	cgroups *cgroups.Hierarchies
	hostDir mounts.Sight // the host's root directory
	// host is what is at paths of the host now.
	host   map[hostPath]hostSight
	scopes scopes
}

type hostPath struct {
	name   string
	follow bool
}

type hostSight struct {
	mounts.Sight
	err error
}

func newVerifier(ctx context.Context, s Settings) (*verifier, error) {
	v := &verifier{host: map[hostPath]hostSight{}, scopes: s.scopes(ctx)}
	var err error
	if v.hostDir, err = mounts.HostAt("/", true); err != nil {
		return nil, err
	}
	table, err := oci.OpenMountinfo()
	if err != nil {
		return nil, err
	}
	defer table.Close()
	v.cgroups, err = cgroups.FindHierarchies(table)
	return v, err
}

func (v *verifier) close() { v.scopes.close() }

func (v *verifier) hostAt(name string, follow bool) (mounts.Sight, error) {
	at := hostPath{name, follow}
	s, known := v.host[at]
	if !known {
		s.Sight, s.err = mounts.HostAt(name, follow)
		v.host[at] = s
	}
	return s.Sight, s.err
}

// held is a container that runs, with what it was given. Everything of it is looked at
// through descriptors, so that it may end meanwhile.
type held struct {
	record  *record.Record
	actions []plan.Action
	process *oci.Process
	files   mounts.View
}

// hold opens the container of a record; errGone where it has ended, errStarting where its
// runtime has not changed its root yet.
func (v *verifier) hold(r *record.Record) (*held, error) {
	boot, err := oci.BootID()
	if err != nil {
		return nil, err
	}
	if r.BootID != boot {
		return nil, errGone
	}
	h := &held{record: r}
	h.process, err = oci.OpenProcess(r.Pid)
	if err != nil {
		return nil, goneOr(err)
	}
	if h.process.StartTime != r.StartTime {
		return nil, errors.Join(errGone, h.process.Close())
	}
	if err := v.open(h); err != nil {
		return nil, errors.Join(goneOr(err), h.process.Close())
	}
	return h, nil
}

func (v *verifier) open(h *held) (err error) {
	if h.actions, err = recordedActions(h.record); err != nil {
		return err
	}
	root, err := h.process.Root()
	if err != nil {
		return err
	}
	h.files = mounts.NewView(root)
	top, err := h.files.At("/")
	if err == nil && top.SameFile(v.hostDir) {
		err = errStarting
	}
	if err != nil {
		return errors.Join(err, h.files.Close())
	}
	return nil
}

func (h *held) close() {
	_ = h.files.Close()
	_ = h.process.Close()
}

// goneOr tells of a process that went while it was looked at: its files in /proc are
// there and say ESRCH, or nothing.
func goneOr(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrNotExist) {
		return errGone
	}
	return err
}

// check compares everything that a container was given with what it has: in the order of
// the actions, and what could not be compared apart. Hooks are no state. Mode and owner
// of a node are the container's to change.
func (v *verifier) check(h *held) (faults []Fault, unchecked []error) {
	hidden := coveredTargets(h.actions)
	for i, a := range h.actions {
		var f *Fault
		var err error
		switch {
		case a.Node != nil:
			f, err = v.checkNode(h, i, a.Node)
		case a.Mount != nil && !hidden[i]:
			f, err = v.checkMount(h, i, a)
		}
		if err != nil {
			unchecked = append(unchecked, fmt.Errorf("%w (%s)", err, a.Origin))
		}
		if f != nil {
			f.Action, f.Kind, f.Origin = i, a.Kind, a.Origin
			faults = append(faults, *f)
		}
	}
	denied, err := v.checkRules(h)
	if err != nil {
		unchecked = append(unchecked, err)
	}
	forgotten, unasked := v.scopes.check(h)
	return slices.Concat(faults, denied, forgotten), append(unchecked, unasked...)
}

// coveredTargets finds the mounts that a later one of the same plan lies on.
func coveredTargets(actions []plan.Action) map[int]bool {
	last, hidden := map[string]int{}, map[int]bool{}
	for i, a := range actions {
		if a.Mount == nil {
			continue
		}
		target := path.Join("/", a.Mount.Target)
		if earlier, ok := last[target]; ok {
			hidden[earlier] = true
		}
		last[target] = i
	}
	return hidden
}

func (v *verifier) checkNode(h *held, index int, n *plan.Node) (*Fault, error) {
	given := mounts.Sight{Type: n.Type[0], Major: uint32(n.Major), Minor: uint32(n.Minor)}
	switch given.Type {
	case 'u':
		given.Type = 'c'
	case 'p':
		given.Major, given.Minor = 0, 0
	}
	fault := func(word, format string, args ...any) (*Fault, error) {
		return &Fault{What: n.Path, Fault: word, Text: fmt.Sprintf(format, args...)}, nil
	}
	now, err := h.files.NodeAt(n.Path)
	switch {
	case isNothing(err):
		return fault(FaultMissing, "gone, given %s", given)
	case err != nil:
		return nil, err
	case !now.SameNode(given):
		return fault(FaultOther, "it is %s now, given %s", now, given)
	}
	host, err := v.hostAt(n.HostPath, false)
	switch {
	case isNothing(err) && slices.Contains(h.record.Hostless, index):
		return nil, nil
	case isNothing(err):
		return fault(FaultStale, "given %s, the host has no %s any more", given, n.HostPath)
	case err != nil:
		return nil, err
	case !host.SameNode(given):
		return fault(FaultStale, "given %s, the host's %s is %s", given, n.HostPath, host)
	}
	return nil, nil
}

// isNothing tells that a path leads to nothing.
func isNothing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

func (v *verifier) checkMount(h *held, index int, a plan.Action) (*Fault, error) {
	m := a.Mount
	fault := func(word, format string, args ...any) (*Fault, error) {
		return &Fault{What: m.Target, Fault: word, Text: fmt.Sprintf(format, args...)}, nil
	}
	now, err := h.files.At(m.Target)
	switch {
	case isNothing(err):
		return fault(FaultMissing, "nothing is mounted there, and the place is gone")
	case err != nil:
		return nil, err
	case !now.MountRoot:
		return fault(FaultMissing, "nothing is mounted there, given %s", from(m))
	}
	var host mounts.Sight
	if m.Bind {
		if host, err = v.hostAt(m.Source, true); err != nil && !isNothing(err) {
			return nil, err
		}
	}
	given, known := h.mounted(index)
	if !known {
		given, known = host, m.Bind && err == nil
	}
	switch {
	case known && !now.SameFile(given):
		return fault(FaultOther, "another mount is there, given %s", from(m))
	case m.Bind && err != nil:
		return fault(FaultStale, "the host has no %s any more", m.Source)
	case m.Bind && !now.SameFile(host):
		return fault(FaultStale, "the host's %s is another file by now", m.Source)
	}
	return nil, nil
}

func from(m *plan.Mount) string {
	if m.Bind {
		return m.Source
	}
	return m.Type
}

func (h *held) mounted(index int) (mounts.Sight, bool) {
	for _, m := range h.record.Mounted {
		if m.Action == index {
			return mounts.Sight{Dev: m.Dev, Ino: m.Ino}, true
		}
	}
	return mounts.Sight{}, false
}

// checkRules asks all programs that decide on the container's devices, or its list.
func (v *verifier) checkRules(h *held) ([]Fault, error) {
	rules, of := h.rules()
	if len(rules) == 0 {
		return nil, nil
	}
	own, err := v.cgroupOf(h)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	denials, err := own.Refused(rules)
	if err != nil {
		return nil, err
	}
	var faults []Fault
	var unsure error
	for at, r := range rules {
		for _, d := range denials {
			if d.Rule != r {
				continue
			}
			if !d.Sure {
				unsure = errors.New(d.String())
				continue
			}
			a := h.actions[of[at]]
			faults = append(faults, Fault{
				Action: of[at], Kind: a.Kind, Origin: a.Origin, What: r.String(),
				Fault: FaultDenied, Text: "cgroup " + d.Cgroup + " denies it", Cgroup: d.Cgroup,
			})
		}
	}
	return faults, unsure
}

func ruleOf(r *plan.Rule) cgroups.Rule {
	return cgroups.Rule{Type: r.Type[0], Major: r.Major, Minor: r.Minor, Access: r.Access}
}

func (v *verifier) cgroupOf(h *held) (*cgroups.Cgroup, error) {
	theirs, err := h.process.Read("cgroup")
	if err != nil {
		return nil, err
	}
	dir, _, err := v.cgroups.Find([]byte(theirs))
	if err != nil {
		return nil, err
	}
	return cgroups.Open(dir)
}
