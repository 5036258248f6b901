package hook

import (
	"os"
	"strings"
	"testing"
)

// withEntries makes config.json call this program at the later stages.
const withEntries = `{"hooks":{
	"poststart":[{"path":"/usr/libexec/oci/hooks.d/oci-cdi-hook","args":["oci-cdi-hook","poststart"]}],
	"poststop":[{"path":"/usr/libexec/oci/hooks.d/oci-cdi-hook","args":["oci-cdi-hook","poststop"]}]}}`

func TestLater(t *testing.T) {
	b := newBed(t)
	b.config(withEntries)
	b.spec(map[string]string{"a": "{hooks: [" + traces("poststop") + ", " + traces("poststart") + "]}"})
	b.start()
	if out, err := Later(t.Context(), b.settings, "poststop", strings.NewReader(b.state("a"))); err != nil || out.ContainerID != "c1" {
		t.Errorf("no record, no state directory: %+v %v", out, err)
	}
	if _, err := os.Lstat(b.settings.StateDir); err == nil {
		t.Error("a state directory was made")
	}
	if out := b.mustDirect("a"); len(out.Warnings) > 0 {
		t.Errorf("%q", out.Warnings)
	}
	if have := b.traced("order"); have != "" {
		t.Errorf("ran early: %s", have)
	}
	if err := os.Remove(b.dir + "/specs/v.yaml"); err != nil {
		t.Fatal(err)
	}
	later := func(stage, state string) {
		t.Helper()
		if out, err := Later(t.Context(), b.settings, stage, strings.NewReader(state)); err != nil || len(out.Warnings) > 0 {
			t.Errorf("%s: %+v %v", stage, out, err)
		}
	}
	state := b.state("a")
	later("poststart", b.stateOf("another", b.bundle, b.process.Pid, "a"))
	later("poststart", state)
	if have := b.traced("order"); have != "poststart\n" || b.traced("stdin-poststart") != state {
		t.Errorf("ran %q with %s", have, b.traced("stdin-poststart"))
	}
	// A poststop that comes after a restart is of the process before: the new one's devices
	// are in use.
	later("poststop", state)
	if have := b.traced("order"); have != "poststart\n" {
		t.Errorf("ran %q for a living process", have)
	}
	if b.record("c1", b.bundle) == nil {
		t.Error("the record of a living process is gone")
	}
	b.process.End()
	later("poststop", b.stateOf("c1", b.bundle, 0, "a"))
	if b.record("c1", b.bundle) != nil {
		t.Error("the record stays")
	}
	if have := b.traced("order"); have != "poststart\npoststop\n" {
		t.Errorf("ran %q", have)
	}
	if left, _ := os.ReadDir(b.settings.StateDir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestLaterFailures(t *testing.T) {
	b := newBed(t)
	b.config(withEntries)
	bad := func(stage string) string { return hookOf(stage, "echo why >&2; exit 3") }
	b.spec(map[string]string{"a": "{hooks: [" + strings.Join([]string{bad("poststop"), traces("poststop"), bad("poststart"), traces("poststart")}, ", ") + "]}"})
	b.start()
	b.mustDirect("a")
	state := b.state("a")
	_, err := Later(t.Context(), b.settings, "poststart", strings.NewReader(state))
	wantText(t, err, "poststart hook /bin/sh: exit status 3: why", "v.example/dev=a")
	b.process.End()
	out, err := Later(t.Context(), b.settings, "poststop", strings.NewReader(state))
	if err != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "poststop hook /bin/sh: exit status 3: why") {
		t.Errorf("%+v %v", out, err)
	}
	// Each runs, whatever the one before did.
	if have := b.traced("order"); have != "poststart\npoststop\n" {
		t.Errorf("ran %q", have)
	}
	for _, state := range []string{"", "{}", `{"id":".."}`, `{"id":"a/b"}`} {
		if _, err := Later(t.Context(), b.settings, "poststop", strings.NewReader(state)); err == nil {
			t.Errorf("state %q was taken", state)
		}
	}
}

// After a failure nobody else runs the vendors' poststop hooks, and not if none of their
// hooks has run.
func TestPoststopAfterAFailure(t *testing.T) {
	for _, c := range []struct{ edits, order string }{
		{"{hooks: [" + hookOf("createRuntime", "exit 1") + ", " + traces("poststop") + "]}", "poststop\n"},
		{"{mounts: [{hostPath: /none, containerPath: /x, options: [bind]}], hooks: [" + traces("createRuntime") + ", " + traces("poststop") + "]}", ""},
	} {
		b := newBed(t)
		b.config(withEntries)
		b.spec(map[string]string{"a": c.edits})
		b.start()
		before := b.everything()
		if _, err := b.direct("a"); err == nil {
			t.Error("no error")
		}
		if have := b.traced("order"); have != c.order {
			t.Errorf("ran %q, want %q", have, c.order)
		}
		b.wantAsBefore(before)
	}
}

// The poststop hooks of a container whose end nobody has told are run by the next start.
func TestOldPoststop(t *testing.T) {
	b := newBed(t)
	b.config(withEntries)
	b.spec(map[string]string{"a": "{hooks: [" + traces("poststop") + "]}", "b": `{deviceNodes: [{path: /dev/p, type: p}]}`})
	b.start()
	b.mustDirect("a")
	b.process.End()
	b.start()
	if _, err := Direct(t.Context(), b.settings, strings.NewReader(b.stateOf("c2", b.bundle, b.process.Pid, "b"))); err != nil {
		t.Fatal(err)
	}
	if have := b.traced("order"); have != "poststop\n" || !strings.Contains(b.traced("stdin-poststop"), `"id":"c1"`) {
		t.Errorf("ran %q with %s", have, b.traced("stdin-poststop"))
	}
	if b.record("c1", b.bundle) != nil {
		t.Error("the record stays")
	}
}
