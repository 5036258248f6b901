package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
)

const (
	podmanState = "/run/oci-cdi-hook"
	configFile  = "/etc/oci-cdi-hook/config.toml"
)

// podmanHost is a host with the installed program, a spec, and a configuration that has it log to a file.
func podmanHost(t *testing.T, spec string) (h *bed.Host, hooks string) {
	t.Helper()
	bed.LeavesNothing(t)
	h = bed.NewHost(t)
	hooks = h.Install(bed.Hook(t))
	h.Dir("/etc/cdi")
	h.File("/etc/cdi/v.yaml", spec, 0o644)
	h.StandInsFor("/etc/cdi/v.yaml")
	h.File(configFile, "log = \""+bed.LogFile+"\"\n", 0o644)
	t.Cleanup(func() { os.RemoveAll(podmanState) })
	return h, hooks
}

// live starts a container that lives until it is stopped.
func (e engine) live(rt bed.Runtime, name string, flags ...string) bed.Result {
	e.t.Helper()
	if strings.HasPrefix(rt.Name, "runc-1.5") {
		flags = append(flags, "--security-opt", "seccomp=unconfined") // ours is built without libseccomp
	}
	return e.call(slices.Concat([]string{
		"run", "--detach", "--name", name, "--network=none", "--log-driver=k8s-file", "--cgroup-parent", "/" + podmanCgroup(),
		"--volume", bed.ToolBusybox + ":/busybox:ro",
	}, bed.PodmanLimits(e.t), flags, []string{image, "/busybox", "sleep", "1000"})...)
}

const asking = "cdi.k8s.io/x=v.example/dev=a"

// TestPodmanLifecycle: each start and each stop of a container runs the vendors' hooks, with or without the spec.
func TestPodmanLifecycle(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		_, hooks := podmanHost(t, lifeSpec(vendor("poststop", "failing", "stderr=told-why", "exit=3")))
		e := newEngine(t, rt, hooks)
		const name = "life"
		if res := e.live(rt, name, "--annotation", asking); res.Refused() {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
		begin, end := []string{"made", "started"}, []string{"failing", "stopped"}
		requireRan(t, "run", begin...)
		e.must("restart", "--time", "0", name)
		requireRan(t, "restart", slices.Concat(end, begin)...)
		e.must("stop", "--time", "0", name)
		e.must("wait", name)
		requireRan(t, "stop", end...)
		requireNoState(t, "stop", podmanState)
		e.must("start", name)
		requireRan(t, "start", begin...)
		if n := len(bed.StateFiles(t, podmanState)); n != 2 {
			t.Errorf("%d files of a record and its lock", n)
		}
		if err := os.Remove("/etc/cdi/v.yaml"); err != nil {
			t.Fatal(err)
		}
		e.must("rm", "--force", "--time", "0", name)
		requireRan(t, "rm", end...)
		requireNoState(t, "rm", podmanState)
		if log := bed.TakeLog(t); strings.Count(log, "told-why") != 3 || !strings.Contains(log, `OCI_STAGE="poststop"`) {
			t.Errorf("the log does not have the failure three times: %s", log)
		}
	})
}

// TestPodmanWithoutLaterEntries: an administrator may install the direct entry alone.
func TestPodmanWithoutLaterEntries(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		h, hooks := podmanHost(t, lifeSpec())
		e := newEngine(t, rt, onlyDirect(t, h, hooks))
		if res := e.live(rt, "short", "--annotation", asking); res.Refused() {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
		e.must("rm", "--force", "--time", "0", "short")
		requireRan(t, "start and rm", "made")
		log := bed.TakeLog(t)
		for _, stage := range []string{"poststart", "poststop"} {
			if !strings.Contains(log, "warning: left out: hooks "+stage+" "+vendorPath) {
				t.Errorf("the log lacks %s: %s", stage, log)
			}
		}
	})
}

// onlyDirect copies the direct entry into a folder of its own.
func onlyDirect(t *testing.T, h *bed.Host, hooks string) string {
	t.Helper()
	const name = "oci-cdi-hook.json"
	raw, err := os.ReadFile(filepath.Join(hooks, name))
	if err != nil {
		t.Fatal(err)
	}
	dir := bed.WorkDir + "/hooks.d"
	h.File(filepath.Join(dir, name), string(raw), 0o644)
	return dir
}

// TestPodmanFailedCreate: podman calls no poststop for a container that was never made, the next start does.
func TestPodmanFailedCreate(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		h, hooks := podmanHost(t, lifeSpec())
		failing := `{"version":"1.0.0","hook":{"path":"` + bed.ToolVendorHook + `","args":["x","quiet","exit=1"]},"when":{"annotations":{"^fail$":".*"}},"stages":["createRuntime"]}`
		h.File(hooks+"/zz-failing.json", failing, 0o644)
		e := newEngine(t, rt, hooks)
		if !e.live(rt, "never", "--annotation", asking, "--annotation", "fail=1").Refused() {
			t.Error("the container runs")
		}
		e.must("rm", "--force", "never")
		if res := e.live(rt, "next", "--annotation", asking); res.Refused() {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
		requireRan(t, "one failed, the next runs", "made", "stopped", "made", "started")
		e.must("rm", "--force", "--time", "0", "next")
		requireRan(t, "rm", "stopped")
		requireNoState(t, "rm", podmanState)
	})
}
