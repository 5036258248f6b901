package bed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ToolBusybox is the path of a program for containers that live until they are stopped.
const ToolBusybox = "/bin/busybox"

// ToolVendorHook is the stand-in for a vendor's hook, for whoever calls it as something else.
const ToolVendorHook = bin + "/" + toolHook

// Live makes the container's process one that does nothing until it is killed.
func (b *Bundle) Live() {
	b.t.Helper()
	b.must(copyFile(ToolBusybox, b.inside("busybox"), 0o755))
	b.Config.Process.Args = []string{"/busybox", "sleep", "1000"}
}

// LiveMounting makes it one that first mounts on folders.
func (b *Bundle) LiveMounting(folders ...string) {
	b.t.Helper()
	b.Live()
	script := ""
	for _, f := range folders {
		script += "/busybox mount -t tmpfs made-inside " + f + " && "
	}
	b.Config.Process.Args = []string{"/busybox", "sh", "-c", script + "exec /busybox sleep 1000"}
}

// WaitMounted waits until a container has made so many mounts.
func (b *Bundle) WaitMounted(pid, n int) {
	b.t.Helper()
	WaitFor(b.t, "the container's mounts", func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		b.must(err)
		return strings.Count(string(raw), " made-inside ") >= n
	})
}

// RegisterLater makes the runtime call the hook at one of the stages after create.
func (b *Bundle) RegisterLater(stage string) {
	b.t.Helper()
	h := b.hooks()
	switch stage {
	case "poststart":
		h.Poststart = append(h.Poststart, b.entry(stage))
	case "poststop":
		h.Poststop = append(h.Poststop, b.entry(stage))
	default:
		b.t.Fatalf("%s: no later stage", stage)
	}
}

// Create makes the container and does not start it. Its process gets files for streams: pipes would stay open as long as it lives.
func (b *Bundle) Create(rt Runtime) Result {
	b.t.Helper()
	out := filepath.Join(work, "create.out")
	f, err := os.Create(out)
	b.must(err)
	defer f.Close()
	c := exec.Command(rt.Path, "--root", roots, "create", "--bundle", b.Dir, b.ID)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(""), f, f // not /dev/null: crun gives its streams to the container's root
	_ = c.Run()                                               // the exit code tells
	if c.ProcessState == nil {
		b.t.Fatalf("%s: not run", rt.Path)
	}
	raw, err := os.ReadFile(out)
	b.must(err)
	return Result{Stderr: string(raw) + b.hooksSaid(), Code: c.ProcessState.ExitCode()}
}

// Must runs a command of the runtime that has to succeed.
func (b *Bundle) Must(rt Runtime, args ...string) Result {
	b.t.Helper()
	res := b.Call(rt, args...)
	res.Stderr += b.hooksSaid()
	if res.Refused() {
		b.t.Fatalf("%s %v: exit %d: %s", rt.Name, args, res.Code, res.Stderr)
	}
	return res
}

// Forget takes away what the runtime knows of the container, as a reboot or an engine's reset does: nobody calls its poststop then.
func (b *Bundle) Forget(pid int) {
	b.t.Helper()
	b.must(unix.Kill(pid, unix.SIGKILL))
	// a zombie, which this machine's pid 1 may leave for a while, is as gone as it gets
	WaitFor(b.t, "the end of the process", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	b.must(os.RemoveAll(roots))
	b.must(os.MkdirAll(roots, 0o700))
	RemoveCgroups(b.t, b.ID)
}

// StateFiles are all names in a hook's state folder, but for the list of the last failures, which stays.
func StateFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Name() != "failures" {
			out = append(out, e.Name())
		}
	}
	return out
}

// LogFile is where HookArgs has the hook log to.
const LogFile = logFile

// Own gives something of the host another owner and mode.
func (h *Host) Own(path string, uid int, mode os.FileMode) {
	h.t.Helper()
	h.must(os.Lchown(path, uid, uid))
	h.must(os.Chmod(path, mode))
}
