package bed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/report"
)

const (
	heldState = work + "/held.state"
	heldFIFO  = work + "/held.fifo"
)

// Started is a container on its way.
type Started struct {
	b    *Bundle
	rt   Runtime
	cmd  *exec.Cmd
	out  bytes.Buffer
	errs bytes.Buffer
}

// Start starts the bundle, whose config.json is written, and does not wait.
func (b *Bundle) Start(rt Runtime) *Started {
	b.t.Helper()
	s := &Started{b: b, rt: rt, cmd: exec.Command(rt.Path, "--root", roots, "run", "--bundle", b.Dir, b.ID)}
	// a pipe, not /dev/null: crun gives its streams to the container's root
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = strings.NewReader(""), &s.out, &s.errs
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// a child of the runtime may outlive it with our pipes
	s.cmd.WaitDelay = time.Second
	b.must(s.cmd.Start())
	return s
}

// Wait waits for the end and takes away what is left with the runtime. One that does not end is killed, and the test fails.
func (s *Started) Wait() Result {
	s.b.t.Helper()
	late := time.AfterFunc(patience, func() { s.b.must(s.cmd.Process.Kill()) })
	s.cmd.Wait() //nolint:errcheck // the exit code tells
	if !late.Stop() {
		s.b.t.Errorf("%s: not done after %v", s.rt.Name, patience)
	}
	s.b.Delete(s.rt)
	return Result{s.out.String(), s.errs.String() + s.b.hooksSaid(), s.cmd.ProcessState.ExitCode()}
}

// Held is a container stopped at createRuntime: made, not pivoted. Whatever a test feeds to the hook meets the real thing.
type Held struct {
	*Started
	State   specs.State
	release *os.File
}

// Hold starts the bundle and returns when it waits. It must have been told its questions.
func (b *Bundle) Hold(rt Runtime) *Held {
	b.t.Helper()
	b.must(unix.Mkfifo(heldFIFO, 0o600))
	timeout := 120
	b.hooks().CreateRuntime = append(b.hooks().CreateRuntime, specs.Hook{
		Path: Tool(toolHook), Args: []string{"vendorhook", "quiet", "state=" + heldState, "hold=" + heldFIFO}, Timeout: &timeout,
	})
	b.Write()
	h := &Held{Started: b.Start(rt)}
	h.wait()
	return h
}

// wait ends when the stand-in has shown the state and opened the FIFO.
func (h *Held) wait() {
	h.b.t.Helper()
	WaitFor(h.b.t, "the held hook", func() bool {
		raw, err := os.ReadFile(heldState)
		if err != nil {
			return false
		}
		h.b.must(json.Unmarshal(raw, &h.State))
		fd, err := unix.Open(heldFIFO, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return false // ENXIO: not opened at the other end yet
		}
		h.release = os.NewFile(uintptr(fd), heldFIFO)
		return true
	})
}

// Release lets the container go on to its end.
func (h *Held) Release() Result {
	h.b.t.Helper()
	h.b.must(h.release.Close())
	res := h.Wait()
	for _, p := range []string{heldFIFO, heldState} {
		h.b.must(os.Remove(p))
	}
	return res
}

// View is what can be seen of the container from outside: its mounts, and every object below its rootfs in its own namespace.
func (h *Held) View() []string {
	h.b.t.Helper()
	proc := fmt.Sprintf("/proc/%d", h.State.Pid)
	raw, err := os.ReadFile(proc + "/mountinfo")
	h.b.must(err)
	mounts, err := report.ParseMountinfo(string(raw))
	h.b.must(err)
	var out []string
	for _, m := range mounts {
		out = append(out, m.String())
	}
	out = append(out, treeOf(h.b.t, filepath.Join(proc, "root", h.b.Rootfs), "proc", "sys")...)
	if devices, err := os.ReadFile("/sys/fs/cgroup/devices/" + h.b.ID + "/devices.list"); err == nil {
		out = append(out, strings.Split(string(devices), "\n")...)
	}
	return out
}

// WaitFor waits for something that must come soon.
func WaitFor(t *testing.T, what string, come func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !come(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
