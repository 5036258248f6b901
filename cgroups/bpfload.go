package cgroups

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

//nolint:unused // the layout is the kernel's
type loadAttr struct {
	kind, count       uint32
	code, license     uint64
	logLevel, logSize uint32
	log               uint64
	version, flags    uint32
	name              [16]byte
}

// The verifier gives up on a pending signal with EAGAIN, and Go's scheduler sends some.
const maxLoads = 30

func (syscalls) load(code []insn) (*os.File, error) {
	fd, err := loadOnce(code, nil)
	if errors.Is(err, unix.EPERM) {
		// Up to 5.10 a program is charged to RLIMIT_MEMLOCK.
		fd, err = withMemlock(func() (int, error) { return loadOnce(code, nil) })
	}
	if err != nil {
		if reason := verifierSays(code); reason != "" {
			// Its EACCES is no matter of permissions, and must not be taken for one.
			return nil, fmt.Errorf("bpf(PROG_LOAD) of %d instructions: refused by the verifier: %s", len(code), reason)
		}
		return nil, fmt.Errorf("bpf(PROG_LOAD) of %d instructions: %w", len(code), err)
	}
	return os.NewFile(uintptr(fd), "new BPF program"), nil
}

func loadOnce(code []insn, log []byte) (fd int, err error) {
	raw, license := encode(code), [...]byte{'A', 'p', 'a', 'c', 'h', 'e', 0}
	var pin runtime.Pinner
	defer pin.Unpin()
	attr := loadAttr{
		kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(code)),
		code: pointer(&pin, &raw[0]), license: pointer(&pin, &license[0]),
	}
	copy(attr.name[:], ourName)
	if len(log) > 0 {
		attr.logLevel, attr.logSize, attr.log = 1, uint32(len(log)), pointer(&pin, &log[0])
	}
	for range maxLoads {
		fd, err = bpf(unix.BPF_PROG_LOAD, &attr)
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

// verifierSays loads once more with a log, for the reason it ends with.
func verifierSays(code []insn) string {
	log := make([]byte, 64<<10)
	if fd, err := loadOnce(code, log); err == nil {
		unix.Close(fd)
		return ""
	}
	text, _, _ := strings.Cut(string(log), "\x00")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "processed ") {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// withMemlock runs load with as much of the limit as may be had. The limit is the
// process's: it is put back at once.
func withMemlock(load func() (int, error)) (int, error) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		return -1, os.NewSyscallError("getrlimit", err)
	}
	raised := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &raised) != nil { // without CAP_SYS_RESOURCE
		raised = unix.Rlimit{Cur: old.Max, Max: old.Max}
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &raised); err != nil {
			return -1, os.NewSyscallError("setrlimit", err)
		}
	}
	fd, err := load()
	if restoreErr := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old); restoreErr != nil && err == nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setrlimit", restoreErr)
	}
	return fd, err
}
