package vendor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/mounts/nsthread"
)

// SuperviseVerb is the hidden verb of this program that [Supervise] serves.
const SuperviseVerb = "supervise-vendor-hooks"

// Supervised are hooks that run one after the other in one place: in namespaces and
// cgroups of a container, or where the caller is.
type Supervised struct {
	Hooks []Hook
	State []byte
	// Dir is the working directory, in the container's mount namespace.
	Dir string
	// OtherPids says that the container's pid namespace is not the caller's.
	OtherPids bool
	// CgroupsV1 are the directories of its cgroups, one a hierarchy.
	CgroupsV1 []string
	// CgroupV2 is the directory of its cgroup there; may be nil.
	CgroupV2 *os.File `json:"-"`
	// Namespaces of the container, in the order in which they are joined. A user
	// namespace is joined through nsenter.
	Namespaces []Namespace
	// Nsenter lists where nsenter may be.
	Nsenter []string
}

// Namespace is one of a container's namespaces.
type Namespace struct {
	Option string   // as nsenter calls it: user, mount, cgroup, pid, net, ipc, uts
	Type   int      // CLONE_NEWNS, ...
	File   *os.File `json:"-"`
}

// order is what the supervisor reads; the files follow from descriptor 3 on.
type order struct {
	Supervised
	HasCgroupV2 bool
	// Deadline bounds all hooks together; zero for none.
	Deadline time.Time
}

// verdict is what it answers.
type verdict struct {
	Failed int    // index of the hook that failed, or -1
	Error  string // why, one line
}

// FailedError is the failure of one of the hooks.
type FailedError struct {
	Index int
	text  string
}

func (e *FailedError) Error() string { return e.text }

// Run runs the hooks one after the other.
//
// They run below another process of this program, outside the container's pid namespace,
// that outlives this one long enough to end and reap them. Without it a caller that is
// killed would leave them to the runtime, which expects no strangers: it would not reap
// them, so that the container's init could never end (pid_namespaces(7)) and the runtime
// waited for it for ever; or it would take the end of one for the end of the caller.
func (in Supervised) Run(ctx context.Context) error {
	o := order{Supervised: in, HasCgroupV2: in.CgroupV2 != nil}
	o.Deadline, _ = ctx.Deadline()
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", SuperviseVerb)
	cmd.Env = []string{"GOMAXPROCS=1"} // it waits, mostly: one thread less to start
	cmd.Dir = "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	for _, n := range in.Namespaces {
		cmd.ExtraFiles = append(cmd.ExtraFiles, n.File)
	}
	if in.CgroupV2 != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, in.CgroupV2)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run vendors' hooks: %w", err)
	}
	// The pipe stays open as long as this process lives; its end tells the supervisor.
	_, werr := stdin.Write(append(text, '\n'))
	var v verdict
	derr := json.NewDecoder(stdout).Decode(&v)
	err = errors.Join(stdin.Close(), withoutCode(cmd.Wait()))
	switch {
	case derr == nil && v.Failed >= 0:
		return &FailedError{Index: v.Failed, text: v.Error}
	case derr == nil && v.Error == "":
		return nil
	}
	return fmt.Errorf("run vendors' hooks: %w", errors.Join(werr, derr, err, errors.New(v.Error)))
}

// Supervise runs the hooks of an order that it reads, in the process that [Supervised.Run]
// starts. When its input ends early, whoever gave the order is dead: the hooks are killed
// and reaped.
func Supervise(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	// What a killed hook leaves in the pid namespace comes to this process to be reaped.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		cancel(errors.New("its caller was killed"))
	}()
	if !o.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, o.Deadline, errors.New("ended at the deadline"))
		defer stop()
	}
	v := o.run(ctx)
	if ctx.Err() != nil {
		reapAll()
	}
	return json.NewEncoder(out).Encode(v)
}

// reapAll waits for all children, which have been killed.
func reapAll() {
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (o *order) run(ctx context.Context) verdict {
	o.takeFiles()
	at := Place{Cgroup: o.CgroupV2, Dir: o.Dir, OtherPids: o.OtherPids}
	var join []nsthread.Namespace
	named := map[string]*os.File{}
	for _, n := range o.Namespaces {
		named[n.Option] = n.File
		join = append(join, nsthread.Namespace{File: n.File, Type: n.Type})
	}
	if named["user"] != nil {
		var err error
		if at.Into, err = NewNsenter(o.Nsenter, named); err != nil {
			return verdict{Failed: 0, Error: err.Error()}
		}
		defer at.Into.Close()
		join, at.OtherPids = nil, false
	}
	enter := nsthread.Join(join...)
	thread, err := nsthread.Start(func() error { return errors.Join(joinV1(o.CgroupsV1), enter()) })
	if err != nil {
		return verdict{Failed: 0, Error: err.Error()}
	}
	defer thread.Close()
	at.Thread = thread
	for i, h := range o.Hooks {
		if err := h.Run(ctx, o.State, at); err != nil {
			return verdict{Failed: i, Error: err.Error()}
		}
	}
	return verdict{Failed: -1}
}

// takeFiles finds the descriptors that came along, and keeps them from the hooks.
func (o *order) takeFiles() {
	fd := 3
	next := func(name string) *os.File {
		f := os.NewFile(uintptr(fd), name)
		unix.CloseOnExec(fd)
		fd++
		return f
	}
	for i := range o.Namespaces {
		o.Namespaces[i].File = next("namespace " + o.Namespaces[i].Option)
	}
	if o.HasCgroupV2 {
		o.CgroupV2 = next("cgroup")
	}
}

// joinV1 moves the calling thread into cgroups; its children start there (cgroups(7),
// "tasks").
func joinV1(dirs []string) error {
	tid := strconv.Itoa(unix.Gettid())
	for _, dir := range dirs {
		err := os.WriteFile(path.Join(dir, "tasks"), []byte(tid), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	return nil
}
