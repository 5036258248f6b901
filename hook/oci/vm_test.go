package oci

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVirtualMachine(t *testing.T) {
	if _, found := VirtualMachine(&State{Pid: os.Getpid()}); found {
		t.Error("this process was taken for a virtual machine")
	}
	for _, key := range runtimeHandlerKeys {
		if sign, found := VirtualMachine(&State{Annotations: map[string]string{key: "kata-qemu"}}); !found || sign != "runtime handler kata-qemu" {
			t.Errorf("%s: %q, %v", key, sign, found)
		}
		if _, found := VirtualMachine(&State{Annotations: map[string]string{key: "runc"}}); found {
			t.Errorf("%s: runc was taken for a virtual machine", key)
		}
	}
	for _, name := range []string{"qemu-system-x86_64", "containerd-shim-kata-v2"} {
		pid := pretend(t, name)
		if sign, found := VirtualMachine(&State{Pid: pid}); !found || sign != "process "+name {
			t.Errorf("%s: %q, %v", name, sign, found)
		}
	}
}

func TestMonitorWithANetworkOfItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: making a network namespace")
	}
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	if sign, found := VirtualMachine(&State{Pid: cmd.Process.Pid}); !found {
		t.Errorf("%q, %v", sign, found)
	}
}

// pretend starts a process that waits, under the name of a program.
func pretend(t *testing.T, name string) int {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(cat)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(copied, program, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	return cmd.Process.Pid
}
