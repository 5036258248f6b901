package integration

import (
	"testing"

	"oci-cdi-hook/integration/bed"
)

// TestSiblingExchangesVolume has another container exchange a folder of a volume that both share for a link, as fast as it can, while
// the hook mounts and makes nodes below it. Before each of the hook's system calls the exchange is waited for, so that it is hit.
func TestSiblingExchangesVolume(t *testing.T) {
	const volume = "/run/bed/volume"
	for _, r := range []struct {
		name string
		race
	}{
		{"parents that are missing", race{
			edits: []string{"mounts:\n" + mountItem(brought, "/vol/x/a/b", "options: [bind]") + mountItem(brought+"/mark", "/vol/x/f", "options: [bind]")},
			host:  func(h *bed.Host) { h.Dir(volume + "/x"); h.Link(volume+"/y", bed.CanaryDir+"/dir") },
		}},
		{"a target that is there", race{
			edits: []string{mountOf(brought, "/vol/x/t", "options: [rbind]")},
			host: func(h *bed.Host) {
				h.Dir(volume + "/x/t")
				h.Link(volume+"/y", bed.CanaryDir)
				h.Dir(volume + "/other")
			},
		}},
		{"the target itself", race{
			edits: []string{mountOf(brought, "/vol/x", "options: [rbind]")},
			host:  func(h *bed.Host) { h.Dir(volume + "/x"); h.Link(volume+"/y", "/proc/self/root") },
		}},
	} {
		r.image = func(b *bed.Bundle) { b.Volume(volume, "/vol") }
		t.Run(r.name, func(t *testing.T) { r.besides(t, volume) })
	}
}

func (r race) besides(t *testing.T, volume string) {
	if bed.Cgroup() == bed.V1 && !bed.Long() {
		return
	}
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		g := r.enter(t, rt)
		attacker := bed.StartSwapper(t, rt, volume, "x", "y")
		var n tally
		calls, flips := 0, 0
		for range bed.Pick(3, 40) {
			n.count(g.beside(attacker, &calls, &flips))
		}
		attacker.Stop()
		t.Logf("attacked: %v; an exchange seen at %d of %d system calls", n, flips, calls)
		if flips == 0 {
			t.Error("nothing was hit")
		}
		g.leave()
	})
}

func (g *ring) beside(attacker *bed.Swapper, calls, flips *int) (o round) {
	g.t.Helper()
	g.last = bed.Step(g.t, g.state, func(m bed.Moment) {
		if m.Inside == 0 {
			return
		}
		*calls++
		if attacker.Flip() {
			*flips++
			o.hit = true
		}
	}, g.program...)
	o.given = g.last.Code == 0
	g.judge("beside an attacker: " + g.last.Stderr)
	attacker.Rest(func() { g.tidy(); attacker.Sweep() })
	return o
}
