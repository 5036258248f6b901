package integration

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// TestCVE_2019_5736: a container opened /proc/PID/exe of the runc that had entered it, and later wrote to it: the host's own binary. The
// hook never enters a pid namespace, but a vendor's createContainer hook runs in the container's; where pods share that, a neighbour
// sees it. It must not get at the program.
func TestCVE_2019_5736(t *testing.T) {
	const volume, fifo, reached = "/run/bed/volume", "/run/bed/work/hold", "/run/bed/work/reached"
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		h := bed.NewHost(t)
		h.Dir(volume)
		h.Pipe(fifo)
		h.StandInsFor(bed.WriteSpec(t, "spec.yaml", device(hooksOf(vendor("createContainer", "quiet", "state="+reached, "hold="+fifo)))))
		pids, stop := bed.StartSnatcher(t, rt, volume)
		binaries := []string{bed.Hook(t), vendorPath, rt.Path}
		before := sums(t, binaries)
		b := bed.NewBundle(t)
		b.JoinPids(pids)
		b.Ask(report.Ask{})
		b.Annotate("v.example/dev=a")
		b.Register()
		b.Write()
		start := b.Start(rt)
		bed.WaitFor(t, "the vendor's hook", func() bool { _, err := os.Stat(reached); return err == nil })
		first, _ := looked(volume)
		seen, others := 0, 0
		bed.WaitFor(t, "fifty looks of the attacker", func() bool {
			n, all := looked(volume)
			seen, others = n-first, max(others, all)
			return seen >= 50 && others > 0
		})
		if others < 2 {
			t.Errorf("the attacker saw %d processes, not even the container's and the hook's", others)
		}
		if hold, err := os.OpenFile(fifo, os.O_WRONLY, 0); err != nil {
			t.Error(err)
		} else {
			hold.Close()
		}
		taken, err := os.ReadFile(volume + "/taken")
		if err == nil {
			t.Errorf("the neighbour opened %s", taken)
		}
		if res := start.Wait(); res.Refused() {
			t.Errorf("the container did not start: %s", res.Stderr)
		}
		stop()
		requireSame(t, "programs of the host before and after", before, sums(t, binaries), nil)
		t.Logf("attacked: %d looks at all processes while a vendor's hook ran in the namespace; lost: 0", seen)
	})
}

// looked tells how often the attacker has looked, and how many other processes it saw the last time.
func looked(volume string) (n, others int) {
	raw, err := os.ReadFile(volume + "/seen")
	if err == nil {
		fmt.Sscan(string(raw), &n, &others) //nolint:errcheck // it may be half written
	}
	return n, others
}

func sums(t *testing.T, files []string) (out []string) {
	t.Helper()
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %x", f, sha256.Sum256(raw)))
	}
	return out
}

// TestCVE_2024_21626: runc left a descriptor of the host open in the container, and a working directory could be in it. The hook, called
// with a descriptor of the host that its engine forgot, must pass it to nobody; its vendors' hooks have three, and stand in the bundle.
func TestCVE_2024_21626(t *testing.T) {
	for _, way := range []struct {
		name  string
		image func(*bed.Bundle)
	}{{"root of the host", func(*bed.Bundle) {}}, {"user namespace", mapped}} {
		t.Run(way.name, func(t *testing.T) {
			bed.Each(t, func(t *testing.T, rt bed.Runtime) { leakTo(t, rt, way.image) })
		})
	}
}

func leakTo(t *testing.T, rt bed.Runtime, image func(*bed.Bundle)) {
	bed.LeavesNothing(t)
	g := race{
		edits: []string{"deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", hooksOf(vendor("createRuntime", "outer"), vendor("createContainer", "inner"))},
		image: func(b *bed.Bundle) { b.File("/hooks-were-here", ""); b.Mode("/hooks-were-here", 0o666); image(b) },
	}.enter(t, rt)
	shell := append([]string{bed.ToolBusybox, "sh", "-c", `exec 7<` + bed.CanaryDir + ` 9<` + bed.CanaryDir + `/file "$@"`, "sh"}, g.program...)
	g.last = bed.Run(t, g.state, nil, shell...)
	if g.last.Code != 0 {
		t.Fatal(g.last.Stderr)
	}
	traces := bed.Traces(t)
	if len(traces) != 2 {
		t.Errorf("%d of 2 vendors' hooks ran", len(traces))
	}
	for _, tr := range traces {
		if len(tr.Extra) > 0 || tr.Dir != g.b.Dir && tr.Dir != "/" {
			t.Errorf("hook %v stands in %s with descriptors %v", tr.Args, tr.Dir, tr.Extra)
		}
	}
	g.canary.Touched() // opened by the shell
	g.leave()
}

// The container's process has no descriptor either that it would not have natively.
func TestContainerHasNoDescriptors(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		b, _ := newLife(t, lifeSpec())
		l := life{t, b, rt}
		l.create()
		b.Must(rt, "start", b.ID)
		dir := fmt.Sprintf("/proc/%d/", l.pid())
		bed.WaitFor(t, "the program", func() bool { raw, _ := os.ReadFile(dir + "cmdline"); return strings.HasPrefix(string(raw), "/busybox") })
		entries, err := os.ReadDir(dir + "fd")
		if err != nil || len(entries) != 3 {
			t.Errorf("%d descriptors: %v", len(entries), err)
		}
		b.Delete(rt)
		bed.Traces(t)
		bed.TakeLog(t)
	})
}
