package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

const image = "localhost/probe:latest"

func podmanCgroup() string { return bed.Prefix + "podman" }

// engine is a podman with folders of its own and one image, of the probe alone.
type engine struct {
	t    *testing.T
	args []string
	env  []string
}

func newEngine(t *testing.T, rt bed.Runtime, hooksDir string) engine {
	t.Helper()
	dir := bed.WorkDir + "/podman"
	path, err := exec.LookPath("podman")
	if err != nil {
		t.Fatalf("podman is needed here (Debian: apt-get install podman): %v", err)
	}
	e := engine{t, []string{
		path, "--runtime", rt.Path, "--root", dir + "/root", "--runroot", dir + "/run", "--tmpdir", dir + "/tmp", "--storage-driver", "vfs",
		"--cgroup-manager", "cgroupfs", "--events-backend", "file", "--network-config-dir", dir + "/cni", "--hooks-dir", hooksDir,
	}, bed.PodmanEnv(t)}
	tar := exec.Command("tar", "-c", "-C", filepath.Dir(bed.Tool("probe")), "probe")
	raw, err := tar.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/probe.tar", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	e.must("import", dir+"/probe.tar", image)
	t.Cleanup(func() { bed.RemoveCgroups(t, podmanCgroup()) })
	t.Cleanup(func() { e.must("rm", "--all", "--force"); e.must("rmi", "--all", "--force") })
	return e
}

func (e engine) call(args ...string) bed.Result {
	e.t.Helper()
	return bed.Run(e.t, "", e.env, slices.Concat(e.args, args)...)
}

func (e engine) must(args ...string) bed.Result {
	e.t.Helper()
	res := e.call(args...)
	if res.Refused() {
		e.t.Fatalf("podman %s: exit %d: %s", strings.Join(args, " "), res.Code, res.Stderr)
	}
	return res
}

// run starts a container of the probe with further flags of podman run.
func (e engine) run(rt bed.Runtime, ask report.Ask, flags ...string) bed.Result {
	e.t.Helper()
	raw, err := json.Marshal(ask)
	if err != nil {
		e.t.Fatal(err)
	}
	if strings.HasPrefix(rt.Name, "runc-1.5") {
		flags = append(flags, "--security-opt", "seccomp=unconfined") // ours is built without libseccomp
	}
	return e.call(slices.Concat([]string{
		"run", "--rm", "--network=none", "--log-driver=k8s-file",
		"--cgroup-parent", "/" + podmanCgroup(), "--annotation", "run.oci.hooks.stderr=" + bed.WorkDir + "/hooks.stderr",
	}, bed.PodmanLimits(e.t), flags, []string{image, "/probe", string(raw)})...)
}

// TestPodman uses what make install writes, at the paths it writes it to.
func TestPodman(t *testing.T) {
	spec := device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", mountOf("/opt/t/f", "/opt/f", "options: [bind, ro]"), hooksOf(vendor("createContainer", "inner")))
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		h := bed.NewHost(t)
		hooks := h.Install(bed.Hook(t))
		h.Dir("/etc/cdi")
		h.File("/etc/cdi/v.yaml", spec, 0o644)
		h.StandInsFor("/etc/cdi/v.yaml")
		e := newEngine(t, rt, hooks)
		ask := report.Ask{Paths: []string{"/dev/one", "/opt/f"}, Sweep: bed.AllNumbers(t)}

		without := e.run(rt, ask)
		if without.Refused() || strings.Contains(without.Stderr, "oci-cdi-hook") {
			t.Fatalf("without an annotation: exit %d: %s", without.Code, without.Stderr)
		}
		plain := bed.ReadReport(t, without.Stdout)
		if entries, err := os.ReadDir("/run/oci-cdi-hook"); err == nil {
			t.Errorf("without an annotation there is /run/oci-cdi-hook with %v", entries)
		}

		with := e.run(rt, ask, "--annotation", "cdi.k8s.io/x=v.example/dev=a")
		if with.Refused() {
			t.Fatalf("exit %d: %s", with.Code, with.Stderr)
		}
		given := bed.ReadReport(t, with.Stdout)
		requireSame(t, "without and with the annotation", facts(plain), facts(given), []string{
			"-path /dev/one ENOENT", "-path /opt/f ENOENT",
			"+path /dev/one c 10:229 0600 0:0 open=ok access=rw", `+path /opt/f - 0644 0:0 has="stand-in of /opt/t/f"`, "+allowed c 10:229 rwm",
		})
		if n := len(bed.Traces(t)); n != 1 {
			t.Errorf("%d vendor hooks ran instead of one", n)
		}

		wrong := e.run(rt, ask, "--annotation", "cdi.k8s.io/x=v.example/dev=b")
		if !wrong.Refused() || wrong.Stdout != "" {
			t.Errorf("a container started with an unknown device: %s", wrong.Stdout)
		}
		if !rt.IsCrun() && !strings.Contains(wrong.Stderr, "v.example/dev=b") {
			t.Errorf("the reason lacks the device: %s", wrong.Stderr)
		}
		bed.DropRecords(t, "/run/oci-cdi-hook")
	})
}

func facts(r report.Report) []string {
	r.Mounts, r.Env, r.Groups = nil, nil, nil
	return r.Lines(nil)
}

// TestHooksFile loads what is installed with the engines' own loader.
func TestHooksFile(t *testing.T) {
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	dir := h.Install(bed.Hook(t))
	for _, c := range []struct {
		annotation string
		matches    bool
	}{
		{"cdi.k8s.io/gpu=v.example/dev=a", true},
		{"cdi.k8s.io/gpu=", true},
		{"cdi.k8s.io/gpu=a\nb", true},
		{"", false},
		{"xcdi.k8s.io/gpu=a", false},
		{"cdixk8sxio/gpu=a", false},
		{"other=cdi.k8s.io/gpu", false},
	} {
		args := []string{bed.Tool("hooks"), dir}
		if c.annotation != "" {
			args = append(args, c.annotation)
		}
		res := bed.Run(t, "", nil, args...)
		if res.Refused() {
			t.Fatalf("the loader: %s", res.Stderr)
		}
		got := strings.Contains(res.Stdout, `"createRuntime"`)
		if got != c.matches {
			t.Errorf("annotation %q: matched %v: %s", c.annotation, got, res.Stdout)
		}
		if strings.Contains(res.Stdout, "prestart") || strings.Contains(res.Stdout, "poststop") && !strings.Contains(res.Stdout, `"args"`) {
			t.Errorf("another stage: %s", res.Stdout)
		}
	}
}
