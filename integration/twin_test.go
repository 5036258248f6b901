package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// row is one thing that can be asked of CDI, done once natively and once directly.
type row struct {
	name    string
	fixture string   // a file of testdata/fixtures, or
	spec    string   // the text of one
	devices []string // qualified names; empty: all devices of the spec that are asked for as one are named in the row

	host   func(*bed.Host)   // what must be there beyond the stand-ins that the spec implies
	bundle func(*bed.Bundle) // edits of both twins' config and rootfs

	paths    []string // looked at inside, beyond those that the spec names
	writable []string
	sweep    bool

	// differs is all that may differ: lines of the native report with a "-", lines of the direct one with a "+".
	differs func(bed.Runtime) []string
	// refused is a word of the reason where neither way may start a container.
	refused string
}

// mode is a way to give devices.
type mode func(*testing.T, *bed.Bundle, []string) error

func natively(t *testing.T, b *bed.Bundle, names []string) error {
	b.Annotate(names...)
	return b.InjectNatively(names...)
}

func directly(t *testing.T, b *bed.Bundle, names []string) error {
	b.Annotate(names...)
	b.Register()
	return nil
}

// outcome is what became of one twin.
type outcome struct {
	lines  []string
	reason string // of a refusal
}

func (r row) text(t *testing.T) (name, text string) {
	t.Helper()
	if r.fixture == "" {
		return "spec.yaml", r.spec
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "fixtures", r.fixture))
	if err != nil {
		t.Fatal(err)
	}
	return r.fixture, string(raw)
}

// prepare makes the host ready and returns the container paths of the spec.
func (r row) prepare(t *testing.T) []string {
	t.Helper()
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	name, text := r.text(t)
	path := bed.WriteSpec(t, name, text)
	if r.host != nil {
		r.host(h)
	}
	h.StandInsFor(path)
	return pathsOf(text)
}

// run starts one twin and writes down all that can be seen of it.
func (r row) run(t *testing.T, rt bed.Runtime, how mode, targets []string) outcome {
	t.Helper()
	b := bed.NewBundle(t)
	ask := report.Ask{Paths: slices.Concat(targets, r.paths, []string{"/dev"}), Writable: r.writable}
	if r.sweep {
		ask.Sweep = bed.AllNumbers(t)
	}
	b.Ask(ask)
	if r.bundle != nil {
		r.bundle(b)
	}
	if err := how(t, b, r.devices); err != nil {
		return outcome{lines: []string{"refused"}, reason: err.Error()}
	}
	b.Write()
	res := b.Run(rt)
	out := outcome{reason: res.Stderr}
	if res.Refused() {
		out.lines = []string{"refused"}
		bed.Traces(t)
		return out
	}
	out.lines = bed.ReadReport(t, res.Stdout).Lines(targets)
	for i, tr := range bed.Traces(t) {
		out.lines = append(out.lines, tr.Lines(i)...)
	}
	out.lines = append(out.lines, b.Tree()...)
	return out
}

// compare is the parity test of one row on one runtime.
func (r row) compare(t *testing.T, rt bed.Runtime) {
	targets := r.prepare(t)
	native := r.run(t, rt, natively, targets)
	direct := r.run(t, rt, directly, targets)
	if r.refused != "" {
		requireRefusal(t, "natively", native, "")
		requireRefusal(t, "directly", direct, r.refused)
		return
	}
	if isRefusal(native) {
		t.Fatalf("refused natively: %s", native.reason)
	}
	if isRefusal(direct) {
		t.Fatalf("refused directly: %s", direct.reason)
	}
	var want []string
	if r.differs != nil {
		want = r.differs(rt)
	}
	got := report.Diff(native.lines, direct.lines)
	if d := report.Diff(want, got); len(d) > 0 {
		t.Errorf("native and direct differ by\n%s\nthat is, against what is expected,\n%s", strings.Join(got, "\n"), strings.Join(d, "\n"))
	}
}

func isRefusal(o outcome) bool { return len(o.lines) == 1 && o.lines[0] == "refused" }

func requireRefusal(t *testing.T, way string, o outcome, word string) {
	t.Helper()
	if !isRefusal(o) {
		t.Errorf("%s the container started", way)
	}
	if !strings.Contains(o.reason, word) {
		t.Errorf("%s the reason lacks %q: %s", way, word, o.reason)
	}
}

// pathsOf finds the container paths of a spec, also of one that the library refuses.
func pathsOf(text string) []string {
	type edits struct {
		DeviceNodes []struct{ Path string } `yaml:"deviceNodes"`
		Mounts      []struct {
			ContainerPath string `yaml:"containerPath"`
		} `yaml:"mounts"`
	}
	var doc struct {
		Edits   edits `yaml:"containerEdits"`
		Devices []struct {
			Edits edits `yaml:"containerEdits"`
		} `yaml:"devices"`
	}
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	all := []edits{doc.Edits}
	for _, d := range doc.Devices {
		all = append(all, d.Edits)
	}
	var out []string
	add := func(p string) {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, e := range all {
		for _, n := range e.DeviceNodes {
			add(n.Path)
		}
		for _, m := range e.Mounts {
			add(m.ContainerPath)
		}
	}
	return out
}
