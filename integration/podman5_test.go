package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// The folders of hooks.d as the README has them.
const (
	directDir = "/usr/share/containers/oci/hooks.d"
	filterDir = "/usr/share/containers/oci-cdi-hook/precreate.d"
)

// podman5 is a podman of trixie's with a runtime and the entries of one mode.
type podman5 struct {
	t       *testing.T
	x       *bed.Trixie
	runtime string
	filter  bool
}

func (p podman5) call(argv ...string) bed.Result {
	p.t.Helper()
	return bed.Run(p.t, "", nil, p.x.Command(append([]string{"podman"}, argv...)...)...)
}

func (p podman5) must(argv ...string) bed.Result {
	p.t.Helper()
	res := p.call(argv...)
	if res.Refused() {
		p.t.Fatalf("podman %s: exit %d: %s", strings.Join(argv, " "), res.Code, res.Stderr)
	}
	return res
}

// configure writes what an administrator would, and what this bed cannot do without.
func (p podman5) configure() {
	p.t.Helper()
	dirs := []string{directDir}
	if p.filter {
		dirs = append(dirs, filterDir)
	}
	raw, err := json.Marshal(dirs)
	if err != nil {
		p.t.Fatal(err)
	}
	p.x.Write("/etc/containers/containers.conf", fmt.Sprintf(`[containers]
pids_limit = 0
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = %q
hooks_dir = %s
cgroup_manager = "cgroupfs"
events_logger = "file"
`, p.runtime, raw))
}

// newTrixie is one with the hook, a spec and an image.
func newTrixie(t *testing.T, spec string) *bed.Trixie {
	t.Helper()
	x := bareTrixie(t, spec)
	x.Install(bed.Hook(t))
	return x
}

// bareTrixie is the same without the hook.
func bareTrixie(t *testing.T, spec string) *bed.Trixie {
	t.Helper()
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	h.StandInsFor(bed.WriteSpec(t, "spec.yaml", spec))
	x := bed.NewTrixie(t)
	x.Write("/etc/cdi/v.yaml", spec)
	x.Write(configFile, "log = \""+bed.LogFile+"\"\n")
	x.Write("/etc/containers/storage.conf", "[storage]\ndriver = \"vfs\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \"/var/lib/containers/storage\"\n")
	res := bed.Run(t, "", nil, x.Command("sh", "-c", "tar -c -C / run/bed/bin/probe bin/busybox | tar -x -C /tmp; cd /tmp && mv run/bed/bin/probe bin/busybox . && tar -c probe busybox | podman import - "+image)...)
	if res.Refused() {
		t.Fatalf("import: %s", res.Stderr)
	}
	return x
}

// TestPodman5 drives today's podman through a container's life, with the direct entries alone and with the filter.
func TestPodman5(t *testing.T) {
	if bed.Cgroup() != bed.V2 {
		return // podman 5 gives v1 up
	}
	x := newTrixie(t, device(oneNode, "env: [FROM_CDI=1]", mountOf("/opt/t/f", "/opt/f", "options: [bind, ro]"),
		hooksOf(vendor("createRuntime", "made"), vendor("poststart", "started"), vendor("poststop", "stopped"))))
	t.Run("quadlet", func(t *testing.T) { testQuadlet(t, x) })
	for _, runtime := range []string{"crun", "runc"} {
		for mode, filter := range map[string]bool{"direct": false, "filter": true} {
			t.Run(runtime+" "+mode, func(t *testing.T) {
				p := podman5{t, x, runtime, filter}
				p.configure()
				p.testRun()
				p.testLife()
				p.testKube()
				if left := bed.StateFiles(t, x.Path(podmanState)); len(left) > 0 {
					t.Errorf("left in the state folder: %v", left)
				}
			})
		}
	}
}

func (p podman5) testRun() {
	p.t.Helper()
	raw, err := json.Marshal(report.Ask{Paths: []string{"/dev/one", "/opt/f"}})
	if err != nil {
		p.t.Fatal(err)
	}
	run := []string{"run", "--rm", image, "/probe", string(raw)}
	plain := bed.ReadReport(p.t, p.must(run...).Stdout)
	requireRan(p.t, "a run without a request")
	given := bed.ReadReport(p.t, p.must(slices.Insert(run, 1, "--annotation", asking)...).Stdout)
	want := []string{
		"-path /dev/one ENOENT", "-path /opt/f ENOENT",
		"+path /dev/one c 10:229 0600 0:0 open=ok access=rw", `+path /opt/f - 0644 0:0 has="stand-in of /opt/t/f"`,
	}
	if p.filter {
		want = append(want, "+env FROM_CDI=1")
	}
	requireSame(p.t, "without and with the annotation", filtered(plain), filtered(given), want)
	requireRan(p.t, "a run", "made", "started", "stopped")
	if log := bed.TakeLog(p.t); strings.Contains(log, "left out: env FROM_CDI=1") == p.filter {
		p.t.Errorf("the log has %s", log)
	}
	refused := p.call(slices.Insert(run, 1, "--annotation", "cdi.k8s.io/x=v.example/dev=none")...)
	if !refused.Refused() || refused.Stdout != "" || !strings.Contains(bed.TakeLog(p.t), "v.example/dev=none") {
		p.t.Errorf("an unknown device: exit %d: %s", refused.Code, refused.Stderr)
	}
}

func (p podman5) testLife() {
	p.t.Helper()
	const name = "life"
	p.must("run", "--detach", "--name", name, "--annotation", asking, image, "/busybox", "sleep", "1000")
	p.requireInside(name, "run")
	p.must("pause", name)
	p.must("unpause", name)
	p.requireInside(name, "unpause")
	p.must("update", "--restart", "on-failure", name)
	if p.runtime == "crun" {
		// podman has crun write the rules anew, from its own record, which knows of no hook's work
		requireWords(p.t, "update on crun", p.lookInside(name), []string{"path /dev/one c 10:229 0600 0:0 open=EPERM"})
	} else {
		p.requireInside(name, "update")
	}
	p.must("restart", "--time", "0", name)
	p.requireInside(name, "restart")
	p.must("stop", "--time", "0", name)
	p.must("start", name)
	p.requireInside(name, "start")
	p.must("rm", "--force", "--time", "0", name)
	requireRan(p.t, "run, restart, stop, start, rm", slices.Repeat([]string{"made", "started", "stopped"}, 3)...)
	bed.TakeLog(p.t)
}

// lookInside looks from a second process in the container.
func (p podman5) lookInside(name string) string {
	p.t.Helper()
	res := p.must("exec", name, "/probe", `{"paths":["/dev/one","/opt/f"]}`)
	return strings.Join(facts(bed.ReadReport(p.t, res.Stdout)), "\n")
}

func (p podman5) requireInside(name, when string) {
	p.t.Helper()
	requireWords(p.t, when, p.lookInside(name), []string{
		"path /dev/one c 10:229 0600 0:0 open=ok access=rw", `path /opt/f - 0644 0:0 has="stand-in of /opt/t/f"`,
	})
}

const kubeYAML = `apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    cdi.k8s.io/x: v.example/dev=a
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: ` + image + `
    imagePullPolicy: Never
    command: [/busybox, sleep, "1000"]
`

// testQuadlet has podman's generator read what the documentation says.
func testQuadlet(t *testing.T, x *bed.Trixie) {
	raw, err := os.ReadFile("../docs/podman.md")
	if err != nil {
		t.Fatal(err)
	}
	_, unit, _ := strings.Cut(string(raw), "<!-- test: quadlet -->\n```ini\n")
	unit, _, found := strings.Cut(unit, "```")
	if !found {
		t.Fatal("docs/podman.md has no quadlet")
	}
	x.Write("/etc/containers/systemd/device.container", unit)
	res := bed.Run(t, "", nil, x.Command("/usr/libexec/podman/quadlet", "-dryrun")...)
	if res.Refused() {
		t.Fatalf("quadlet: exit %d: %s", res.Code, res.Stderr)
	}
	requireWords(t, "the service", res.Stdout, []string{"---device.service---", "podman run", "--annotation cdi.k8s.io/gpu=vendor.com/device=myDevice"})
}

// testKube: podman's own pods count as its containers, and need no rule.
func (p podman5) testKube() {
	p.t.Helper()
	p.x.Write("/root/pod.yaml", kubeYAML)
	p.must("kube", "play", "--network", "none", "/root/pod.yaml")
	p.requireInside("pod-main", "kube play")
	p.must("kube", "down", "--force", "/root/pod.yaml")
	requireRan(p.t, "kube play and down", "made", "started", "stopped") // once: the infra container gets nothing
	bed.TakeLog(p.t)
}
