package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// TestFailureHalfWay makes the hook fail after some of its work could have been done: nothing may stay.
func TestFailureHalfWay(t *testing.T) {
	const nodes = "deviceNodes: [{path: /opt/one, hostPath: /dev/fuse}, {path: /opt/sub/two, hostPath: /dev/loop-control}]"
	mounts := func(third string) string {
		return "mounts:\n" + mountItem("/opt/t/1", "/usr/lib/a/1", "options: [bind]") + mountItem("/opt/t/2", "/usr/lib/a/2", "options: [bind]") +
			third + mountItem("/opt/t/4", "/usr/lib/a/4", "options: [bind]")
	}
	fourth := mountItem("/opt/t/3", "/usr/lib/a/3", "options: [bind]")
	compareAll(t, []row{
		{
			name: "third mount without a source", spec: device(nodes, mounts(fourth)), refused: "/opt/t/3", bare: true,
			host: func(h *bed.Host) {
				for _, n := range []string{"1", "2", "4"} {
					h.File("/opt/t/"+n, n, 0o644)
				}
			},
		},
		{
			name: "third mount onto a folder", spec: device(nodes, mounts(mountItem("/opt/t/3", "/usr/lib/a", "options: [bind]"))), refused: "/usr/lib/a",
		},
		{name: "second node over a file", spec: device(nodes), bundle: func(b *bed.Bundle) { b.File("/opt/sub/two", "of the image") }, native: always(starts), refused: "/opt/sub/two"},
		{name: "vendor hook fails", spec: device(nodes, mounts(fourth), hooksOf(vendor("createRuntime", "quiet"), vendor("createContainer", "quiet", "exit=7"))), refused: vendorPath},
	})
}

// TestKilledHalfWay kills the hook while a vendor's hook runs; the next start sweeps what it left.
func TestKilledHalfWay(t *testing.T) {
	const fifo, reached = "/run/bed/work/never", "/run/bed/work/reached"
	for _, stage := range []string{"createRuntime", "createContainer"} {
		r := row{
			spec: device("deviceNodes: [{path: /opt/one, hostPath: /dev/fuse}]", mountOf("/opt/t/1", "/usr/lib/a/1", "options: [bind]"),
				hooksOf(vendor(stage, "quiet", "hold="+fifo, "state="+reached))) + "- {name: b, containerEdits: {deviceNodes: [{path: /dev/b, hostPath: /dev/fuse}]}}\n",
			host: func(h *bed.Host) { h.Pipe(fifo) },
		}
		t.Run(stage, func(t *testing.T) { bed.Each(t, func(t *testing.T, rt bed.Runtime) { r.killAndSweep(t, rt, reached) }) })
	}
}

func (r row) killAndSweep(t *testing.T, rt bed.Runtime, reached string) {
	untouched := r.run(t, rt, failing, r.prepare(t)).tree
	b := bed.NewBundle(t)
	killHookDuring(t, b, rt, reached)
	if n := len(bed.Records(t)); n != 1 {
		t.Errorf("%d journals instead of one", n)
	}
	if len(report.Diff(untouched, b.Tree())) == 0 {
		t.Error("nothing was left, so nothing can be swept")
	}
	other := bed.NewBundleBeside(t)
	other.Annotate("v.example/dev=b")
	other.Register()
	other.Ask(report.Ask{})
	other.Write()
	other.Report(rt)
	requireSame(t, "an untouched rootfs and one after the sweep", untouched, b.Tree(), nil)
	if names := bed.Records(t); len(names) != 1 || !strings.HasPrefix(names[0], other.ID+"-") {
		t.Errorf("the state folder has %v, not one record of %s", names, other.ID)
	}
}

func killHookDuring(t *testing.T, b *bed.Bundle, rt bed.Runtime, reached string) {
	t.Helper()
	b.Annotate("v.example/dev=a")
	b.Ask(report.Ask{})
	b.Register()
	b.Write()
	start := b.Start(rt)
	bed.WaitFor(t, "the vendor's hook", func() bool { _, err := os.Stat(reached); return err == nil })
	hooks := running(t, bed.Hook(t))
	// an engine kills the runtime's child; what that one started is to see to itself
	outer := slices.DeleteFunc(slices.Clone(hooks), func(pid int) bool { return slices.Contains(hooks, parent(t, pid)) })
	if len(outer) != 1 {
		t.Fatalf("of the hook's processes %v %v are no child of another", hooks, outer)
	}
	if err := syscall.Kill(outer[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res := start.Wait(); !res.Refused() {
		t.Errorf("the container started without its devices: %s", res.Stdout)
	}
	bed.WaitFor(t, "the end of the vendor's hook", func() bool { return len(running(t, vendorPath)) == 0 })
}

// running finds the processes of a program.
func running(t *testing.T, path string) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, link := range all {
		if to, err := os.Readlink(link); err == nil && to == path {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			out = append(out, pid)
		}
	}
	return out
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "PPid:")
	ppid, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}
