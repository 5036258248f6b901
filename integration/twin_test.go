package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// row is one thing that can be asked of CDI, done once natively and once directly.
type row struct {
	name    string
	fixture string                             // a file of testdata/fixtures, or
	spec    string                             // the text of one, or
	written func(*testing.T, *bed.Host) string // by another program
	devices []string                           // qualified names; empty: v.example/dev=a

	host   func(*bed.Host)   // what must be there beyond the stand-ins that the spec implies
	bundle func(*bed.Bundle) // edits of both twins' config and rootfs
	umask  int               // of the runtime, 0 for the tests' own
	bare   bool              // make no stand-ins: what the spec names is missing

	paths    []string // looked at inside, beyond those that the spec names
	writable []string
	mounting []string // mounted on from inside
	// remounting are mounts that the container tries to take flags away from.
	remounting []string
	unmounting []string
	sweep      bool

	// differs is all that may differ: lines of the native report with a "-", lines of the direct one with a "+".
	differs func(bed.Runtime) []string
	// has are lines that the direct report must have, whatever the native one says.
	has []string
	// hide drops lines with these beginnings from the comparison: has must say what is right there.
	hide []string
	// warns are words that our log must have; without any the log must be empty.
	warns []string
	// alone: there is no native twin, the runtimes here cannot do it.
	alone bool
	// refused is a word of our reason for not starting the container.
	refused string
	// native says what the reference does where ours is to refuse, or is to start what the reference does not.
	native func(bed.Runtime) verdict
}

type verdict bool

const (
	starts  verdict = true
	refuses verdict = false
)

// mode is a way to give devices.
type mode func(*bed.Bundle, []string) error

func natively(b *bed.Bundle, names []string) error {
	b.Annotate(names...)
	return b.InjectNatively(names...)
}

func directly(b *bed.Bundle, names []string) error {
	b.Annotate(names...)
	b.Register()
	return nil
}

// failing is a container that a hook refuses without having done anything.
func failing(b *bed.Bundle, names []string) error {
	b.Annotate(names...)
	b.RegisterFailing()
	return nil
}

// outcome is what became of one twin.
type outcome struct {
	lines   []string
	refused bool
	reason  string
	log     string
	tree    []string // of the rootfs afterwards
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
	if r.host != nil {
		r.host(h)
	}
	name, text := r.text(t)
	if r.written != nil {
		text = r.written(t, h)
	}
	path := bed.WriteSpec(t, name, text)
	if !r.bare {
		h.StandInsFor(path)
	}
	return pathsOf(text)
}

// run starts one twin and writes down all that can be seen of it.
func (r row) run(t *testing.T, rt bed.Runtime, how mode, targets []string) outcome {
	t.Helper()
	names := r.devices
	if names == nil {
		names = []string{"v.example/dev=a"}
	}
	b := bed.NewBundle(t)
	ask := report.Ask{Paths: slices.Concat(targets, r.paths, []string{"/dev"}), Writable: r.writable, Mounting: r.mounting, Remounting: r.remounting, Unmounting: r.unmounting}
	if r.sweep {
		ask.Sweep = bed.AllNumbers(t)
	}
	b.Ask(ask)
	if r.bundle != nil {
		r.bundle(b)
	}
	if err := how(b, names); err != nil {
		return outcome{refused: true, reason: err.Error()}
	}
	b.Write()
	if r.umask != 0 {
		defer syscall.Umask(syscall.Umask(r.umask))
	}
	res := b.Run(rt)
	out := outcome{refused: res.Refused(), reason: res.Stderr, log: bed.TakeLog(t), tree: b.Tree()}
	traces := bed.Traces(t)
	if out.refused {
		return out
	}
	out.lines = bed.ReadReport(t, res.Stdout).Lines(targets)
	for i, tr := range traces {
		out.lines = append(out.lines, tr.Lines(i)...)
	}
	out.lines = append(out.lines, out.tree...)
	return out
}

// compare is the parity test of one row on one runtime.
func (r row) compare(t *testing.T, rt bed.Runtime) {
	targets := r.prepare(t)
	direct := r.run(t, rt, directly, targets)
	if r.refused != "" {
		requireRefusal(t, direct, r.refused)
		requireSame(t, "a refusal leaves in the rootfs", r.run(t, rt, failing, targets).tree, direct.tree, nil)
	} else {
		r.requireStarted(t, direct)
	}
	if r.alone {
		return
	}
	native := r.run(t, rt, natively, targets)
	expected := verdict(r.refused == "")
	if r.native != nil {
		expected = r.native(rt)
	}
	if native.refused == bool(expected) {
		t.Errorf("natively refused: %v, expected %v: %s", native.refused, !expected, native.reason)
	}
	if native.refused {
		bed.RemoveCgroups(t, bed.Prefix) // crun leaves that of a container that it did not make
	}
	if native.refused || direct.refused {
		return
	}
	var want []string
	if r.differs != nil {
		want = r.differs(rt)
	}
	requireSame(t, "native and direct twin", r.shown(asDesigned(rt, native.lines)), r.shown(direct.lines), want)
}

func (r row) requireStarted(t *testing.T, direct outcome) {
	t.Helper()
	if direct.refused {
		t.Fatalf("refused directly: %s", direct.reason)
	}
	for _, want := range r.has {
		if !slices.Contains(direct.lines, want) {
			t.Errorf("directly there is no line %q but\n%s", want, strings.Join(alike(direct.lines, want), "\n"))
		}
	}
	for _, word := range r.warns {
		if !strings.Contains(direct.log, word) {
			t.Errorf("the log lacks %q: %s", word, direct.log)
		}
	}
	if len(r.warns) == 0 && direct.log != "" {
		t.Errorf("the log has %s", direct.log)
	}
}

func (r row) shown(lines []string) []string {
	return slices.DeleteFunc(mountPoints(lines), func(l string) bool {
		return slices.ContainsFunc(r.hide, func(beginning string) bool { return strings.HasPrefix(l, beginning) })
	})
}
