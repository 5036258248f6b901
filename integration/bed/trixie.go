package bed

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const trixieScript = "bed/trixie.sh"

// Trixie is a Debian 13 system that runs beside the machine's, with today's podman. It sees the bed's /run/bed, /opt and /dev.
type Trixie struct {
	t      *testing.T
	init   int // its pid 1, as seen here
	cgroup string
}

// NewTrixie starts one that ends with the test. The first one ever is made from Debian's packages.
func NewTrixie(t *testing.T) *Trixie {
	t.Helper()
	root := makeTrixie(t)
	x := &Trixie{t: t, cgroup: "/sys/fs/cgroup/" + Prefix + "trixie"}
	var errs bytes.Buffer
	c := exec.Command(trixieScript, "hold", root, filepath.Join(work, "trixie"), x.cgroup)
	c.Stderr = &errs
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = os.RemoveAll("/run/mount") // umount(8) takes notes
		_ = c.Process.Kill()           // it may have ended by itself
		<-ended
		RemoveCgroups(t, x.cgroup)
	})
	WaitFor(t, "trixie", func() bool {
		select {
		case <-ended:
			t.Fatalf("trixie does not start: %s", errs.String())
		default:
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", c.Process.Pid))
		if err != nil {
			return false
		}
		if _, err := fmt.Sscan(string(raw), &x.init); err != nil {
			return false
		}
		_, err = os.Stat(x.Path("/run/ready"))
		return err == nil
	})
	x.Copy(ToolBusybox, ToolBusybox, 0o755)
	return x
}

// makeTrixie does so outside the bed, whose /run may lack what the machine finds names of hosts with.
func makeTrixie(t *testing.T) string {
	t.Helper()
	root := filepath.Join(cacheDir(), "trixie")
	script, err := filepath.Abs(trixieScript)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("nsenter", "--target", fmt.Sprint(os.Getppid()), "--mount", "--", script, "make", root)
	if err := output(c); err != nil {
		t.Fatal(err)
	}
	return root
}

// Path is where something of it is seen from here.
func (x *Trixie) Path(name string) string { return fmt.Sprintf("/proc/%d/root%s", x.init, name) }

// Command is the beginning of a command that runs in it.
func (x *Trixie) Command(argv ...string) []string {
	return append([]string{trixieScript, "in", fmt.Sprint(x.init), x.cgroup}, argv...)
}

// Write writes a file in it, with its folders.
func (x *Trixie) Write(name, content string) {
	x.t.Helper()
	path := x.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		x.t.Fatal(err)
	}
}

// Install installs the project in it, with the hook under test.
func (x *Trixie) Install(hook string) {
	x.t.Helper()
	if res := Run(x.t, "", nil, "../hack/install.sh", "/usr", strings.TrimSuffix(x.Path("/"), "/")); res.Refused() {
		x.t.Fatalf("install: %s", res.Stderr)
	}
	x.Copy(hook, "/usr/libexec/oci/hooks.d/oci-cdi-hook", 0o755)
}
