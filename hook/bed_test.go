package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/internal/standin"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/hook/settings"
)

// A test is the hook's main, and a process of its own takes the container's place.
func TestMain(m *testing.M) {
	standin.Main()
	if len(os.Args) > 1 && os.Args[1] == SuperviseVerb {
		if err := SuperviseVendorHooks(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bed is a host's directories and a container, not started, with a tmpfs on its /dev.
type bed struct {
	t        *testing.T
	dir      string
	bundle   string
	rootfs   string
	trace    string // what vendors' hooks leave
	settings Settings
	process  *standin.Process
	cgroup   string // directory of its devices cgroup, see ownCgroup
}

func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: containers, their mounts and nodes")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, dir: dir, bundle: dir + "/bundle", rootfs: dir + "/bundle/rootfs", trace: dir + "/trace"}
	b.settings = Defaults()
	b.settings.SpecDirs, b.settings.StateDir = []string{dir + "/specs"}, dir+"/state"
	b.write("host/file", "from the host")
	b.write("host/lib/libx.so", "a library")
	for _, name := range []string{"specs", "bundle/rootfs/dev", "bundle/rootfs/usr/lib"} {
		b.mkdir(name)
	}
	b.config(`{}`)
	return b
}

func (b *bed) mkdir(name string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Join(b.dir, name), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) write(name, content string) {
	b.t.Helper()
	b.mkdir(filepath.Dir(name))
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// config writes config.json: root and a mount of /dev, and what else is given.
func (b *bed) config(more string) {
	b.t.Helper()
	config := map[string]any{
		"root":   map[string]any{"path": "rootfs"},
		"mounts": []any{map[string]any{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}},
	}
	var rest map[string]any
	if err := json.Unmarshal([]byte(more), &rest); err != nil {
		b.t.Fatal(err)
	}
	maps.Copy(config, rest)
	text, err := json.Marshal(config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.write("bundle/config.json", string(text))
}

// spec defines devices v.example/dev=NAME. $HOST and $TRACE in their edits are
// directories of the bed.
func (b *bed) spec(devices map[string]string) {
	b.t.Helper()
	text := "cdiVersion: 1.1.0\nkind: v.example/dev\ndevices:\n"
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		text += "- name: " + name + "\n  containerEdits: " + devices[name] + "\n"
	}
	b.write("specs/v.yaml", strings.NewReplacer("$HOST", b.dir+"/host", "$TRACE", b.trace, "$STATE", b.settings.StateDir).Replace(text))
}

func (b *bed) start() {
	b.t.Helper()
	b.process = standin.Start(b.t, standin.Options{
		Rootfs: b.rootfs, Tmpfs: []string{"dev"}, Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID,
	})
}

// state is the document that a runtime would send.
func (b *bed) state(names ...string) string {
	return b.stateOf("c1", b.bundle, b.process.Pid, names...)
}

func (b *bed) stateOf(id, bundle string, pid int, names ...string) string {
	b.t.Helper()
	annotations := map[string]string{"unrelated": "x"}
	if len(names) > 0 {
		annotations["cdi.k8s.io/test"] = "v.example/dev=" + strings.Join(names, ",v.example/dev=")
	}
	text, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2", "id": id, "pid": pid, "bundle": bundle, "status": "creating", "annotations": annotations, "other": 7,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// direct runs the stage for the container.
func (b *bed) direct(names ...string) (*Outcome, error) {
	b.t.Helper()
	return Direct(b.t.Context(), b.settings, strings.NewReader(b.state(names...)))
}

func (b *bed) mustDirect(names ...string) *Outcome {
	b.t.Helper()
	out, err := b.direct(names...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// inside is a path as the container will see it.
func (b *bed) inside(name string) string {
	return fmt.Sprintf("/proc/%d/root%s", b.process.Pid, filepath.Join(b.rootfs, name))
}

// traced reads what vendors' hooks left under a name.
func (b *bed) traced(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.trace, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

// record reads the record of a container; nil where there is none.
func (b *bed) record(id, bundle string) *record.Record {
	b.t.Helper()
	dir, err := record.OpenDir(b.settings.StateDir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer dir.Close()
	e, err := dir.Lock(context.Background(), id, bundle)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = e.Unlock() }()
	r, err := e.Read()
	if err != nil {
		return nil
	}
	return r
}

// everything lists what a hook could have changed: the bed from outside and from inside,
// both mount tables, and the device rules.
func (b *bed) everything() []string {
	b.t.Helper()
	all := b.tree("outside", b.dir)
	all = append(all, b.tree("inside", b.inside("/"))...)
	all = append(all, b.mounts("/proc/self/mountinfo")...)
	all = append(all, b.mounts(fmt.Sprintf("/proc/%d/mountinfo", b.process.Pid))...)
	if b.cgroup != "" {
		rules, err := os.ReadFile(b.cgroup + "/devices.list")
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, string(rules))
	}
	return all
}

func (b *bed) tree(label, top string) []string {
	b.t.Helper()
	var all []string
	err := filepath.WalkDir(top, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == b.trace || name == b.settings.StateDir {
			return filepath.SkipDir
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			st.Size = 0 // a tmpfs counts entries, those of the state folder too
		}
		all = append(all, fmt.Sprintf("%s %s mode %o owner %d:%d device %d size %d", label, strings.TrimPrefix(name, top), st.Mode, st.Uid, st.Gid, st.Rdev, st.Size))
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b *bed) mounts(table string) []string {
	b.t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		b.t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, b.dir) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	slices.Sort(all)
	return all
}

// wantAsBefore checks that nothing has changed and no record is left.
func (b *bed) wantAsBefore(before []string) {
	b.t.Helper()
	if now := b.everything(); !slices.Equal(now, before) {
		b.t.Errorf("now\n%s\nbefore\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
	left, err := os.ReadDir(b.settings.StateDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	for _, e := range left {
		b.t.Errorf("left %s", e.Name())
	}
}

// ownCgroup gives the container a devices cgroup that denies all but null. The one above
// denies all but what is given, if something is.
func (b *bed) ownCgroup(above ...string) {
	b.t.Helper()
	const top = "/sys/fs/cgroup/devices"
	if _, err := os.Stat(top); err != nil {
		b.t.Skip("no cgroup v1 with the devices controller is mounted")
	}
	for _, name := range []string{fmt.Sprintf("/oci-cdi-hook-test-%d", os.Getpid()), "/c1"} {
		if b.cgroup == "" {
			b.cgroup = top
		}
		b.cgroup += name
		dir := b.cgroup
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			b.process.End()
			if err := os.Remove(dir); err != nil {
				b.t.Error(err)
			}
		})
		if name != "/c1" && len(above) > 0 {
			b.allowOnly(above...)
		}
	}
	b.allowOnly("c 1:3 rwm")
	b.writeCgroup("cgroup.procs", fmt.Sprint(b.process.Pid))
}

func (b *bed) allowOnly(rules ...string) {
	b.t.Helper()
	b.writeCgroup("devices.deny", "a")
	for _, r := range rules {
		b.writeCgroup("devices.allow", r)
	}
}

func (b *bed) writeCgroup(file, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.cgroup, file), []byte(text), 0); err != nil {
		b.t.Fatal(err)
	}
}

func wantText(t *testing.T, err error, wanted ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", wanted)
		return
	}
	for _, w := range wanted {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q is without %q", err, w)
		}
	}
}

// failing is a configuration that wants all of a device or nothing.
func failing(s Settings) Settings {
	s.Unsupported = settings.Fail
	return s
}
