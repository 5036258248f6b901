// Command stepper becomes another program whose system calls on files and mounts wait for whoever holds the other end of descriptor 3: it
// is sent the listener of a seccomp filter (seccomp_unotify(2), kernel 5.5) that tells of each such call before it is made.
//
//	stepper PROGRAM ARG0 [ARG...]
//
// It decides nothing: which calls go on, and what happens in between, is up to the other end.
package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stepped are the calls that look at paths or descriptors, or change something, on the way of a mount or a node.
var stepped = []uint32{
	unix.SYS_SETNS, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT, unix.SYS_READLINKAT,
	unix.SYS_NEWFSTATAT, unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_FSTATFS, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_OPEN_TREE,
	unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	unix.SYS_CHDIR,
}

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "stepper:", err)
		os.Exit(99)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("%d arguments are too few", len(args)-1)
	}
	env := os.Environ()
	runtime.LockOSThread() // the filter is this thread's, and goes with it through execve
	listener, err := filter()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	unix.Close(listener)
	unix.Close(3)
	return unix.Exec(args[1], args[2:], env)
}

func filter() (int, error) {
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // seccomp_data.nr
	for _, nr := range stepped {
		prog = append(prog,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: 0, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return -1, os.NewSyscallError("seccomp", errno)
	}
	return int(fd), nil
}
