package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// installFilter puts the filter's entry where it is installed and returns the folder, which is not the shared one.
func installFilter(t *testing.T, h *bed.Host) string {
	t.Helper()
	const dir = "/usr/share/containers/oci-cdi-hook/precreate.d"
	const name = "oci-cdi-hook-precreate.json"
	raw, err := os.ReadFile(filepath.Join("../oci-hooks.d/precreate", name))
	if err != nil {
		t.Fatal(err)
	}
	h.Dir(dir)
	h.File(filepath.Join(dir, name), string(raw), 0o644)
	return dir
}

// TestPrecreate gives podman the filter beside the direct entry: everything of CDI comes in, and direct mode finds it done.
func TestPrecreate(t *testing.T) {
	spec := device("env: [FROM_CDI=1]", "additionalGids: [44]",
		"deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}, {path: /dev/two, hostPath: /dev/null, permissions: none}]",
		mountOf("/opt/t/f", "/opt/f", "options: [bind, ro]"), hooksOf(vendor("createRuntime", "outer"), vendor("poststop", "last")))
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		h := bed.NewHost(t)
		direct := h.Install(bed.Hook(t))
		h.Dir("/etc/cdi")
		h.File("/etc/cdi/v.yaml", spec, 0o644)
		h.StandInsFor("/etc/cdi/v.yaml")
		e := newEngine(t, rt, direct)
		e.args = append(e.args, "--hooks-dir", installFilter(t, h))
		ask := report.Ask{Paths: []string{"/dev/one", "/dev/two", "/opt/f"}}

		without := e.run(rt, ask)
		if without.Refused() {
			t.Fatalf("without an annotation: exit %d: %s", without.Code, without.Stderr)
		}
		plain := bed.ReadReport(t, without.Stdout)

		const name = "precreate"
		first := e.run(rt, ask, "--rm=false", "--name", name, "--annotation", "cdi.k8s.io/x=v.example/dev=a")
		again := e.call("start", "--attach", name)
		for when, res := range map[string]bed.Result{"run": first, "start": again} {
			if res.Refused() {
				t.Fatalf("%s: exit %d: %s", when, res.Code, res.Stderr)
			}
			given := bed.ReadReport(t, res.Stdout)
			requireSame(t, when+", without and with the annotation", filtered(plain), filtered(given), []string{
				"-path /dev/one ENOENT", "-path /dev/two ENOENT", "-path /opt/f ENOENT",
				"+path /dev/one c 10:229 0600 0:0 open=ok access=rw", "+path /dev/two c 1:3 0666 0:0 open=ok access=rw",
				`+path /opt/f - 0644 0:0 has="stand-in of /opt/t/f"`, "+env FROM_CDI=1", "+group 44",
			})
			if n := countMounts(given, "/opt/f"); n != 1 {
				t.Errorf("%s: %d mounts at /opt/f", when, n)
			}
		}
		e.must("rm", "--force", name)
		// Once each, for two starts, although both stages know of them.
		if n := len(bed.Traces(t)); n != 4 {
			t.Errorf("%d vendor hooks ran instead of 4", n)
		}

		wrong := e.run(rt, ask, "--annotation", "cdi.k8s.io/x=v.example/dev=b")
		if !wrong.Refused() || wrong.Stdout != "" {
			t.Errorf("a container started with an unknown device: %s", wrong.Stdout)
		}
		bed.DropRecords(t, "/run/oci-cdi-hook")
	})
}

// filtered leaves out what differs from container to container.
func filtered(r report.Report) []string {
	r.Mounts = nil
	r.Env = slices.DeleteFunc(slices.Sorted(slices.Values(r.Env)), func(e string) bool { return strings.HasPrefix(e, "HOSTNAME=") })
	return r.Lines(nil)
}

func countMounts(r report.Report, point string) int {
	n := 0
	for _, m := range r.Mounts {
		if m.Point == point {
			n++
		}
	}
	return n
}

// TestFilterFile checks that the filter's entry cannot take the direct one's place, nor come into the shared folder.
func TestFilterFile(t *testing.T) {
	filters, err := filepath.Glob("../oci-hooks.d/precreate/*.json")
	if err != nil || len(filters) == 0 {
		t.Fatalf("no hooks.d file: %v", err)
	}
	shared, err := filepath.Glob("../oci-hooks.d/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(filters, shared) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Stages []string }
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		isFilter := slices.Contains(filters, path)
		if isFilter != slices.Equal(doc.Stages, []string{"precreate"}) || !isFilter && slices.Contains(doc.Stages, "precreate") {
			t.Errorf("%s: stages %q", path, doc.Stages)
		}
		if isFilter && slices.Contains(shared, filepath.Join("../oci-hooks.d", filepath.Base(path))) {
			t.Errorf("%s: engines take it in place of the direct entry of the same name", path)
		}
	}
}

// TestPrecreatePrivileged: a container that may open everything still may.
func TestPrecreatePrivileged(t *testing.T) {
	spec := device("deviceNodes: [{path: /dev/one, hostPath: /dev/null, permissions: r}]")
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		h := bed.NewHost(t)
		h.Install(bed.Hook(t)) // the program is what is needed of it
		h.Dir("/etc/cdi")
		h.File("/etc/cdi/v.yaml", spec, 0o644)
		e := newEngine(t, rt, installFilter(t, h))
		ask := report.Ask{Paths: []string{"/dev/one"}, Sweep: bed.AllNumbers(t)}
		var views [][]string
		for _, annotation := range []string{"other=x", "cdi.k8s.io/x=v.example/dev=a"} {
			res := e.run(rt, ask, "--privileged", "--annotation", annotation)
			if res.Refused() {
				t.Fatalf("%s: exit %d: %s", annotation, res.Code, res.Stderr)
			}
			views = append(views, filtered(bed.ReadReport(t, res.Stdout)))
		}
		requireSame(t, "privileged", views[0], views[1], []string{"-path /dev/one ENOENT", "+path /dev/one c 1:3 0666 0:0 open=ok access=rw"})
	})
}
