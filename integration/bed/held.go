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

// Held is a container stopped at createRuntime: made, not pivoted. Whatever a test feeds to the hook meets the real thing.
type Held struct {
	t       *testing.T
	b       *Bundle
	rt      Runtime
	cmd     *exec.Cmd
	out     bytes.Buffer
	errs    bytes.Buffer
	State   specs.State
	release *os.File
}

// Hold starts the bundle and returns when it waits. It must have been told its questions.
func (b *Bundle) Hold(rt Runtime) *Held {
	b.t.Helper()
	h := &Held{t: b.t, b: b, rt: rt}
	b.must(unix.Mkfifo(heldFIFO, 0o600))
	timeout := 120
	b.hooks().CreateRuntime = append(b.hooks().CreateRuntime, specs.Hook{
		Path: Tool(toolHook), Args: []string{"vendorhook", "quiet", "state=" + heldState, "hold=" + heldFIFO}, Timeout: &timeout,
	})
	b.Write()
	h.cmd = exec.Command(rt.Path, "--root", roots, "run", "--bundle", b.Dir, b.ID)
	h.cmd.Stdout, h.cmd.Stderr = &h.out, &h.errs
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// a child of the runtime may outlive it with our pipes
	h.cmd.WaitDelay = time.Second
	b.must(h.cmd.Start())
	h.wait()
	return h
}

// wait ends when the stand-in has shown the state and opened the FIFO.
func (h *Held) wait() {
	h.t.Helper()
	WaitFor(h.t, "the held hook", func() bool {
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
	h.t.Helper()
	h.b.must(h.release.Close())
	late := time.AfterFunc(patience, func() { h.cmd.Process.Kill() })
	h.cmd.Wait()
	if !late.Stop() {
		h.t.Errorf("%s: not done after %v", h.rt.Name, patience)
	}
	h.b.Delete(h.rt)
	for _, p := range []string{heldFIFO, heldState} {
		h.b.must(os.Remove(p))
	}
	return Result{h.out.String(), h.errs.String() + h.b.hooksSaid(), h.cmd.ProcessState.ExitCode()}
}

// View is what can be seen of the container from outside: its mounts, and every object below its rootfs in its own namespace.
func (h *Held) View() []string {
	h.t.Helper()
	proc := fmt.Sprintf("/proc/%d", h.State.Pid)
	raw, err := os.ReadFile(proc + "/mountinfo")
	h.b.must(err)
	mounts, err := report.ParseMountinfo(string(raw))
	h.b.must(err)
	var out []string
	for _, m := range mounts {
		out = append(out, m.String())
	}
	out = append(out, treeOf(h.t, filepath.Join(proc, "root", h.b.Rootfs), "proc", "sys")...)
	if devices, err := os.ReadFile("/sys/fs/cgroup/devices/" + h.b.ID + "/devices.list"); err == nil {
		out = append(out, strings.Split(string(devices), "\n")...)
	}
	return out
}

// WaitFor waits for something that must come soon.
func WaitFor(t *testing.T, what string, come func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !come(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
