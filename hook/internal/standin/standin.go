// Package standin makes processes that stand in, in tests, for a container that a runtime
// has created and not started: a mount namespace with a rootfs that has mounts in it, and
// on demand the change of root that comes next.
//
// It is no runtime: a stand-in runs no program, is confined by nothing, and is not in a
// cgroup of its own. Only tests import it.
package standin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Options say what a stand-in has. The zero value shares everything with the test.
type Options struct {
	Rootfs string // bound on itself, unless Unmounted
	// Tmpfs are places below the rootfs that a tmpfs is mounted on.
	Tmpfs []string
	// Unmounted leaves everything unmounted, as at a restore from a checkpoint.
	Unmounted bool
	// Namespaces are CLONE_NEW* flags.
	Namespaces uintptr
}

// FirstID is the host's id of a stand-in's root where it has a user namespace.
const FirstID = 100000

const optionsEnv = "OCI_CDI_HOOK_STANDIN"

// Process is a running stand-in.
type Process struct {
	Pid int

	t       testing.TB
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
}

// Start starts one and waits until its mounts are there. It ends with the test.
func Start(t testing.TB, o Options) *Process {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a process in a mount namespace of its own")
	}
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: exec.Command("/proc/self/exe")}
	p.cmd.Env = []string{optionsEnv + "=" + string(options)}
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: o.Namespaces}
	if o.Namespaces&unix.CLONE_NEWUSER != 0 {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: FirstID, Size: 65536}}
		p.cmd.SysProcAttr.UidMappings, p.cmd.SysProcAttr.GidMappings = ids, ids
		p.cmd.SysProcAttr.Credential = &syscall.Credential{}
	}
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	answers, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.answers = bufio.NewReader(answers)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.End)
	p.Pid = p.cmd.Process.Pid
	p.wait()
	return p
}

func (p *Process) wait() {
	p.t.Helper()
	if answer, err := p.answers.ReadString('\n'); err != nil || answer != "done\n" {
		p.t.Fatalf("stand-in: %s %v", strings.TrimSpace(answer), err)
	}
}

// Pivot makes the rootfs its root.
func (p *Process) Pivot() {
	p.t.Helper()
	if _, err := io.WriteString(p.orders, "pivot\n"); err != nil {
		p.t.Fatal(err)
	}
	p.wait()
}

// End ends it; afterwards its pid is nobody's. A second call does nothing.
func (p *Process) End() {
	_ = p.orders.Close()
	_ = p.cmd.Wait()
}

// Main is to be called at the start of TestMain: in a stand-in it does not return.
func Main() {
	options := os.Getenv(optionsEnv)
	if options == "" {
		return
	}
	code := 0
	if err := live(options, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stdout, err)
		code = 1
	}
	os.Exit(code)
}

func live(options string, orders io.Reader, answers io.Writer) error {
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	if err := o.mount(); err != nil {
		return err
	}
	fmt.Fprintln(answers, "done")
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		if err := pivot(o.Rootfs); err != nil {
			return err
		}
		fmt.Fprintln(answers, "done")
	}
	return lines.Err()
}

func (o Options) mount() error {
	if o.Namespaces&unix.CLONE_NEWNS == 0 || o.Unmounted {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Mount(o.Rootfs, o.Rootfs, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", o.Rootfs, err)
	}
	for _, name := range o.Tmpfs {
		at := filepath.Join(o.Rootfs, name)
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("tmpfs on %s: %w", at, err)
		}
	}
	return nil
}

func pivot(rootfs string) error {
	if err := os.Chdir(rootfs); err != nil {
		return err
	}
	return errors.Join(
		os.NewSyscallError("pivot_root", unix.PivotRoot(".", ".")),
		os.NewSyscallError("umount", unix.Unmount(".", unix.MNT_DETACH)))
}
