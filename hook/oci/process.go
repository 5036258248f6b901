package oci

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Process is a process held by a descriptor of its /proc directory: once it is gone,
// reads fail instead of speaking of another process with its pid.
type Process struct {
	Pid int
	// StartTime in clock ticks since boot, field 22 of /proc/PID/stat (proc_pid_stat(5)).
	StartTime uint64

	dir *os.File
}

// OpenProcess opens a process of the caller's pid namespace.
func OpenProcess(pid int) (*Process, error) {
	name := "/proc/" + strconv.Itoa(pid)
	dir, err := openFile(name, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("pid %d: %w", pid, unix.ESRCH)
	}
	if err != nil {
		return nil, err
	}
	p := &Process{Pid: pid, dir: dir}
	stat, err := p.Read("stat")
	if err == nil {
		p.StartTime, err = startTime(stat)
	}
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("pid %d: %w", pid, err)
	}
	return p, nil
}

// Close gives the descriptor back.
func (p *Process) Close() error { return p.dir.Close() }

// startTime reads field 22. The command name before it may hold anything.
func startTime(stat string) (uint64, error) {
	after := stat[strings.LastIndexByte(stat, ')')+1:]
	fields := strings.Fields(after)
	if len(fields) < 20 {
		return 0, errors.New("stat has too few fields")
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, unix.ESRCH
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func (p *Process) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: p.dir.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), p.dir.Name()+"/"+name), nil
}

// Read reads one of its files.
func (p *Process) Read(name string) (string, error) {
	f, err := p.open(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b strings.Builder
	_, err = f.WriteTo(&b)
	return b.String(), err
}

// Namespace opens one of its namespaces: mnt, pid, net, ipc, uts, user, cgroup.
func (p *Process) Namespace(kind string) (*os.File, error) {
	return p.open("ns/"+kind, unix.O_RDONLY)
}

// Root opens its root directory, in its mount namespace, as O_PATH (proc_pid_root(5)).
func (p *Process) Root() (*os.File, error) { return p.open("root", unix.O_PATH|unix.O_DIRECTORY) }

// Alive tells whether it still has what makes it a container. A process that ends gives
// up its root before its mount namespace, and both before it is a zombie.
func (p *Process) Alive() bool {
	root, err := p.Root()
	if err != nil {
		return false
	}
	_ = root.Close()
	stat, err := p.Read("stat")
	if err == nil {
		_, err = startTime(stat)
	}
	return err == nil
}

// SharesNamespace tells whether its namespace of this kind is the caller's own.
func (p *Process) SharesNamespace(kind string) (bool, error) {
	theirs, err := p.open("ns/"+kind, unix.O_PATH)
	if err != nil {
		return false, err
	}
	defer theirs.Close()
	var a, b unix.Stat_t
	if err := unix.Fstat(int(theirs.Fd()), &a); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	own := "/proc/thread-self/ns/" + kind
	if err := unix.Stat(own, &b); err != nil {
		return false, &os.PathError{Op: "stat", Path: own, Err: err}
	}
	return a.Dev == b.Dev && a.Ino == b.Ino, nil
}

// InnerPid gives the pid that it has in its own pid namespace (NSpid in
// /proc/PID/status, kernel 4.1).
func (p *Process) InnerPid() (int, error) {
	status, err := p.Read("status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(status) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(pids)
			if len(all) > 0 {
				return strconv.Atoi(all[len(all)-1])
			}
		}
	}
	return p.Pid, nil
}

// BootID names this boot of the machine: pids and start times mean nothing in another.
func BootID() (string, error) { return bootID() }

var bootID = sync.OnceValues(func() (string, error) {
	f, err := openFile("/proc/sys/kernel/random/boot_id", unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	id, err := io.ReadAll(f)
	return strings.TrimSpace(string(id)), err
})

// OpenMountinfo opens the mounts of the namespace that the calling process was started
// in; what is read from it later is still of that one.
func OpenMountinfo() (*os.File, error) { return openFile("/proc/self/mountinfo", unix.O_RDONLY) }

// openFile opens a file without offering it to Go's poller, which for the few short
// files of a hook costs more than it gives.
func openFile(name string, flags int) (*os.File, error) {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
