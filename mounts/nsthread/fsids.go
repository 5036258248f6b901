package nsthread

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileCaps are the capabilities that the kernel drops when the file system user id
// leaves 0 (capabilities(7), "Effect of user ID changes").
const fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
	1<<unix.CAP_FSETID | 1<<unix.CAP_LINUX_IMMUTABLE | 1<<unix.CAP_MKNOD

// SetFSIDs makes the calling thread create files as another user while it keeps its
// capabilities: filesystems of a user namespace take files only from ids that it maps
// (setfsuid(2); EOVERFLOW otherwise). It is for a function that runs on a [Thread].
func SetFSIDs(uid, gid uint32) error {
	if err := setFSID(unix.SYS_SETFSGID, gid); err != nil {
		return err
	}
	if err := setFSID(unix.SYS_SETFSUID, uid); err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[0].Effective |= data[0].Permitted & fileCaps
	return os.NewSyscallError("capset", unix.Capset(&hdr, &data[0]))
}

// setFSID tells success from failure by asking again: the calls give back the old id
// either way.
func setFSID(call uintptr, id uint32) error {
	if _, _, errno := unix.RawSyscall(call, uintptr(id), 0, 0); errno != 0 {
		return os.NewSyscallError("setfsid", errno)
	}
	if now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); uint32(now) != id {
		return fmt.Errorf("setfsid to %d: %w", id, unix.EPERM)
	}
	return nil
}
