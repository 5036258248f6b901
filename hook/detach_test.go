package hook

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/record"
)

func (b *bed) detach(devices ...string) (*Outcome, error) {
	b.t.Helper()
	return b.settings.detach(b.t.Context(), b.reference(), names(devices...))
}

func (b *bed) mustDetach(devices ...string) *Outcome {
	b.t.Helper()
	out, err := b.detach(devices...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// What was attached goes without a trace.
func TestDetach(t *testing.T) {
	b := runs(t, map[string]string{"a": filesOnly})
	before := b.everything()
	b.mustAttach("a")
	if out := b.mustDetach("a"); len(out.Warnings) > 0 || !slices.Equal(out.Plan.Devices, names("a")) || len(out.Plan.Actions) != 4 {
		t.Errorf("%+v", out)
	}
	b.wantAsBefore(before)
	_, err := b.detach("a")
	wantText(t, err, "this program gave it no v.example/dev=a")
	b.mustAttach("a")
	b.wantFaults("given again")
}

func TestDetachRules(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{
		"a": `{deviceNodes: [{path: /dev/one, type: c, major: 10, minor: 229}, {path: /dev/two, type: c, major: 10, minor: 237}, {path: /dev/own, type: c, major: 1, minor: 3}]}`,
		"b": `{deviceNodes: [{path: /dev/two, type: c, major: 10, minor: 237, permissions: rw}]}`,
	})
	b.config(`{"linux": {"resources": {"devices": [{"allow": false, "access": "rwm"}, {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"}]}}}`)
	b.start()
	b.ownCgroup()
	b.pivot()
	before := b.everything()
	b.mustAttach("a")
	b.mustAttach("b")
	b.wantFaults("both")
	b.mustDetach("a")
	b.wantFaults("one")
	list, err := os.ReadFile(b.cgroup + "/devices.list")
	if err != nil || strings.Contains(string(list), "10:229") || !strings.Contains(string(list), "c 10:237 rw") || !strings.Contains(string(list), "c 1:3 rwm") {
		t.Errorf("%s %v", list, err)
	}
	b.mustDetach("b")
	b.wantAsBefore(before)
}

// What other devices need, and what was not ours, stays.
func TestDetachLeaves(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{
		"a": `{deviceNodes: [{path: /dev/v/p, type: p}, {path: /dev/v/a, type: p}, {path: /dev/there, type: p}], mounts: [{hostPath: $HOST/file, containerPath: /opt/v/file, options: [bind]}]}`,
		"b": `{deviceNodes: [{path: /dev/v/p, type: p}], mounts: [{hostPath: $HOST/file, containerPath: /opt/v/b, options: [bind]}]}`,
	})
	b.start()
	b.mustDirect("a")
	b.pivot()
	b.within(func() error { return errors.Join(os.Remove("/dev/there"), os.WriteFile("/dev/there", nil, 0o600)) })
	b.mustAttach("b")
	out := b.mustDetach("a")
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "/dev/there") {
		t.Errorf("%q", out.Warnings)
	}
	for name, stays := range map[string]bool{"/dev/v/p": true, "/dev/v/a": false, "/dev/there": true, "/opt/v/file": false, "/opt/v/b": true} {
		if _, err := os.Lstat(b.inside(name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.wantFaults("b")
	r := b.record("c1", b.bundle)
	if !r.Done || !slices.Equal(r.Devices, names("b")) || len(r.Leaving) > 0 || len(r.Mounted) != 1 {
		t.Errorf("%+v", r)
	}
	b.mustDetach("b")
	if _, err := os.Lstat(b.inside("/opt/v")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("/opt/v: %v", err)
	}
	if r := b.record("c1", b.bundle); r != nil {
		t.Errorf("%+v", r)
	}
}

// A mount of the container's over ours is not ours, and ours is under it.
func TestDetachUnderAnotherMount(t *testing.T) {
	b := runs(t, map[string]string{"a": `{mounts: [{hostPath: $HOST/lib, containerPath: /usr/lib, options: [bind]}]}`})
	b.mustAttach("a")
	b.within(func() error { return unix.Mount("tmpfs", "/usr/lib", "tmpfs", 0, "") })
	if out := b.mustDetach("a"); len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "another mount is there by now") {
		t.Errorf("%q", out.Warnings)
	}
}

// One that was cut short is finished by the next, or by giving the device again.
func TestDetachCutShort(t *testing.T) {
	for name, again := range map[string]func(*bed){
		"detach": func(b *bed) { b.mustDetach("a") },
		"attach": func(b *bed) { b.mustAttach("a"); b.wantFaults("given again"); b.mustDetach("a") },
	} {
		t.Run(name, func(t *testing.T) {
			b := runs(t, map[string]string{"a": filesOnly, "b": `{deviceNodes: [{path: /dev/q, type: p}]}`})
			before := b.everything()
			b.mustAttach("a")
			b.rewrite(func(r *record.Record) { r.Leaving = names("a") })
			b.within(func() error { return os.Remove("/dev/vendor/p") })
			again(b)
			b.wantAsBefore(before)
		})
	}
}

// rewrite changes the record as an interrupted run would have left it.
func (b *bed) rewrite(change func(*record.Record)) {
	b.t.Helper()
	dir, err := record.OpenDir(b.settings.StateDir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer dir.Close()
	e, err := dir.Lock(b.t.Context(), "c1", b.bundle)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := e.Read()
	if err == nil {
		change(r)
		err = e.Write(r)
	}
	if err := errors.Join(err, e.Unlock()); err != nil {
		b.t.Fatal(err)
	}
}
