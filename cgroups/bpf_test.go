package cgroups

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

func TestVerifierSaysWhy(t *testing.T) {
	needRoot(t)
	_, err := syscalls{}.load(assembled(t, asm.Instructions{asm.Return()}))
	expectError(t, err, "bpf(PROG_LOAD)", "refused by the verifier: R0")
	if errors.Is(err, os.ErrPermission) {
		t.Errorf("%v passes for a matter of permissions", err)
	}
	// No program: the verifier would not take one that is a prelude and nothing else.
	_, err = syscalls{}.load(prelude([]Rule{{'c', 1, 3, "r"}}))
	expectError(t, err, "verifier: ")
}

// The limit is raised for the load alone, as far as we may.
func TestMemlock(t *testing.T) {
	needRoot(t)
	var before, during, after unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before))
	low := unix.Rlimit{Cur: before.Cur / 2, Max: before.Max}
	must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &low))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before)) }()
	_, err := withMemlock(func() (int, error) { return -1, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &during) })
	must(t, err)
	must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &after))
	if during.Cur != during.Max || during.Cur < before.Max || after != low {
		t.Errorf("limit %v, then %v, then %v", low, during, after)
	}
}

// As in rootless engines: the caller can tell that it is about permissions.
func TestWithoutCapabilities(t *testing.T) {
	b := newBed(t, V2)
	b.attach(b.cgroup, load(t, runcDefault()), unix.BPF_F_ALLOW_MULTI)
	c := b.open(b.cgroup)
	all := [2]unix.CapUserData{}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	must(t, unix.Capget(&header, &all[0]))
	few := all
	few[0].Effective, few[1].Effective = 0, 0
	must(t, unix.Capset(&header, &few[0])) // of this thread
	_, err := c.Allow(kmsgRule, Options{})
	must(t, unix.Capset(&header, &all[0]))
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("error %v, want one about permissions", err)
	}
	expectError(t, err, b.cgroup, "bpf(PROG_QUERY)")
}
