// Package vendor runs the hooks of device vendors in place of the runtime: with just
// their own environment, the container's state on stdin, no other descriptor, a time
// limit, and in the namespaces and the cgroup that the runtime would have run them in.
//
// It does not judge whose program it runs, and what the program does is not undone when
// something fails later: OCI hooks have no undo. A hook that leaves processes behind
// keeps them; nothing waits for those.
package vendor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/mounts/nsthread"
)

// Hook is an OCI hook (runtime-spec, config.md, "POSIX-platform Hooks").
type Hook struct {
	Path    string
	Args    []string // the first is the program's name; none means Path
	Env     []string
	Timeout *int // seconds
}

// Check tells what is wrong with a hook before it is run.
func (h Hook) Check() error {
	if !path.IsAbs(h.Path) {
		return fmt.Errorf("hook %q: not an absolute path", h.Path)
	}
	if h.Timeout != nil && *h.Timeout <= 0 {
		return fmt.Errorf("hook %s: timeout %d is not above 0", h.Path, *h.Timeout)
	}
	st, err := os.Stat(h.Path)
	if err != nil {
		return fmt.Errorf("hook: %w", err)
	}
	if !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return fmt.Errorf("hook %s: not an executable file", h.Path)
	}
	return nil
}

// Place says where a hook runs.
type Place struct {
	// Thread has joined the hook's namespaces; its child inherits them. nil means the
	// caller's own.
	Thread *nsthread.Thread
	// OtherPids says that the thread's children are in another pid namespace. They die
	// with its init, and cannot be told to die with the caller: os/exec takes a parent
	// that they cannot see for a dead one.
	OtherPids bool
	// Cgroup is the directory of the cgroup v2 to start in; nil means the caller's own.
	Cgroup *os.File
	// Dir is the working directory, in the hook's mount namespace.
	Dir string
	// Into wraps the command where the namespaces cannot be joined by a thread.
	Into *Nsenter
}

const (
	maxStderr = 4096
	// maxWait bounds how long the pipes of a hook that has ended are read on: a process
	// that it left behind may hold them.
	maxWait = 500 * time.Millisecond
	// maxTimeout in seconds, 30 years, fits a Duration.
	maxTimeout = 1e9
)

// keepFiles keeps all descriptors from the programs that this process starts or becomes:
// a runtime may have left it some of its own. Go opens its files so in any case, and what
// a command is to have is copied for it.
func keepFiles() {
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil { // kernel 5.11
		for fd := 3; fd < 1024; fd++ {
			unix.CloseOnExec(fd)
		}
	}
}

// Run runs the hook and waits for it. It is killed, with its process group, when its
// timeout or ctx ends, and dies with the caller.
func (h Hook) Run(ctx context.Context, state []byte, at Place) error {
	keepFiles()
	if h.Timeout != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, min(time.Duration(*h.Timeout), maxTimeout)*time.Second,
			fmt.Errorf("killed after its timeout of %d s", *h.Timeout))
		defer cancel()
	}
	thread := at.Thread
	if thread == nil {
		// The death signal comes when the thread that forked ends, so it needs one that
		// stays (prctl(2), PR_SET_PDEATHSIG).
		var err error
		if thread, err = nsthread.Start(func() error { return nil }); err != nil {
			return err
		}
		defer thread.Close()
	}
	var stderr tail
	build := func() *exec.Cmd {
		cmd := h.command(ctx, at)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(state), &stderr
		return cmd
	}
	var cmd *exec.Cmd
	err := thread.Do(func() (err error) { cmd, err = startIn(build, at.Cgroup); return err })
	if err == nil {
		err = cmd.Wait()
	}
	return h.explain(ctx, err, stderr.text())
}

func (h Hook) command(ctx context.Context, at Place) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.Path)
	cmd.Args = h.Args
	if len(cmd.Args) == 0 {
		cmd.Args = []string{h.Path}
	}
	cmd.Env = append([]string{}, h.Env...) // not nil, which would mean ours
	cmd.Dir = at.Dir
	cmd.WaitDelay = maxWait
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if !at.OtherPids {
		cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	if at.Into != nil {
		at.Into.wrap(cmd)
	}
	return cmd
}

// startIn starts a command in the cgroup: clone3(2) CLONE_INTO_CGROUP (kernel 5.7), else
// it is moved right after its start.
func startIn(build func() *exec.Cmd, cgroup *os.File) (*exec.Cmd, error) {
	cmd := build()
	if cgroup == nil {
		return cmd, cmd.Start()
	}
	cmd.SysProcAttr.UseCgroupFD = true
	cmd.SysProcAttr.CgroupFD = int(cgroup.Fd())
	err := cmd.Start()
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return cmd, err
	}
	cmd = build()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// Where this fails, only its cgroup is another than natively.
	if fd, err := unix.Openat(int(cgroup.Fd()), "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(fd, fmt.Appendln(nil, cmd.Process.Pid))
		_ = unix.Close(fd)
	}
	return cmd, nil
}

func (h Hook) explain(ctx context.Context, err error, stderr string) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	err = withoutCode(err)
	if stderr != "" {
		return fmt.Errorf("hook %s: %w: %s", h.Path, err, stderr)
	}
	return fmt.Errorf("hook %s: %w", h.Path, err)
}

// withoutCode keeps the exit code of another program from being taken for one of ours.
func withoutCode(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New(exit.Error())
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxStderr; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// text gives what was kept as part of one line: runtimes and journals show lines.
func (t *tail) text() string {
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(t.kept), "?"), func(c rune) bool {
		return c < ' ' || c == 0x7f
	})
	return strings.Join(lines, " | ")
}
