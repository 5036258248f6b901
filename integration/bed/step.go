package bed

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Moment is a system call that a stepped program is about to make.
type Moment struct {
	Call int // its number
	Args [6]uint64
	Pid  int // of the thread
	// Inside counts the moments since the program first joined a mount namespace; 0 before.
	Inside int
}

// seccompNotif and seccompResponse are the kernel's struct seccomp_notif and seccomp_notif_resp.
type seccompNotif struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type seccompResponse struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

const (
	notifRecv     = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV, _IOWR('!', 0, struct seccomp_notif)
	notifSend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND, _IOWR('!', 1, struct seccomp_notif_resp)
	notifContinue = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// Step runs a program to its end and calls at before each of its system calls on files and mounts; the program waits meanwhile.
func Step(t *testing.T, stdin string, at func(Moment), argv ...string) Result {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "listener")
	c := exec.Command(Tool(toolStepper), append([]string{argv[0]}, argv...)...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr, c.ExtraFiles = strings.NewReader(stdin), &out, &errs, []*os.File{theirs}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	late := time.AfterFunc(patience, func() { c.Process.Kill() }) //nolint:errcheck // it may have ended just now
	err = follow(pair[0], at)
	c.Wait() //nolint:errcheck // the exit code tells
	if !late.Stop() {
		t.Fatalf("%v: not done after %v", argv, patience)
	}
	if err != nil {
		t.Fatalf("step %v: %v: %s", argv, err, errs.String())
	}
	return Result{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

func follow(socket int, at func(Moment)) error {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, 0)
	if err != nil {
		return os.NewSyscallError("recvmsg", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return errors.Join(err, errors.New("no listener came"))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	inside := 0
	for {
		next, ok, err := receive(fds[0])
		if err != nil || !ok {
			return err
		}
		m := Moment{Call: int(next.nr), Args: next.args, Pid: int(next.pid)}
		if inside > 0 {
			inside++
			m.Inside = inside - 1
		}
		at(m)
		if m.Call == unix.SYS_SETNS && m.Args[1] == unix.CLONE_NEWNS && inside == 0 {
			inside = 1
		}
		answer := seccompResponse{id: next.id, flags: notifContinue}
		if errno := ioctl(fds[0], notifSend, unsafe.Pointer(&answer)); errno != 0 && errno != unix.ENOENT {
			return os.NewSyscallError("seccomp send", errno)
		}
	}
}

// receive waits for the next call; false when nobody is left to make one.
func receive(fd int) (n seccompNotif, ok bool, err error) {
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return n, false, os.NewSyscallError("poll", err)
		}
		if p[0].Revents&unix.POLLIN == 0 {
			if p[0].Revents != 0 {
				return n, false, nil
			}
			continue
		}
		n = seccompNotif{}
		switch errno := ioctl(fd, notifRecv, unsafe.Pointer(&n)); errno {
		case 0:
			return n, true, nil
		case unix.ENOENT, unix.EINTR: // killed while it waited
		default:
			return n, false, os.NewSyscallError("seccomp receive", errno)
		}
	}
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}
