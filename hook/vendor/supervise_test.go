package vendor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/internal/standin"
	"oci-cdi-hook/hook/oci"
)

// container is a stand-in with a rootfs, and hooks that run in it.
func container(t *testing.T, namespaces uintptr) (in Supervised, p *standin.Process, rootfs string) {
	t.Helper()
	rootfs = filepath.Join(t.TempDir(), "rootfs")
	for _, name := range []string{rootfs, filepath.Join(rootfs, "dev")} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Where it has a user namespace, its root has to get there.
	for dir := filepath.Dir(rootfs); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	p = standin.Start(t, standin.Options{Rootfs: rootfs, Tmpfs: []string{"dev"}, Namespaces: namespaces | unix.CLONE_NEWNS})
	process, err := oci.OpenProcess(p.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	in = Supervised{Dir: filepath.Dir(rootfs), State: []byte("state"), Nsenter: []string{"/usr/bin/nsenter"}, OtherPids: namespaces&unix.CLONE_NEWPID != 0}
	for _, n := range []struct {
		kind, option string
		flag         int
	}{
		{"ipc", "ipc", unix.CLONE_NEWIPC}, {"uts", "uts", unix.CLONE_NEWUTS}, {"net", "net", unix.CLONE_NEWNET},
		{"pid", "pid", unix.CLONE_NEWPID}, {"cgroup", "cgroup", unix.CLONE_NEWCGROUP}, {"mnt", "mount", unix.CLONE_NEWNS}, {"user", "user", unix.CLONE_NEWUSER},
	} {
		if n.kind == "user" && namespaces&unix.CLONE_NEWUSER == 0 {
			continue
		}
		f, err := process.Namespace(n.kind)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		in.Namespaces = append(in.Namespaces, Namespace{Option: n.option, Type: n.flag, File: f})
	}
	return in, p, rootfs
}

const allNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// wantInside checks what a hook in a container reports.
func wantInside(t *testing.T, p *standin.Process, in Supervised, to string) {
	t.Helper()
	r := readReport(t, to)
	process, err := oci.OpenProcess(p.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	for kind, have := range r.Namespaces {
		if want, err := os.Readlink("/proc/" + fmtInt(p.Pid) + "/ns/" + kind); err != nil || have != want {
			t.Errorf("%s namespace %s, the container's is %s %v", kind, have, want, err)
		}
	}
	if r.Stdin != "state" || r.Args[0] != reporter || strings.Join(r.Env, " ") != "A=1" || r.UID != 0 {
		t.Errorf("%+v", r)
	}
	if r.Dir != in.Dir {
		t.Errorf("cwd %s, want %s", r.Dir, in.Dir)
	}
	if len(r.FDs) != 3 {
		t.Errorf("descriptors %v", r.FDs)
	}
}

func TestInside(t *testing.T) {
	in, p, rootfs := container(t, allNamespaces)
	to := filepath.Join(rootfs, "dev/report") // on a tmpfs that only the container has
	in.Hooks = []Hook{
		{Path: testBinary(t), Args: []string{reporter, to}, Env: []string{"A=1"}},
		shell(`cp "$1" "$2"`, to, filepath.Join(rootfs, "copy")),
	}
	if err := in.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("the hook ran outside")
	}
	wantInside(t, p, in, filepath.Join(rootfs, "copy"))
}

func TestInsideCgroup(t *testing.T) {
	dir := cgroup2(t)
	in, _, rootfs := container(t, allNamespaces)
	in.CgroupV2 = dir
	to := filepath.Join(rootfs, "report")
	in.Hooks = []Hook{{Path: testBinary(t), Args: []string{reporter, to}}}
	if err := in.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := readReport(t, to); !strings.Contains(r.Cgroup, filepath.Base(dir.Name())) {
		t.Errorf("cgroup %s", r.Cgroup)
	}
}

func TestInsideUserNamespace(t *testing.T) {
	if _, err := os.Stat("/usr/bin/nsenter"); err != nil {
		t.Skip("no nsenter of util-linux")
	}
	in, p, rootfs := container(t, allNamespaces|unix.CLONE_NEWUSER)
	if err := os.Chmod(rootfs, 0o777); err != nil {
		t.Fatal(err)
	}
	// The container's root cannot get to where go test keeps its binary.
	hook := filepath.Join(in.Dir, "hook")
	binary, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(hook, binary, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(rootfs, "report")
	in.Hooks = []Hook{{Path: hook, Args: []string{reporter, to}, Env: []string{"A=1"}}}
	if err := in.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantInside(t, p, in, to)
	var st unix.Stat_t
	if err := unix.Stat(to, &st); err != nil || st.Uid != standin.FirstID {
		t.Errorf("made by uid %d %v", st.Uid, err)
	}
	in.Hooks = []Hook{shell("echo why >&2; exit 5")}
	if err := in.Run(t.Context()); err == nil || err.Error() != "hook /bin/sh: exit status 5: why" {
		t.Errorf("%v", err)
	}
	in.Nsenter = []string{"/none/nsenter"}
	if err := in.Run(t.Context()); err == nil || err.Error() != ErrNoNsenter.Error() {
		t.Errorf("%v", err)
	}
}

func TestInsideStopsAtTheFirstFailure(t *testing.T) {
	dir := t.TempDir()
	in := Supervised{Dir: "/", Hooks: []Hook{
		shell(`: > "$1"`, filepath.Join(dir, "0")), shell("echo why >&2; exit 9"), shell(`: > "$1"`, filepath.Join(dir, "2")),
	}}
	err := in.Run(t.Context())
	var failed *FailedError
	if !errors.As(err, &failed) || failed.Index != 1 || err.Error() != "hook /bin/sh: exit status 9: why" {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) != 1 || filepath.Base(left[0]) != "0" {
		t.Errorf("ran %q %v", left, err)
	}
}

func TestInsideEndsAtTheDeadline(t *testing.T) {
	in, _, rootfs := container(t, allNamespaces)
	f := newFIFO(t)
	in.Hooks = []Hook{blocks(f), shell(`: > "$1"`, filepath.Join(rootfs, "ran"))}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := in.Run(ctx)
	if err == nil || err.Error() != "hook /bin/sh: ended at the deadline" {
		t.Errorf("%v", err)
	}
	f.end()
	if _, err := os.Stat(filepath.Join(rootfs, "ran")); err == nil {
		t.Error("the next hook ran")
	}
}

// With the process that gave the order its hooks end, and nothing of them stays in the
// container's pid namespace: its init can end, see [Supervised.Run].
func TestInsideDiesWithItsCaller(t *testing.T) {
	f := newFIFO(t)
	h := blocks(f)
	cmd := startRunner(t, ordered{Supervised: &Supervised{Dir: "/", Hooks: []Hook{h}}})
	f.hear()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	f.end()
}

func TestSuperviseRefusesNonsense(t *testing.T) {
	for _, in := range []string{"", "{}", "nonsense\n", "[]\n"} {
		var out bytes.Buffer
		if err := Supervise(strings.NewReader(in), &out); err == nil || out.Len() > 0 {
			t.Errorf("%q: %v %s", in, err, &out)
		}
	}
}

func TestOrderTravelsWhole(t *testing.T) {
	o := order{Supervised: Supervised{
		Hooks: []Hook{{Path: "/p", Args: []string{"a\n", ""}, Env: []string{"A=\u2028"}, Timeout: new(3)}},
		State: []byte("\x00\xff"), Dir: "/d", OtherPids: true, CgroupsV1: []string{"/c"}, Nsenter: []string{"/n"},
		Namespaces: []Namespace{{Option: "pid", Type: unix.CLONE_NEWPID}},
	}, HasCgroupV2: true, Deadline: time.Unix(7, 9).UTC()}
	text, err := json.Marshal(o)
	if err != nil || bytes.ContainsRune(text, '\n') {
		t.Fatalf("%s %v", text, err)
	}
	var again order
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if second, err := json.Marshal(again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("%s\n%s %v", text, second, err)
	}
}
