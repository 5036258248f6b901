package integration

import (
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// Two native twins must look alike, and one without the devices must not: else the parity tests below would prove nothing.
func TestTheComparisonItself(t *testing.T) {
	r := row{fixture: "nvidia-dgpu.yaml", devices: []string{"nvidia.com/gpu=0"}, sweep: true}
	without := func(*bed.Bundle, []string) error { return nil }
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		targets := r.prepare(t)
		one, two, none := r.run(t, rt, natively, targets), r.run(t, rt, natively, targets), r.run(t, rt, without, targets)
		if d := report.Diff(one.lines, two.lines); len(d) > 0 {
			t.Errorf("two native twins differ:\n%s", strings.Join(d, "\n"))
		}
		for _, want := range []string{"path /dev/nvidia0 ENOENT", "path /usr/bin/nvidia-smi ENOENT"} {
			if !slices.Contains(none.lines, want) {
				t.Errorf("without the annotation there is no line %q", want)
			}
		}
		opened := func(o outcome) (n int) {
			for _, l := range o.lines {
				if strings.HasPrefix(l, "path /dev/nvidia") && strings.Contains(l, "open=ok access=rw") {
					n++
				}
			}
			return n
		}
		if n := opened(one); n < 2 {
			t.Errorf("%d of the stand-in nodes open, too few to tell:\n%s", n, strings.Join(one.lines, "\n"))
		}
	})
}
