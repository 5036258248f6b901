package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/internal/standin"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
)

// hookOf is an edit: a vendor's hook that runs a line of sh(1).
func hookOf(stage, line string) string {
	return fmt.Sprintf(`{hookName: %s, path: /bin/sh, args: [sh, -c, %q], env: ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]}`, stage, line)
}

// traces is a hook that leaves its name and the record as it is then.
func traces(stage string) string {
	return hookOf(stage, "mkdir -p $TRACE; echo "+stage+" >>$TRACE/order; cat $STATE/*.json >$TRACE/"+stage+"; cat >$TRACE/stdin-"+stage)
}

const filesOnly = `{
    mounts: [{hostPath: $HOST/lib, containerPath: /opt/vendor/lib, options: [rbind, ro, nosuid]},
             {hostPath: $HOST/file, containerPath: /usr/lib/file, options: [bind]},
             {hostPath: none, containerPath: /scratch, type: tmpfs, options: [mode=700]}],
    deviceNodes: [{path: /dev/vendor/p, type: p, fileMode: 0o620, uid: 7, gid: 8}]}`

func TestDirect(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": strings.TrimSuffix(filesOnly, "}") + ", hooks: [" +
		strings.Join([]string{traces("createContainer"), traces("createRuntime"), traces("prestart")}, ", ") + "]}"})
	b.start()
	host := b.mounts("/proc/self/mountinfo")
	out := b.mustDirect("a")
	if out.Already || out.ContainerID != "c1" || len(out.Warnings) > 0 || len(out.Plan.Actions) != 7 {
		t.Errorf("%+v", out)
	}
	var st unix.Stat_t
	if err := unix.Lstat(b.inside("/dev/vendor/p"), &st); err != nil || st.Mode != unix.S_IFIFO|0o620 || st.Uid != 7 || st.Gid != 8 {
		t.Errorf("node: mode %o owner %d:%d %v", st.Mode, st.Uid, st.Gid, err)
	}
	for name, want := range map[string]string{"/opt/vendor/lib/libx.so": "a library", "/usr/lib/file": "from the host"} {
		if have, err := os.ReadFile(b.inside(name)); err != nil || string(have) != want {
			t.Errorf("%s: %q %v", name, have, err)
		}
	}
	table := strings.Join(b.mounts(fmt.Sprintf("/proc/%d/mountinfo", b.process.Pid)), "\n")
	for _, want := range []string{b.rootfs + "/opt/vendor/lib ro,nosuid", b.rootfs + "/scratch rw"} {
		if !strings.Contains(table, want) {
			t.Errorf("no mount %q in\n%s", want, table)
		}
	}
	// Outside there are mount points, and nothing on them.
	if now := b.mounts("/proc/self/mountinfo"); !slices.Equal(now, host) {
		t.Errorf("mounts outside %q", now)
	}
	if entries, err := os.ReadDir(filepath.Join(b.rootfs, "opt/vendor/lib")); err != nil || len(entries) > 0 {
		t.Errorf("outside: %v %v", entries, err)
	}
	if _, err := os.Lstat(filepath.Join(b.rootfs, "dev/vendor")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("outside: %v", err)
	}
	b.wantTraces("prestart\ncreateRuntime\ncreateContainer\n")
	if r := b.record("c1", b.bundle); r == nil || !r.Done || r.Pid != b.process.Pid || r.Root != b.rootfs || !slices.Equal(r.Devices, []string{"v.example/dev=a"}) {
		t.Errorf("record %+v", r)
	}
}

// wantTraces checks what vendors' hooks saw: the journal, and the state as it came, with
// the inner pid inside.
func (b *bed) wantTraces(order string) {
	b.t.Helper()
	if have := b.traced("order"); have != order {
		b.t.Errorf("hooks ran as %q", have)
	}
	for stage := range strings.Lines(order) {
		stage = strings.TrimSpace(stage)
		if journal := b.traced(stage); !strings.Contains(journal, `"done":false`) || !strings.Contains(journal, "/opt/vendor/lib") {
			b.t.Errorf("journal at %s: %s", stage, journal)
		}
		stdin, pid := b.traced("stdin-"+stage), b.process.Pid
		if stage == plan.StageCreateContainer {
			pid = 1
		} else if stdin != b.state("a") {
			b.t.Errorf("stdin of %s: %s", stage, stdin)
		}
		if !strings.Contains(stdin, fmt.Sprintf(`"pid":%d`, pid)) || !strings.Contains(stdin, `"other":7`) {
			b.t.Errorf("stdin of %s: %s", stage, stdin)
		}
	}
}

func TestTwiceIsOnce(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": strings.TrimSuffix(filesOnly, "}") + ", hooks: [" + traces("createRuntime") + "]}"})
	b.start()
	b.mustDirect("a")
	once := b.everything()
	if out := b.mustDirect("a"); !out.Already {
		t.Error("done again")
	}
	if have := b.traced("order"); have != "createRuntime\n" {
		t.Errorf("hooks ran as %q", have)
	}
	if now := b.everything(); !slices.Equal(now, once) {
		t.Errorf("now\n%s\nonce\n%s", strings.Join(now, "\n"), strings.Join(once, "\n"))
	}
}

// Without the record the work itself shows that it is done.
func TestTwiceIsOnceWithoutARecord(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.start()
	b.mustDirect("a")
	once := b.everything()
	if err := os.RemoveAll(b.settings.StateDir); err != nil {
		t.Fatal(err)
	}
	b.mustDirect("a")
	now := b.everything()
	// A filesystem has no source to be known by: a second one covers the first.
	now = slices.DeleteFunc(now, func(line string) bool { return strings.Contains(line, "/scratch") })
	once = slices.DeleteFunc(once, func(line string) bool { return strings.Contains(line, "/scratch") })
	if !slices.Equal(now, once) {
		t.Errorf("now\n%s\nonce\n%s", strings.Join(now, "\n"), strings.Join(once, "\n"))
	}
}

func TestOtherDevicesForTheSameContainer(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly, "b": `{deviceNodes: [{path: /dev/b, type: p}]}`})
	b.start()
	b.mustDirect("a")
	if out := b.mustDirect("a", "b"); out.Already {
		t.Error("taken for done")
	}
	if _, err := os.Lstat(b.inside("/dev/b")); err != nil {
		t.Error(err)
	}
	if r := b.record("c1", b.bundle); r == nil || !r.Done || len(r.Devices) != 2 {
		t.Errorf("record %+v", r)
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	const node = `{path: /dev/n/p, type: p}`
	for name, c := range map[string]struct {
		edits string
		want  []string
	}{
		"createRuntime hook": {`mounts: [{hostPath: $HOST/lib, containerPath: /opt/lib, options: [bind]}], deviceNodes: [` + node + `], hooks: [` + hookOf("createRuntime", "echo why >&2; exit 4") + `]`,
			[]string{"hook /bin/sh: exit status 4: why"}},
		"createContainer hook": {`mounts: [{hostPath: $HOST/lib, containerPath: /opt/lib, options: [bind]}], deviceNodes: [` + node + `], hooks: [` + hookOf("createContainer", "echo why >&2; exit 4") + `]`,
			[]string{"hook /bin/sh: exit status 4: why"}},
		"no source":               {`mounts: [{hostPath: $HOST/lib, containerPath: /opt/lib, options: [bind]}, {hostPath: /none, containerPath: /z, options: [bind]}]`, []string{"/none"}},
		"mount on the root":       {`mounts: [{hostPath: $HOST/lib, containerPath: /, options: [bind]}]`, []string{"mount on /: "}},
		"directory on a file":     {`mounts: [{hostPath: $HOST/lib, containerPath: /usr/lib/there, options: [bind]}]`, []string{"/usr/lib/there"}},
		"node on a file":          {`deviceNodes: [` + node + `, {path: /usr/lib/there, type: p}]`, []string{"/usr/lib/there"}},
		"no host node":            {`deviceNodes: [` + node + `, {path: /dev/none-such}]`, []string{"/dev/none-such"}},
		"no hook program":         {`deviceNodes: [` + node + `], hooks: [{hookName: createRuntime, path: /none/hook}]`, []string{"/none/hook"}},
		"no bind":                 {`deviceNodes: [` + node + `], mounts: [{hostPath: $HOST/lib, containerPath: /opt, options: [ro]}]`, []string{"add bind or rbind"}},
		"a bad filesystem option": {`deviceNodes: [` + node + `], mounts: [{hostPath: none, containerPath: /scratch/deep, type: tmpfs, options: ["size=nonsense"]}]`, []string{"/scratch/deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.write("bundle/rootfs/usr/lib/there", "x")
			b.spec(map[string]string{"a": "{" + c.edits + "}"})
			b.start()
			before := b.everything()
			_, err := b.direct("a")
			for _, w := range append(c.want, "v.example/dev=a") {
				wantText(t, err, strings.ReplaceAll(w, "$HOST", b.dir+"/host"))
			}
			b.wantAsBefore(before)
		})
	}
}

func TestDeadlineUndoes(t *testing.T) {
	for _, stage := range []string{"createRuntime", "createContainer"} {
		b := newBed(t)
		b.spec(map[string]string{"a": strings.TrimSuffix(filesOnly, "}") + ", hooks: [" + hookOf(stage, "exec tail -f /dev/null") + "]}"})
		b.start()
		before := b.everything()
		b.settings.Deadline = time.Second
		_, err := b.direct("a")
		wantText(t, err, "deadline", "/bin/sh", "v.example/dev=a")
		b.wantAsBefore(before)
	}
}

func TestDeadlineBeforeTheFirstChange(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.start()
	before := b.everything()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	_, err := Direct(ctx, b.settings, strings.NewReader(b.state("a")))
	wantText(t, err, "no time")
	b.wantAsBefore(before)
}

func TestNothingAskedTouchesNothing(t *testing.T) {
	b := newBed(t)
	for _, state := range []string{
		b.stateOf("c1", "/none", 0), `{"id":"../x","pid":-1}`, `{"annotations":{"cdi.k8s.io":"x","k":"v"}}`,
	} {
		out, err := Direct(t.Context(), b.settings, strings.NewReader(state))
		if err != nil || out.Plan != nil || len(out.Warnings) > 0 {
			t.Errorf("%s: %+v %v", state, out, err)
		}
	}
	if _, err := os.Lstat(b.settings.StateDir); err == nil {
		t.Error("a state directory was made")
	}
}

func TestRefusals(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.start()
	before := b.everything()
	var refused *device.RequestError
	for name, c := range map[string]struct {
		state string
		is    error
		want  string
	}{
		"no document":   {"", nil, "state: empty document"},
		"unknown name":  {b.state("a", "zz", "yy"), nil, "device v.example/dev=zz: "},
		"malformed":     {strings.Replace(b.state("a"), "v.example/dev=a", "v.example/dev=a, b", 1), nil, `annotation cdi.k8s.io/test: " b"`},
		"pid 0":         {b.stateOf("c1", b.bundle, 0, "a"), nil, "pid 0"},
		"pid 1":         {b.stateOf("c1", b.bundle, 1, "a"), nil, "pid 1"},
		"own namespace": {b.stateOf("c1", b.bundle, os.Getpid(), "a"), oci.ErrOwnNamespace, "c1"},
		"dead":          {b.stateOf("c1", b.bundle, 1<<22-1, "a"), unix.ESRCH, "pid 4194303"},
		"id a path":     {b.stateOf("../c1", b.bundle, b.process.Pid, "a"), nil, `id "../c1"`},
		"no bundle":     {b.stateOf("c1", b.dir+"/none", b.process.Pid, "a"), os.ErrNotExist, b.dir + "/none/config.json"},
		"bundle a name": {b.stateOf("c1", "bundle", b.process.Pid, "a"), nil, `bundle "bundle"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Direct(t.Context(), b.settings, strings.NewReader(c.state))
			wantText(t, err, c.want)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			if request := name == "unknown name" || name == "malformed"; errors.As(err, &refused) != request {
				t.Errorf("exit code of %v", err)
			}
			b.wantAsBefore(before)
		})
	}
}

func TestOtherContainersThanCreatedOnes(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.start()
	b.config(`{"mounts":[{"destination":"/usr/lib","type":"tmpfs"}]}`)
	before := b.everything()
	if _, err := b.direct("a"); !errors.Is(err, ErrRestored) {
		t.Errorf("a mount of config.json is missing: %v", err)
	} else {
		wantText(t, err, b.rootfs)
	}
	b.wantAsBefore(before)
	b.config(`{"mounts":[]}`)
	b.process.Pivot()
	if _, err := b.direct("a"); !errors.Is(err, ErrStarted) {
		t.Errorf("after pivot_root: %v", err)
	}

	b = newBed(t)
	b.spec(map[string]string{"a": filesOnly})
	b.process = standin.Start(t, standin.Options{Rootfs: b.rootfs, Unmounted: true, Namespaces: unix.CLONE_NEWNS})
	before = b.everything()
	if _, err := b.direct("a"); !errors.Is(err, ErrRestored) {
		t.Errorf("nothing mounted: %v", err)
	} else {
		wantText(t, err, b.rootfs)
	}
	b.wantAsBefore(before)
}

func TestUnsupportedAndUntrusted(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": strings.TrimSuffix(filesOnly, "}") + `, env: ["A=1", "NVIDIA_VISIBLE_DEVICES=void"]}`})
	b.start()
	before := b.everything()
	_, err := Direct(t.Context(), failing(b.settings), strings.NewReader(b.state("a")))
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) || unsupported.ExitCode() != device.ExitRequest {
		t.Errorf("%v", err)
	}
	wantText(t, err, "env A=1", "v.example/dev=a", b.dir+"/specs/v.yaml")
	b.wantAsBefore(before)

	spec := b.dir + "/specs/v.yaml"
	if err := os.Chmod(spec, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = b.direct("a")
	wantText(t, err, spec, "v.example/dev=a")
	b.settings.TrustedSpecs = "warn"
	out := b.mustDirect("a")
	if len(out.Warnings) != 2 || !strings.Contains(out.Warnings[0], spec) || !strings.Contains(out.Warnings[1], "left out: env A=1") {
		t.Errorf("%q", out.Warnings)
	}
}
