package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// The host's tree that the attacked devices bring, and how mountinfo shows where in its filesystem it is.
const (
	brought       = "/run/bed/brought"
	broughtRoot   = "/brought"
	broughtSource = "bed"
)

// race is a container whose image somebody changes while the hook works: two names of its root file system are exchanged.
type race struct {
	edits []string // of the device that is asked for
	more  string   // devices
	image func(*bed.Bundle)
	host  func(*bed.Host)
	a, b  string
	// refuses: what is asked for cannot be given, exchange or not.
	refuses bool
}

// ways to exchange the two names around one moment, the hook standing still meanwhile: there and back, for good, and the other way round.
const (
	blink = iota
	change
	changeBack
	ways
)

// tally counts what an attack tried.
type tally struct{ rounds, hits, given, refused int }

func (n tally) String() string {
	return fmt.Sprintf("%d rounds, %d of them with an exchange between two system calls of the hook; %d gave the device, %d refused; lost: 0",
		n.rounds, n.hits, n.given, n.refused)
}

// share is one of how many rounds the short form does.
const share = 17

// at runs the race on each runtime, once for each moment of the hook's work and each way, or in the short form for a share of them. Nothing
// here depends on the version of the cgroups.
func (r race) at(t *testing.T) {
	if bed.Cgroup() == bed.V1 && !bed.Long() {
		return
	}
	offset := 0
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		ring := r.enter(t, rt)
		first := ring.round(0, blink)
		if first.given == r.refuses || first.moments < 10 {
			t.Fatalf("undisturbed, after %d moments: exit %d: %s", first.moments, ring.last.Code, ring.last.Stderr)
		}
		var n tally
		for k := 1; k <= first.moments; k++ {
			for way := range ways {
				if !bed.Long() && (k*ways+way+offset)%share != 0 {
					continue
				}
				n.count(ring.round(k, way))
			}
		}
		offset++
		t.Logf("attacked: %v", n)
		if n.hits == 0 || n.given+n.refused != n.rounds {
			t.Errorf("nothing was hit: %v", n)
		}
		ring.leave()
	})
}

func (n *tally) count(o round) {
	n.rounds++
	if o.hit {
		n.hits++
	}
	if o.given {
		n.given++
	} else {
		n.refused++
	}
}

// ring is a container that waits at createRuntime, and what it must stay like.
type ring struct {
	race
	t      *testing.T
	b      *bed.Bundle
	held   *bed.Held
	canary *bed.Canary
	state  string
	mounts []string
	names  map[string]bool
	last   bed.Result

	program []string
}

func (r race) enter(t *testing.T, rt bed.Runtime) *ring {
	h := bed.NewHost(t)
	h.Dir(brought)
	h.File(brought+"/mark", "of the device", 0o644)
	if r.host != nil {
		r.host(h)
	}
	g := &ring{race: r, t: t, canary: h.Canary(), program: append([]string{bed.Hook(t)}, bed.HookArgs("createRuntime")...)}
	h.StandInsFor(bed.WriteSpec(t, "spec.yaml", device(r.edits...)+r.more))
	g.b = bed.NewBundle(t)
	g.b.Annotate("v.example/dev=a")
	g.b.Ask(report.Ask{})
	r.image(g.b)
	g.held = g.b.Hold(rt)
	g.state, g.mounts, g.names = marshal(t, g.held.State), g.held.RawMounts(), g.b.Names()
	g.canary.Touched() // the runtime's own doings are not what is looked at
	return g
}

func (g *ring) leave() {
	g.t.Helper()
	g.held.Release()
	if touched := g.canary.Touched(); len(touched) > 0 {
		g.t.Errorf("after the end: %s", strings.Join(touched, "\n"))
	}
	bed.TakeLog(g.t)
}

// round is what one run of the hook came to.
type round struct {
	moments    int
	hit, given bool
}

// round runs the hook and exchanges the names around the moment k; 0 is never.
func (g *ring) round(k, way int) round {
	g.t.Helper()
	var o round
	swapped := false
	swap := func() { swapped = !swapped; g.swap() }
	if way == changeBack {
		swap()
	}
	g.last = bed.Step(g.t, g.state, func(m bed.Moment) {
		if m.Inside > o.moments {
			o.moments = m.Inside
		}
		if k == 0 || m.Inside == 0 {
			return
		}
		if m.Inside == k && !o.hit || m.Inside == k+1 && way == blink && swapped {
			o.hit = true
			swap()
		}
	}, g.program...)
	o.given = g.last.Code == 0
	g.judge(fmt.Sprintf("moment %d, way %d: exit %d: %s", k, way, g.last.Code, g.last.Stderr))
	if swapped {
		swap()
	}
	g.tidy()
	return o
}

// judge looks at what the round did.
func (g *ring) judge(what string) {
	g.t.Helper()
	if touched := g.canary.Touched(); len(touched) > 0 {
		g.t.Errorf("%s\nthe host was touched: %s", what, strings.Join(touched, "\n"))
	}
	made := g.made()
	for _, line := range made {
		if !g.mine(line) {
			g.t.Errorf("%s\na mount that nobody asked for: %s", what, line)
		}
	}
	if g.last.Code != 0 && len(made) > 0 {
		g.t.Errorf("%s\nrefused, and left mounts: %s", what, strings.Join(made, "\n"))
	}
	if g.last.Code != 0 && strings.Count(g.last.Stderr, "\n") != 1 {
		g.t.Errorf("%s\nnot one line", what)
	}
}

// made are the container's mounts that were not there before.
func (g *ring) made() []string {
	return slices.DeleteFunc(g.held.RawMounts(), func(line string) bool { return slices.Contains(g.mounts, line) })
}

// mine tells whether a line of mountinfo is the device's own tree, or a node staged for it, in the root file system and outside of what
// the kernel shows there.
func (g *ring) mine(line string) bool {
	fields, after, _ := strings.Cut(line, " - ")
	f, src := strings.Fields(fields), strings.Fields(after)
	in, found := strings.CutPrefix(f[4], g.b.Rootfs+"/")
	if !found || strings.HasPrefix(in, "proc") || strings.HasPrefix(in, "sys") || len(src) < 2 {
		return false
	}
	return src[1] == broughtSource && (f[3] == broughtRoot || strings.HasPrefix(f[3], broughtRoot+"/")) || src[1] == "oci-cdi-hook" && f[3] == "/node"
}

// tidy makes the container as it was for the next round.
func (g *ring) tidy() {
	g.t.Helper()
	g.held.Unmount(g.made())
	g.b.Sweep(g.names)
	bed.RemoveRecords(g.t)
	if lost := missing(g.names, g.b.Names()); len(lost) > 0 {
		g.t.Fatalf("gone from the rootfs: %v", lost)
	}
}

func missing(want, have map[string]bool) (out []string) {
	for name := range want {
		if !have[name] {
			out = append(out, name)
		}
	}
	return out
}

func (g *ring) swap() {
	g.t.Helper()
	if err := bed.Exchange(filepath.Join(g.b.Rootfs, g.a), filepath.Join(g.b.Rootfs, g.race.b)); err != nil {
		g.t.Fatal(err)
	}
}
