package integration

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
)

// lifeSpec has hooks of vendors at both ends of a container's life.
func lifeSpec(hooks ...string) string {
	return device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", hooksOf(slices.Concat(
		[]string{vendor("createRuntime", "made"), vendor("poststart", "started")}, hooks, []string{vendor("poststop", "stopped")})...))
}

// newLife makes a host with the spec and a container that lives until it is stopped.
func newLife(t *testing.T, spec string) (*bed.Bundle, string) {
	t.Helper()
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	path := bed.WriteSpec(t, "life.yaml", spec)
	h.StandInsFor(path)
	return liveBundle(bed.NewBundle(t)), path
}

func liveBundle(b *bed.Bundle) *bed.Bundle {
	b.Live()
	b.Annotate("v.example/dev=a")
	b.Register()
	b.RegisterLater("poststart")
	b.RegisterLater("poststop")
	return b
}

// ran gives the first argument of each vendor hook that has run since the last look.
func ran(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, tr := range bed.Traces(t) {
		names = append(names, tr.Args[1])
	}
	return names
}

func requireRan(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := ran(t); !slices.Equal(got, want) {
		t.Errorf("%s: vendor hooks %q, want %q", when, got, want)
	}
}

func requireNoState(t *testing.T, when, dir string) {
	t.Helper()
	if left := bed.StateFiles(t, dir); len(left) > 0 {
		t.Errorf("%s: left in the state folder: %q", when, left)
	}
}

func (l life) create() {
	l.t.Helper()
	l.b.Write()
	if res := l.b.Create(l.rt); res.Refused() {
		l.t.Fatalf("%s: exit %d: %s", l.rt.Name, res.Code, res.Stderr)
	}
}

// life is a bundle with its runtime.
type life struct {
	t  *testing.T
	b  *bed.Bundle
	rt bed.Runtime
}

func (l life) pid() int {
	l.t.Helper()
	var state struct{ Pid int }
	if err := json.Unmarshal([]byte(l.b.Must(l.rt, "state", l.b.ID).Stdout), &state); err != nil {
		l.t.Fatal(err)
	}
	return state.Pid
}

// TestLifecycle: the spec goes while the container runs, and its hooks still run, once.
func TestLifecycle(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		b, spec := newLife(t, lifeSpec())
		l := life{t, b, rt}
		l.create()
		b.Must(rt, "start", b.ID)
		requireRan(t, "started", "made", "started")
		if n := len(bed.Records(t)); n != 1 {
			t.Errorf("%d records of a living container", n)
		}
		if err := os.Remove(spec); err != nil {
			t.Fatal(err)
		}
		b.Must(rt, "delete", "--force", b.ID)
		traces := bed.Traces(t)
		if len(traces) != 1 || traces[0].Args[1] != "stopped" {
			t.Fatalf("after delete ran %+v", traces)
		}
		if id, status := traces[0].State["id"], traces[0].State["status"]; id != b.ID || status != "stopped" {
			t.Errorf("poststop was told of %v, which is %v", id, status)
		}
		if len(traces[0].Container) > 0 {
			t.Errorf("poststop ran in namespaces %v", traces[0].Container)
		}
		requireNoState(t, "deleted", bed.StateDir)
		if log := bed.TakeLog(t); log != "" {
			t.Errorf("the log has %s", log)
		}
	})
}

// TestPoststopFails: a container that has stopped cannot be stopped better, but somebody must be told.
func TestPoststopFails(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		b, _ := newLife(t, lifeSpec(vendor("poststop", "failing", "stderr=told-why", "exit=3")))
		life{t, b, rt}.create()
		b.Must(rt, "start", b.ID)
		b.Must(rt, "delete", "--force", b.ID)
		requireRan(t, "deleted", "made", "started", "failing", "stopped")
		requireNoState(t, "deleted", bed.StateDir)
		log := bed.TakeLog(t)
		for _, word := range []string{"warning", "poststop", vendorPath, "told-why", "v.example/dev=a", b.ID} {
			if !strings.Contains(log, word) {
				t.Errorf("the log lacks %q: %s", word, log)
			}
		}
	})
}

// TestPoststartFails pins what runtimes make of a failing poststart hook: the error reaches them or our log.
func TestPoststartFails(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		b, _ := newLife(t, lifeSpec(vendor("poststart", "failing", "stderr=told-why", "exit=3")))
		b.Write()
		if res := b.Create(rt); !res.Refused() {
			b.Call(rt, "start", b.ID)
		}
		b.Delete(rt)
		got := ran(t)
		if !slices.Equal(got, []string{"made", "started", "failing", "stopped"}) {
			t.Errorf("ran %q", got)
		}
		if log := bed.TakeLog(t); !strings.Contains(log, "told-why") {
			t.Errorf("the log lacks the reason: %s", log)
		}
		requireNoState(t, "deleted", bed.StateDir)
	})
}

// TestFailedCreate: vendors whose hook has run get their poststop, once, whoever fails afterwards and whether or not the runtime calls ours.
func TestFailedCreate(t *testing.T) {
	t.Run("of a vendor", func(t *testing.T) {
		bed.Each(t, func(t *testing.T, rt bed.Runtime) {
			b, _ := newLife(t, lifeSpec(vendor("createContainer", "failing", "exit=3")))
			b.Write()
			if !b.Run(rt).Refused() {
				t.Error("the container ran")
			}
			requireRan(t, "refused", "made", "failing", "stopped")
			requireNoState(t, "refused", bed.StateDir)
		})
	})
	t.Run("of somebody else", func(t *testing.T) {
		bed.Each(t, func(t *testing.T, rt bed.Runtime) {
			b, _ := newLife(t, lifeSpec())
			b.RegisterFailing()
			b.Write()
			if !b.Run(rt).Refused() {
				t.Error("the container ran")
			}
			bed.RemoveCgroups(t, b.ID)
			if !rt.IsCrun() {
				requireRan(t, "refused", "made", "stopped")
				requireNoState(t, "refused", bed.StateDir)
				return
			}
			// crun calls no poststop: the next start, of another container, does it.
			requireRan(t, "refused", "made")
			next := liveBundle(bed.NewBundleBeside(t))
			life{t, next, rt}.create()
			requireRan(t, "the next one", "stopped", "made")
			next.Must(rt, "delete", "--force", next.ID)
			bed.Traces(t)
			requireNoState(t, "deleted", bed.StateDir)
		})
	})
}

// TestVanished: a container whose runtime was taken from it is buried by the next start.
func TestVanished(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		b, spec := newLife(t, lifeSpec(vendor("poststop", "failing", "quiet", "stderr=told-why", "exit=3")))
		l := life{t, b, rt}
		l.create()
		b.Must(rt, "start", b.ID)
		b.Forget(l.pid())
		if n := len(bed.Records(t)); n != 1 {
			t.Fatalf("%d records", n)
		}
		bed.Traces(t)
		old, err := os.ReadFile(spec)
		if err != nil {
			t.Fatal(err)
		}
		// what the dead one had is not what there is now
		if err := os.WriteFile(spec, []byte(strings.ReplaceAll(string(old), "[hook, stopped]", "[hook, other]")), 0o644); err != nil {
			t.Fatal(err)
		}
		next := liveBundle(bed.NewBundleBeside(t))
		life{t, next, rt}.create()
		requireRan(t, "the next one", slices.DeleteFunc([]string{"stopped", "made", poststartAtCreate(rt)}, func(s string) bool { return s == "" })...)
		if n := len(bed.Records(t)); n != 1 {
			t.Errorf("%d records beside a living container", n)
		}
		if log := bed.TakeLog(t); !strings.Contains(log, "told-why") || !strings.Contains(log, "container "+b.ID) {
			t.Errorf("the log lacks what the dead one's hook said: %s", log)
		}
		next.Must(rt, "delete", "--force", next.ID)
		requireRan(t, "deleted", "other")
		requireNoState(t, "deleted", bed.StateDir)
	})
}

// poststartAtCreate is the hook that runc runs at the end of create already.
func poststartAtCreate(rt bed.Runtime) string {
	if rt.IsCrun() {
		return ""
	}
	return "started"
}
