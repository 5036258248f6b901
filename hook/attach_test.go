package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/internal/standin"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/policy"
)

// reference names the bed's container.
func (b *bed) reference() oci.Reference {
	return oci.Reference{State: oci.State{ID: "c1", Pid: b.process.Pid, Bundle: b.bundle}}
}

func names(devices ...string) []string {
	var all []string
	for _, d := range devices {
		all = append(all, "v.example/dev="+d)
	}
	return all
}

func (b *bed) attach(devices ...string) (*Outcome, error) {
	b.t.Helper()
	return b.settings.attach(b.t.Context(), b.reference(), names(devices...))
}

func (b *bed) mustAttach(devices ...string) *Outcome {
	b.t.Helper()
	out, err := b.attach(devices...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// pivot gives the container its own root.
func (b *bed) pivot() {
	b.t.Helper()
	b.process.Pivot()
	b.rootfs = "/"
}

// runs starts a container with its own root, to which nothing was given yet.
func runs(t *testing.T, devices map[string]string) *bed {
	t.Helper()
	b := newBed(t)
	b.spec(devices)
	b.start()
	b.pivot()
	return b
}

// hostMounts are the mounts of the host's side: attaching adds none.
func (b *bed) hostMounts() []string {
	b.t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

func TestAttach(t *testing.T) {
	b := runs(t, map[string]string{"a": filesOnly, "b": `{deviceNodes: [{path: /dev/vendor/q, type: p}]}`})
	before := b.hostMounts()
	if out := b.mustAttach("a"); len(out.Warnings) > 0 || len(out.Plan.Actions) != 4 {
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
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", b.process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, "/opt/vendor/lib") && (!strings.Contains(line, "ro,nosuid") || strings.Contains(line, "shared:") || strings.Contains(line, "master:")) {
			t.Errorf("not private and ro: %s", line)
		}
	}
	if now := b.hostMounts(); !slices.Equal(now, before) {
		t.Errorf("mounts of the host: %q, before %q", now, before)
	}
	b.wantFaults("as given")

	// Twice is once.
	count := strings.Count(string(table), "\n")
	out := b.mustAttach("a")
	table, _ = os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", b.process.Pid))
	if n := strings.Count(string(table), "\n"); n != count+1 { // a tmpfs cannot be told from another
		t.Logf("%d mounts, %d before", n, count)
	}
	for _, a := range out.Plan.Actions {
		if a.Node != nil && !a.Found {
			t.Errorf("made again: %+v", a)
		}
	}
	b.mustAttach("b")
	r := b.record("c1", b.bundle)
	if !r.Done || !slices.Equal(r.Devices, names("a", "b")) || r.Pid != b.process.Pid {
		t.Errorf("%+v", r)
	}
	b.wantFaults("both")
}

func TestAttachRefuses(t *testing.T) {
	devices := map[string]string{
		"a":    filesOnly,
		"env":  `{env: [A=1]}`,
		"hook": `{hooks: [` + traces("createContainer") + `]}`,
		"file": `{deviceNodes: [{path: /dev/vendor/p, type: p}], mounts: [{hostPath: $HOST/lib, containerPath: /usr/lib/libfile, options: [bind]}]}`,
	}
	for name, c := range map[string]struct {
		devices []string
		change  func(b *bed, ref *oci.Reference)
		code    int
		want    string
	}{
		"unknown":      {devices: []string{"a", "zz"}, code: 3, want: "v.example/dev=zz"},
		"env only":     {devices: []string{"env"}, code: 3, want: "processes were started with"},
		"hooks only":   {devices: []string{"hook"}, code: 3, want: "a program of the host would load the container's libraries"},
		"no directory": {devices: []string{"file"}, want: "/usr/lib/libfile"},
		"denied": {devices: []string{"a"}, code: 3, want: "a [[deny]] wins", change: func(b *bed, _ *oci.Reference) {
			b.settings.Policy.Deny = []policy.Rule{{Devices: []string{"v.example/dev=*"}}}
		}},
		"ended":           {devices: []string{"a"}, want: "it has ended", change: func(_ *bed, ref *oci.Reference) { ref.Pid = 1 << 22 }},
		"another process": {devices: []string{"a"}, want: "it has ended", change: func(_ *bed, ref *oci.Reference) { ref.StartTime = 1 }},
		"pid 1":           {devices: []string{"a"}, want: "not a container's process", change: func(_ *bed, ref *oci.Reference) { ref.Pid = 1 }},
		"ourselves":       {devices: []string{"a"}, want: "the host's own", change: func(_ *bed, ref *oci.Reference) { ref.Pid = os.Getpid() }},
		"no id":           {devices: []string{"a"}, want: "one path component", change: func(_ *bed, ref *oci.Reference) { ref.ID = "a/b" }},
	} {
		t.Run(name, func(t *testing.T) {
			b := runs(t, devices)
			if err := os.WriteFile(b.inside("/usr/lib/libfile"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			before := b.everything()
			ref := b.reference()
			if c.change != nil {
				c.change(b, &ref)
			}
			_, err := b.settings.attach(t.Context(), ref, names(c.devices...))
			wantText(t, err, c.want)
			var coded interface{ ExitCode() int }
			if errors.As(err, &coded) != (c.code != 0) || c.code != 0 && coded.ExitCode() != c.code {
				t.Errorf("exit code of %v is not %d", err, c.code)
			}
			b.wantAsBefore(before)
		})
	}
	t.Run("not pivoted", func(t *testing.T) {
		b := newBed(t)
		b.spec(devices)
		b.start()
		before := b.everything()
		_, err := b.attach("a")
		wantText(t, err, "still being created")
		b.wantAsBefore(before)
	})
}

// A container with a user namespace gets nodes, and no mounts.
func TestAttachInAUserNamespace(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{"a": `{
		mounts: [{hostPath: $HOST/lib, containerPath: /opt/lib, options: [bind]}],
		deviceNodes: [{path: /dev/null, hostPath: /dev/null}, {path: /dev/z/zero, hostPath: /dev/zero, fileMode: 0o600, uid: 5, gid: 6}]}`})
	for name := b.rootfs; name != os.TempDir(); name = filepath.Dir(name) {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(b.rootfs+"/dev", standin.FirstID, standin.FirstID); err != nil {
		t.Fatal(err)
	}
	b.process = standin.Start(t, standin.Options{
		Rootfs: b.rootfs, Tmpfs: []string{"dev"}, Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUSER,
	})
	b.pivot()
	out := b.mustAttach("a")
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "left out: mounts  on /opt/lib") || !strings.Contains(out.Warnings[0], "locks") {
		t.Errorf("%q", out.Warnings)
	}
	var st unix.Stat_t
	if err := unix.Stat(b.inside("/dev/z/zero"), &st); err != nil || st.Mode != unix.S_IFCHR|0o600 || st.Uid != standin.FirstID+5 || st.Gid != standin.FirstID+6 {
		t.Errorf("node: mode %o owner %d:%d %v", st.Mode, st.Uid, st.Gid, err)
	}
	if _, err := os.Stat(b.inside("/opt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mount point of a mount that was left out: %v", err)
	}
}

// What a hook gave, and what is given to the same process later, are one record.
func TestAttachAfterTheHook(t *testing.T) {
	b := newBed(t)
	b.spec(map[string]string{
		"a": `{deviceNodes: [{path: /dev/p, type: p}], mounts: [{hostPath: $HOST/file, containerPath: /usr/lib/file, options: [bind]}]}`,
		"b": `{deviceNodes: [{path: /dev/p, type: p}, {path: /dev/q, type: p}]}`,
	})
	b.start()
	b.mustDirect("a")
	b.process.Pivot()
	b.mustAttach("b")
	r := b.record("c1", b.bundle)
	actions, err := recordedActions(r)
	if err != nil || len(actions) != 3 || len(r.Mounted) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	for _, a := range actions {
		shared := a.Node != nil && a.Node.Path == "/dev/p"
		if a.Found || slices.Equal(a.Serves, names("b")) != shared {
			t.Errorf("%+v", a)
		}
	}
	b.wantFaults("both")
}

// A failure half-way takes back what was done, and the record is as it was.
func TestAttachFailsHalfWay(t *testing.T) {
	b := runs(t, map[string]string{
		"a": `{deviceNodes: [{path: /dev/p, type: p}]}`,
		"b": `{mounts: [{hostPath: $HOST/lib, containerPath: /opt/lib, options: [bind]}, {hostPath: $HOST/lib, containerPath: /opt/lib/none, options: [bind]}]}`,
	})
	b.mustAttach("a")
	before, had := b.everything(), b.record("c1", b.bundle)
	if err := os.RemoveAll(b.dir + "/host/lib/none"); err != nil {
		t.Fatal(err)
	}
	b.mkdir("host")
	remount := filepath.Join(b.dir, "host", "lib")
	if err := unix.Mount("ro", remount, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(remount, unix.MNT_DETACH) }()
	_, err := b.attach("b")
	wantText(t, err, "/opt/lib/none")
	_ = unix.Unmount(remount, unix.MNT_DETACH)
	if now := b.everything(); !slices.Equal(now, before) {
		t.Errorf("now\n%s\nbefore\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
	if r := b.record("c1", b.bundle); fmt.Sprint(*r) != fmt.Sprint(*had) {
		t.Errorf("record %+v, before %+v", r, had)
	}
}
