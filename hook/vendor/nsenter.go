package vendor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNoNsenter says that a hook would have to run in a user namespace, which only a
// program of one thread can join, and the host has none for it.
var ErrNoNsenter = errors.New("needs util-linux nsenter on the host to enter the container's user namespace")

// ExecVerb is the hidden verb of this program that [Exec] serves.
const ExecVerb = "exec-vendor-hook"

// Nsenter runs a hook through util-linux nsenter(1), which joins the namespaces, and
// this program again, which then becomes the hook: nsenter can give it neither a name of
// its own nor a clean set of descriptors.
type Nsenter struct {
	program string
	self    *os.File
	ns      []namespace
}

type namespace struct {
	option string
	file   *os.File
}

// FindNsenter gives the first of the paths that nsenter is at, or nothing.
func FindNsenter(paths []string) string {
	for _, name := range paths {
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// NewNsenter looks for nsenter at the paths. namespaces are those of the container by
// nsenter's option names: user, mount, pid, net, ipc, uts, cgroup.
func NewNsenter(paths []string, namespaces map[string]*os.File) (*Nsenter, error) {
	n := &Nsenter{program: FindNsenter(paths)}
	if n.program == "" {
		return nil, ErrNoNsenter
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	n.self = self
	for _, option := range []string{"user", "mount", "pid", "net", "ipc", "uts", "cgroup"} {
		if f := namespaces[option]; f != nil {
			n.ns = append(n.ns, namespace{option, f})
		}
	}
	return n, nil
}

// Close gives the descriptor of this program back.
func (n *Nsenter) Close() error { return n.self.Close() }

// wrap makes cmd run through nsenter. The descriptors of the namespaces travel as files
// 3 and up, that of this program last.
func (n *Nsenter) wrap(cmd *exec.Cmd) {
	args := []string{"nsenter"}
	for i, ns := range n.ns {
		args = append(args, "--"+ns.option+"=/proc/self/fd/"+strconv.Itoa(3+i))
		cmd.ExtraFiles = append(cmd.ExtraFiles, ns.file)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, n.self)
	self := "/proc/self/fd/" + strconv.Itoa(2+len(cmd.ExtraFiles))
	args = append(args, "--", self, ExecVerb, cmd.Dir, cmd.Path)
	cmd.Path, cmd.Args = n.program, append(args, cmd.Args...)
	cmd.Dir = "/"
}

// Exec becomes the hook: args are the working directory, the program, and its arguments.
// It returns only with an error.
func Exec(args, env []string) error {
	if len(args) < 3 {
		return errors.New("usage: DIR PROGRAM ARG0 [ARG...]")
	}
	if err := os.Chdir(args[0]); errors.Is(err, fs.ErrPermission) {
		// The container's root may not enter the bundle of a runtime that is root.
		err = os.Chdir("/")
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	keepFiles()
	return fmt.Errorf("%s: %w", args[1], unix.Exec(args[1], args[2:], env))
}
