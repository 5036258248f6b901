package vendor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/internal/standin"
)

// reporter is the name by which the test binary, run as a hook, says what it was given.
const reporter = "reporting-hook"

// runner is the name by which it runs the hook, or the order with hooks, on its stdin.
const runner = "runs-a-hook"

func TestMain(m *testing.M) {
	standin.Main()
	if os.Args[0] == reporter {
		os.Exit(exitCode(writeReport(os.Args[len(os.Args)-1])))
	}
	if os.Args[0] == runner {
		os.Exit(exitCode(runOrdered(os.Stdin)))
	}
	if len(os.Args) > 1 && os.Args[1] == SuperviseVerb {
		os.Exit(exitCode(Supervise(os.Stdin, os.Stdout)))
	}
	if len(os.Args) > 1 && os.Args[1] == ExecVerb {
		os.Exit(exitCode(Exec(os.Args[2:], os.Environ())))
	}
	os.Exit(m.Run())
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// ordered is what a runner does: a hook alone, or hooks in no namespaces but its own.
type ordered struct {
	Hook       *Hook
	Supervised *Supervised
}

func runOrdered(in io.Reader) error {
	var o ordered
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	if o.Hook != nil {
		return o.Hook.Run(context.Background(), nil, Place{Dir: "/"})
	}
	return o.Supervised.Run(context.Background())
}

// startRunner starts a runner and gives it its order.
func startRunner(t *testing.T, o ordered) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{runner}
	cmd.Env = []string{}
	cmd.Stdin = bytes.NewReader(text)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// report is what a hook sees of its surroundings.
type report struct {
	Args, Env  []string
	Dir, Stdin string
	FDs        map[string]string
	Pgrp, Pid  int
	Ignored    uint64            // the signals, SigIgn of /proc/self/status
	Cgroup     string            // /proc/self/cgroup
	Namespaces map[string]string // by kind
	UID        int
}

func writeReport(to string) error {
	r := report{
		Args: os.Args, Env: os.Environ(), FDs: map[string]string{}, Pgrp: syscall.Getpgrp(), Pid: os.Getpid(),
		Namespaces: map[string]string{}, UID: os.Getuid(),
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		// What the Go runtime opens for itself, and the directory being read, are no
		// inheritance.
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasSuffix(to, "/fd") && !strings.Contains(to, "/cgroup/") {
			r.FDs[e.Name()] = to
		}
	}
	if r.Dir, err = os.Getwd(); err != nil {
		return err
	}
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	r.Stdin = string(stdin)
	if r.Ignored, err = ignoredSignals(); err != nil {
		return err
	}
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	r.Cgroup = string(cgroup)
	for _, kind := range []string{"mnt", "pid", "user", "net", "ipc", "uts", "cgroup"} {
		if r.Namespaces[kind], err = os.Readlink("/proc/self/ns/" + kind); err != nil {
			return err
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o666)
}

func ignoredSignals() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "SigIgn:\t")
	mask, _, _ := strings.Cut(after, "\n")
	return strconv.ParseUint(mask, 16, 64)
}

func testBinary(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// reported runs a reporting hook and reads what it wrote.
func reported(t *testing.T, change func(h *Hook, at *Place), state string) report {
	t.Helper()
	to := filepath.Join(t.TempDir(), "report")
	h := Hook{Path: testBinary(t), Args: []string{reporter, to}}
	at := Place{Dir: "/"}
	change(&h, &at)
	if err := h.Run(t.Context(), []byte(state), at); err != nil {
		t.Fatal(err)
	}
	return readReport(t, to)
}

func readReport(t *testing.T, name string) report {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// shell is a hook that runs a line of sh(1).
func shell(line string, args ...string) Hook {
	return Hook{Path: "/bin/sh", Args: append([]string{"sh", "-c", line, "sh"}, args...), Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
}

// fifo is how a test hears of a hook and of everything the hook started: it ends when all
// of them have.
type fifo struct {
	t    *testing.T
	name string
	r    *os.File
}

func newFIFO(t *testing.T) *fifo {
	t.Helper()
	f := &fifo{t: t, name: filepath.Join(t.TempDir(), "fifo")}
	if err := unix.Mkfifo(f.name, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(f.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	f.r = os.NewFile(uintptr(fd), f.name)
	t.Cleanup(func() { f.r.Close() })
	return f
}

// hear waits for the next words.
func (f *fifo) hear() string {
	f.t.Helper()
	// Before somebody opens it for writing a FIFO is at its end: wait for that.
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(f.r.Fd()), Events: unix.POLLIN}}, 30_000); err != nil && !errors.Is(err, unix.EINTR) {
		f.t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := f.r.Read(buf)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(buf[:n])
}

// end waits until nobody can write any more.
func (f *fifo) end() {
	f.t.Helper()
	if _, err := io.Copy(io.Discard, f.r); err != nil {
		f.t.Fatal(err)
	}
}
