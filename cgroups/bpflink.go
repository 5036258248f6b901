package cgroups

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// linkInfo is the beginning of struct bpf_link_info.
//
//nolint:unused // the layout is the kernel's
type linkInfo struct {
	kind, id, program, pad uint32
	rest                   [32]byte // the part of each kind
}

// linkOf looks for the link that holds a program, since no query of a cgroup tells. What
// it cannot see it does not find. 5.8
func (syscalls) linkOf(program uint32) (link uint32, found bool) {
	next := struct{ start, next, openFlags uint32 }{}
	for {
		if _, err := bpf(unix.BPF_LINK_GET_NEXT_ID, &next); err != nil {
			return 0, false
		}
		if held, ok := programOfLink(next.next); ok && held == program {
			return next.next, true
		}
		next.start = next.next
	}
}

func programOfLink(id uint32) (program uint32, ok bool) {
	attr := struct{ id, next, openFlags uint32 }{id: id}
	fd, err := bpf(unix.BPF_LINK_GET_FD_BY_ID, &attr)
	if err != nil {
		return 0, false // gone meanwhile
	}
	defer unix.Close(fd)
	var pin runtime.Pinner
	defer pin.Unpin()
	info := new(linkInfo)
	ask := infoAttr{fd: uint32(fd), length: uint32(unsafe.Sizeof(*info)), info: pointer(&pin, info)}
	if _, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, &ask); err != nil {
		return 0, false
	}
	return info.program, true
}
