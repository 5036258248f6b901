package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/mounts"
)

// settlePast deals with what earlier runs left: the same work done already for the same
// process, an interrupted run of this container, and those of others.
func (d *direct) settlePast() (already bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), poststopGrace)
	defer cancel()
	old, err := d.entry.Read()
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return false, err
	case d.isThisRun(old):
		d.old = old
		if old.Done && !d.running && slices.Equal(old.Devices, d.plan.Devices) {
			return true, nil
		}
	case isGone(old):
		if err := d.bury(ctx, old); err != nil {
			return false, err
		}
		if err := d.entry.Remove(); err != nil {
			return false, err
		}
	case d.running:
		return false, fmt.Errorf("container %s: its record is of another process that lives, pid %d", old.ID, old.Pid)
	}
	// What is left of others is no reason to refuse this container.
	_ = d.entry.Sweep(isGone, func(r *record.Record) error {
		if err := ctx.Err(); err != nil {
			return err // the next start goes on
		}
		return d.bury(ctx, r)
	})
	return false, nil
}

// bury does what is left to do for a container that is gone: it removes what an
// interrupted run left, and runs the poststop hooks that nobody has called. What they do
// wrong is no reason to refuse the container that starts now, but is said.
func (d *direct) bury(ctx context.Context, r *record.Record) error {
	if err := sweep(d.entry, r); err != nil {
		return err
	}
	if err := runRecorded(ctx, r, plan.StagePoststop, stoppedState(r)); err != nil {
		d.warnings = append(d.warnings, fmt.Sprintf("of container %s, which is gone: %v", r.ID, err))
	}
	return nil
}

func (d *direct) isThisRun(r *record.Record) bool {
	boot, err := oci.BootID()
	p := d.container.Process
	return err == nil && r.BootID == boot && r.Pid == p.Pid && r.StartTime == p.StartTime
}

// isGone tells whether the container of a record has ended.
func isGone(r *record.Record) bool {
	boot, err := oci.BootID()
	if err != nil {
		return false
	}
	if r.BootID != boot {
		return true
	}
	p, err := oci.OpenProcess(r.Pid)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer p.Close()
	return p.StartTime != r.StartTime
}

// sweep removes what an interrupted run left in a root file system. What a finished run
// made stays there, as what a runtime makes does.
func sweep(e *record.Entry, r *record.Record) error {
	if r.Done || len(r.Missing) == 0 {
		return nil
	}
	dir, err := os.OpenFile(r.Root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if born, err := oci.Born(dir); err != nil || born != r.RootBorn {
		return errors.Join(err, dir.Close()) // made anew since: nothing of ours is in it
	}
	root, err := mounts.NewRoot(dir, hostMountinfo)
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	defer root.Close()
	root.Keep = func(path string) bool { return inUse(e, r, path) }
	return root.RemoveLeftovers(leftovers(r))
}

func hostMountinfo() ([]byte, error) { return os.ReadFile("/proc/self/mountinfo") }

// leftovers lists what the record's run may have made.
func leftovers(r *record.Record) []mounts.Leftover {
	var all []mounts.Leftover
	for _, m := range r.Missing {
		if m.Elsewhere {
			continue // the path names something else, or nothing, without that mount
		}
		l := mounts.Leftover{UnsafePath: m.Path}
		if m.Type != "" {
			l.Node = &mounts.Node{UnsafePath: m.Path, Type: m.Type[0], Major: m.Major, Minor: m.Minor}
		}
		all = append(all, l)
	}
	return all
}

// inUse tells whether another container that shares the root has something at or below
// a path.
func inUse(e *record.Entry, self *record.Record, path string) bool {
	used := false
	err := e.Others(func(r *record.Record) {
		if r.Root != self.Root || r.ID == self.ID && r.Bundle == self.Bundle || isGone(r) {
			return
		}
		used = used || slices.ContainsFunc(r.Targets, func(t string) bool {
			return t == path || strings.HasPrefix(t, strings.TrimSuffix(path, "/")+"/")
		})
	})
	return used || err != nil
}

// journal writes what is going to be done, or that it was.
func (d *direct) journal(w *work, done bool) error {
	r, err := w.record(done)
	if err == nil && d.old != nil {
		err = merge(r, d.old, d.running)
	}
	if err != nil {
		return err
	}
	return d.entry.Write(r)
}

func (w *work) record(done bool) (*record.Record, error) {
	boot, err := oci.BootID()
	if err != nil {
		return nil, err
	}
	actions, err := json.Marshal(w.plan.Actions)
	if err != nil {
		return nil, err
	}
	unsupported, err := json.Marshal(w.plan.Unsupported)
	if err != nil {
		return nil, err
	}
	p := w.container.Process
	who := whoIs(w.container.Annotations)
	return &record.Record{
		ID: w.container.ID, Bundle: w.container.Bundle,
		Pid: p.Pid, StartTime: p.StartTime, BootID: boot,
		Done: done, Devices: w.plan.Devices,
		Time: time.Now().UTC().Truncate(time.Millisecond), Engine: who.engine, Name: who.name, Pod: who.pod,
		Root: w.container.RootPath, RootBorn: w.rootBorn, Targets: w.targets, Missing: w.missing,
		Actions: actions, Unsupported: unsupported, Mounted: w.mounted, Hostless: w.hostless, RulesSkipped: w.cgroups.skipped,
		Scope: w.scope.record(),
	}, nil
}
