package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// Exit codes, as documented.
const (
	failed  = 1
	usage   = 2
	refused = 3
)

// feed is one call of the hook by hand: its stdin made from a true state.
type feed struct {
	name  string
	stdin func(*testing.T, map[string]any) string
	args  []string // instead of the stage's
	code  int
	words []string // of the error line
}

// with changes fields of the true state; nil takes one away.
func with(fields map[string]any) func(*testing.T, map[string]any) string {
	return func(t *testing.T, state map[string]any) string {
		for k, v := range fields {
			if state[k] = v; v == nil {
				delete(state, k)
			}
		}
		return marshal(t, state)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func just(s string) func(*testing.T, map[string]any) string {
	return func(*testing.T, map[string]any) string { return s }
}

func TestBadState(t *testing.T) {
	feedAll(t, []feed{
		{name: "empty", stdin: just(""), code: failed, words: []string{"state"}},
		{name: "truncated", stdin: func(t *testing.T, s map[string]any) string { x := marshal(t, s); return x[:len(x)/2] }, code: failed, words: []string{"state"}},
		{name: "not JSON", stdin: just("id: some"), code: failed, words: []string{"state"}},
		{name: "a list", stdin: just("[]"), code: failed, words: []string{"state"}},
		{name: "null", stdin: just("null"), code: failed, words: []string{"state"}},
		{name: "huge", stdin: just(strings.Repeat(" ", 64<<20) + "{}"), code: failed, words: []string{"state"}},
		{name: "more than one", stdin: func(t *testing.T, s map[string]any) string { return marshal(t, s) + marshal(t, s) }, code: failed, words: []string{"state"}},

		{name: "pid is text", stdin: with(map[string]any{"pid": "12"}), code: failed, words: []string{"pid"}},
		{name: "no pid", stdin: with(map[string]any{"pid": nil}), code: failed, words: []string{"pid"}},
		{name: "pid 0", stdin: with(map[string]any{"pid": 0}), code: failed, words: []string{"pid 0"}},
		{name: "pid 1", stdin: with(map[string]any{"pid": 1}), code: failed, words: []string{"pid 1"}},
		{name: "pid -1", stdin: with(map[string]any{"pid": -1}), code: failed, words: []string{"pid -1"}},
		{name: "pid of nobody", stdin: with(map[string]any{"pid": 1 << 22}), code: failed, words: []string{fmt.Sprint(1 << 22)}},
		{name: "pid of this host", stdin: with(map[string]any{"pid": os.Getpid()}), code: failed, words: []string{fmt.Sprint(os.Getpid()), "namespace"}},
		{name: "pid of a stranger in a mount namespace of its own", stdin: stranger, code: failed, words: []string{"rootfs"}},
		{name: "pid beyond int", stdin: with(map[string]any{"pid": 1e30}), code: failed, words: []string{"pid"}},

		{name: "id is a number", stdin: with(map[string]any{"id": 7}), code: failed, words: []string{"id"}},
		{name: "no id", stdin: with(map[string]any{"id": nil}), code: failed, words: []string{"id"}},
		{name: "id is a path", stdin: with(map[string]any{"id": "../evil"}), code: failed, words: []string{"../evil"}},
		{name: "annotations are a list", stdin: with(map[string]any{"annotations": []string{"a"}}), code: failed, words: []string{"annotations"}},
		{name: "an annotation is a number", stdin: with(map[string]any{"annotations": map[string]any{bed.AnnotationKey: 1}}), code: failed, words: []string{"annotations"}},

		{name: "no bundle", stdin: with(map[string]any{"bundle": nil}), code: failed, words: []string{"bundle"}},
		{name: "bundle missing", stdin: with(map[string]any{"bundle": "/no/such/bundle"}), code: failed, words: []string{"/no/such/bundle"}},
		{name: "bundle relative", stdin: with(map[string]any{"bundle": "bundle"}), code: failed, words: []string{"bundle"}},
		{name: "config truncated", stdin: config(`{"ociVersion": "1.0.2", "root": {"pa`), code: failed, words: []string{"config.json"}},
		{name: "config not JSON", stdin: config("root: /"), code: failed, words: []string{"config.json"}},
		{name: "config wrong-typed", stdin: config(`{"ociVersion": "1.0.2", "root": "rootfs"}`), code: failed, words: []string{"config.json"}},
		{name: "config huge", stdin: config(strings.Repeat(" ", 64<<20) + "{}"), code: failed, words: []string{"config.json"}},
		{name: "config without root", stdin: config(`{"ociVersion": "1.0.2"}`), code: failed, words: []string{"root"}},
		{name: "config with a folder for a rootfs", stdin: config(`{"ociVersion": "1.0.2", "root": {"path": "/opt/t"}}`), code: failed, words: []string{"/opt/t", "mount point"}},
		{
			// a mount point of the host, but without what the config says is mounted there
			name: "config with another rootfs", code: failed, words: []string{"/opt"},
			stdin: config(`{"ociVersion": "1.0.2", "root": {"path": "/opt"}, "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}]}`),
		},
		{name: "config missing", stdin: config(""), code: failed, words: []string{"config.json"}},

		{name: "unknown stage", args: []string{"createNothing"}, stdin: with(nil), code: usage, words: []string{"createNothing"}},
		{name: "unknown flag", args: []string{"createRuntime", "--no-such-flag"}, stdin: with(nil), code: usage, words: []string{"no-such-flag"}},
		{name: "an argument too many", args: []string{"createRuntime", "extra"}, stdin: with(nil), code: usage, words: []string{"extra"}},
		{name: "deadline is no time", args: []string{"createRuntime", "--deadline", "soon"}, stdin: with(nil), code: usage, words: []string{"soon"}},
	})
}

// feedAll calls the hook by hand while a container waits at createRuntime, and looks at the container before and after.
func feedAll(t *testing.T, feeds []feed) {
	t.Helper()
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		h := bed.NewHost(t)
		spec := bed.WriteSpec(t, "spec.yaml", device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", mountOf("/opt/t/f", "/opt/f", "options: [bind]")))
		h.StandInsFor(spec)
		b := bed.NewBundle(t)
		b.Annotate("v.example/dev=a")
		b.Ask(report.Ask{Paths: []string{"/dev/one", "/opt/f", "/dev"}, Sweep: bed.AllNumbers(t)})
		held := b.Hold(rt)
		for _, f := range feeds {
			t.Run(f.name, func(t *testing.T) { f.run(t, held) })
		}
		after := bed.ReadReport(t, held.Release().Stdout).Lines(nil)
		plain := bed.NewBundle(t)
		plain.Ask(report.Ask{Paths: []string{"/dev/one", "/opt/f", "/dev"}, Sweep: bed.AllNumbers(t)})
		plain.Write()
		requireSame(t, "a plain container and the one after all that", plain.Report(rt).Lines(nil), after, nil)
	})
}

func (f feed) run(t *testing.T, held *bed.Held) {
	state := asMap(t, held.State)
	args := bed.HookArgs("createRuntime")
	if f.args != nil {
		args = f.args
	}
	before := held.View()
	res := bed.Run(t, f.stdin(t, state), nil, slices.Concat([]string{bed.Hook(t)}, args)...)
	requireLine(t, res, f.code, f.words...)
	requireSame(t, "the container before and after", before, held.View(), nil)
	bed.TakeLog(t)
	requireNoRecord(t)
}

func asMap(t *testing.T, state any) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(marshal(t, state)), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// requireLine checks the exit code and that stderr is one line which names all the items.
func requireLine(t *testing.T, res bed.Result, code int, words ...string) {
	t.Helper()
	if res.Code != code {
		t.Errorf("exit code %d instead of %d", res.Code, code)
	}
	if n := strings.Count(strings.TrimSuffix(res.Stderr, "\n"), "\n"); n != 0 || res.Stderr == "" {
		t.Errorf("%d lines of stderr instead of one: %.2000q", n+1, res.Stderr)
	}
	if len(res.Stderr) > 4096 {
		t.Errorf("an error line of %d bytes", len(res.Stderr))
	}
	for _, w := range words {
		if !strings.Contains(res.Stderr, w) {
			t.Errorf("the error lacks %q: %.2000s", w, res.Stderr)
		}
	}
	if res.Stdout != "" {
		t.Errorf("stdout has %q", res.Stdout)
	}
}

func requireNoRecord(t *testing.T) {
	t.Helper()
	if names := bed.Records(t); len(names) > 0 {
		t.Errorf("the state folder has %v", names)
	}
}

// config makes a bundle with this config.json beside the true one; the same pid.
func config(content string) func(*testing.T, map[string]any) string {
	return func(t *testing.T, state map[string]any) string {
		dir := t.TempDir()
		if err := os.Mkdir(dir+"/rootfs", 0o755); err != nil {
			t.Fatal(err)
		}
		if content != "" {
			if err := os.WriteFile(dir+"/config.json", []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return with(map[string]any{"bundle": dir})(t, state)
	}
}

// stranger is what a recycled pid names: a living process that is not of the container.
func stranger(t *testing.T, state map[string]any) string {
	c := exec.Command("sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		c.Wait() //nolint:errcheck // it says that it was killed
	})
	return with(map[string]any{"pid": c.Process.Pid})(t, state)
}
