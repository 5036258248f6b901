package vendor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/mounts/nsthread"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		hook Hook
		want string
	}{
		"good":             {Hook{Path: "/bin/sh"}, ""},
		"through a link":   {Hook{Path: filepath.Join(dir, "link")}, ""},
		"with a timeout":   {Hook{Path: "/bin/sh", Timeout: new(1)}, ""},
		"no path":          {Hook{}, `hook "": not an absolute path`},
		"relative":         {Hook{Path: "sh"}, `hook "sh": not an absolute path`},
		"missing":          {Hook{Path: "/none/x"}, "hook: stat /none/x: no such file"},
		"directory":        {Hook{Path: dir}, "hook " + dir + ": not an executable file"},
		"not executable":   {Hook{Path: plain}, "hook " + plain + ": not an executable file"},
		"device":           {Hook{Path: "/dev/null"}, "hook /dev/null: not an executable file"},
		"timeout 0":        {Hook{Path: "/bin/sh", Timeout: new(0)}, "hook /bin/sh: timeout 0 is not above 0"},
		"negative timeout": {Hook{Path: "/bin/sh", Timeout: new(-1)}, "timeout -1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.hook.Check()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestHookIsGivenJustItsOwn(t *testing.T) {
	t.Setenv("OURS", "1")
	// A runtime may leave us a descriptor that survives exec.
	left, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(left)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const state = `{"id":"a","pid":7}`
	r := reported(t, func(h *Hook, at *Place) {
		h.Args = slices.Insert(h.Args, 1, "an argument", "", "--x")
		h.Env = []string{"A=1", "B=2 3", "A=4"}
		at.Dir = dir
	}, state)
	if !slices.Equal(r.Args[:4], []string{reporter, "an argument", "", "--x"}) {
		t.Errorf("args %q", r.Args)
	}
	if r.Dir != dir || r.Stdin != state {
		t.Errorf("cwd %s, stdin %q", r.Dir, r.Stdin)
	}
	// One of two equal names counts, the last, as os/exec has it.
	if !slices.Equal(r.Env, []string{"B=2 3", "A=4"}) {
		t.Errorf("env %q", r.Env)
	}
	if len(r.FDs) != 3 || r.FDs["1"] != os.DevNull {
		t.Errorf("descriptors %v", r.FDs)
	}
	if r.Pgrp != r.Pid {
		t.Errorf("process %d is in group %d", r.Pid, r.Pgrp)
	}
	// What we were started with stays: SIGHUP below nohup, 32 and 33 below make (the C library's posix_spawn).
	if ours, err := ignoredSignals(); err != nil || r.Ignored&^ours != 0 {
		t.Errorf("ignored signals %x, ours %x %v", r.Ignored, ours, err)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil || r.Namespaces["mnt"] != own {
		t.Errorf("mount namespace %s, not the caller's %s %v", r.Namespaces["mnt"], own, err)
	}
}

func TestEmptyEnvironment(t *testing.T) {
	t.Setenv("OURS", "1")
	for name, env := range map[string][]string{"none": nil, "empty": {}} {
		if r := reported(t, func(h *Hook, _ *Place) { h.Env = env }, ""); len(r.Env) != 0 {
			t.Errorf("%s: %q", name, r.Env)
		}
	}
}

func TestWithoutArgsThePathIsTheName(t *testing.T) {
	to := filepath.Join(t.TempDir(), "name")
	script := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf '%s %s' \"$0\" $# > "+to+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (Hook{Path: script}).Run(t.Context(), nil, Place{Dir: "/"}); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(to); err != nil || string(have) != script+" 0" {
		t.Errorf("%s %v", have, err)
	}
}

func TestFailureIsOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		hook Hook
		want string
	}{
		"exit code":    {shell("exit 7"), "hook /bin/sh: exit status 7"},
		"its words":    {shell("echo why >&2; exit 1"), "hook /bin/sh: exit status 1: why"},
		"several":      {shell(`printf 'a\n\nb\r\nc\033[2Jd' >&2; exit 1`), "hook /bin/sh: exit status 1: a | b | c | [2Jd"},
		"not UTF-8":    {shell(`printf 'a\377b' >&2; exit 1`), "hook /bin/sh: exit status 1: a?b"},
		"only the end": {shell(`i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1`), " | line 1999"},
		"by a signal":  {shell("kill -9 $$"), "hook /bin/sh: signal: killed"},
		"gone":         {Hook{Path: "/none/x"}, "hook /none/x: fork/exec /none/x: no such file"},
		"stdout":       {shell("echo not shown; exit 1"), "hook /bin/sh: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.hook.Run(t.Context(), nil, Place{Dir: "/"})
			if err == nil {
				t.Fatal("no error")
			}
			text := err.Error()
			exact := name != "only the end" && name != "gone"
			if exact && text != c.want || !strings.Contains(text, c.want) || len(text) > 3*maxStderr || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
	if err := shell("echo fine >&2").Run(t.Context(), nil, Place{Dir: "/"}); err != nil {
		t.Errorf("words without a failure: %v", err)
	}
	if err := shell("exit 0").Run(t.Context(), nil, Place{Dir: "/none"}); err == nil {
		t.Error("no such working directory")
	}
}

func TestStdinNeedsNoReader(t *testing.T) {
	large := []byte(strings.Repeat("x", 1<<20))
	for _, line := range []string{"exit 0", "exec <&-; exit 0", "head -c 1 >/dev/null"} {
		if err := shell(line).Run(t.Context(), large, Place{Dir: "/"}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// blocks is a hook that starts another process, and both stay.
func blocks(f *fifo) Hook {
	return shell(`exec 9>"$1"; tail -f /dev/null & echo ready >&9; wait`, f.name)
}

func TestTimeoutEndsTheWholeGroup(t *testing.T) {
	f := newFIFO(t)
	h := blocks(f)
	h.Timeout = new(1)
	err := h.Run(t.Context(), nil, Place{Dir: "/"})
	if err == nil || err.Error() != "hook /bin/sh: killed after its timeout of 1 s" {
		t.Errorf("%v", err)
	}
	f.end()
}

func TestHugeTimeout(t *testing.T) {
	h := shell("exit 0")
	h.Timeout = new(math.MaxInt)
	if err := h.Run(t.Context(), nil, Place{Dir: "/"}); err != nil {
		t.Error(err)
	}
}

func TestContextEndsTheWholeGroup(t *testing.T) {
	f := newFIFO(t)
	cause := errors.New("deadline of 1m passed")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		f.hear()
		cancel(cause)
	}()
	err := blocks(f).Run(ctx, nil, Place{Dir: "/"})
	if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "hook /bin/sh: deadline") {
		t.Errorf("%v", err)
	}
	f.end()
	// And nothing starts afterwards.
	if err := shell("echo started > "+f.name).Run(ctx, nil, Place{Dir: "/"}); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}

// A process that a hook leaves behind keeps the hook's stderr, and not the runtime.
func TestDaemonHoldsNobodyUp(t *testing.T) {
	f := newFIFO(t)
	stop := newFIFO(t)
	h := shell(`exec 9>"$1"; echo left >&2; cat "$2" >&2 & echo ready >&9`, f.name, stop.name)
	began := time.Now()
	if err := h.Run(t.Context(), []byte(strings.Repeat("x", 1<<20)), Place{Dir: "/"}); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*maxWait {
		t.Errorf("took %v", took)
	}
	f.hear()
	// It lives on: somebody reads what is written for it, and then it ends.
	w, err := os.OpenFile(stop.name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	f.end()

	stop2 := newFIFO(t)
	err = shell(`cat "$1" >&2 & echo why >&2; exit 3`, stop2.name).Run(t.Context(), nil, Place{Dir: "/"})
	if err == nil || err.Error() != "hook /bin/sh: exit status 3: why" {
		t.Errorf("a failure beside a daemon: %v", err)
	}
	if w, err = os.OpenFile(stop2.name, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestDiesWithItsCaller(t *testing.T) {
	f := newFIFO(t)
	h := shell(`exec 9>"$1"; echo ready >&9; exec tail -f /dev/null`, f.name)
	cmd := startRunner(t, ordered{Hook: &h})
	f.hear()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	f.end()
}

// cgroup2 makes a cgroup of version 2, wherever that is mounted.
func cgroup2(t *testing.T) *os.File {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: making a cgroup")
	}
	for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(at, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		name := fmt.Sprintf("%s/oci-cdi-hook-vendor-test-%d", at, os.Getpid())
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
		})
		dir, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		return dir
	}
	t.Skip("no cgroup v2 is mounted")
	return nil
}

func TestCgroup(t *testing.T) {
	dir := cgroup2(t)
	want := "0::/" + filepath.Base(dir.Name()) + "\n"
	r := reported(t, func(_ *Hook, at *Place) { at.Cgroup = dir }, "")
	if !strings.Contains(r.Cgroup, want) {
		t.Errorf("cgroup %s, want %s", r.Cgroup, want)
	}
	if own, err := os.ReadFile("/proc/self/cgroup"); err != nil || strings.Contains(string(own), want) {
		t.Errorf("the caller was moved: %s %v", own, err)
	}
}

// Before kernel 5.7 a process is moved there after it was started.
func TestCgroupWithoutClone3(t *testing.T) {
	dir := cgroup2(t)
	f := newFIFO(t)
	thread, err := nsthread.Start(func() error { return poison(unix.SYS_CLONE3) })
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Close()
	// It is there in the end; when exactly, nobody promises.
	h := shell(`until grep -q "$2" /proc/self/cgroup; do :; done; echo there >"$1"`, f.name, filepath.Base(dir.Name()))
	if err := h.Run(t.Context(), nil, Place{Thread: thread, Cgroup: dir, Dir: "/"}); err != nil {
		t.Fatal(err)
	}
}
