package cgroups

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel is what cgroup v2 needs of bpf(2); tests put a step of their own in front.
type kernel interface {
	query(cgroup *os.File, flags uint32) (attached, error)
	program(id uint32) (*os.File, error)
	inspect(prog *os.File) (programInfo, error)
	load(code []insn) (*os.File, error)
	attach(cgroup, prog *os.File, how attachment) error
	detach(cgroup, prog *os.File) error
	linkOf(program uint32) (link uint32, found bool)
}

// attached are the programs of one cgroup. All have the same flags.
type attached struct {
	ids      []uint32
	flags    uint32 // of BPF_F_ALLOW_OVERRIDE, BPF_F_ALLOW_MULTI
	revision uint64 // 0 before 6.17
}

type attachment struct {
	flags    uint32
	replace  *os.File // with BPF_F_REPLACE
	revision uint64   // 0: whatever it is
}

type programInfo struct {
	id   uint32
	tag  [8]byte // of the instructions as they were loaded
	name string
	code []insn
	// hidden says why there is no code.
	hidden string
}

// ourName is what bpftool shows of our programs.
const ourName = "oci_cdi_hook"

type syscalls struct{}

// bpf is bpf(2). Its descriptors are all close-on-exec.
func bpf[T any](cmd uintptr, attr *T) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		if errno == 0 {
			return int(r), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}

func pointer[T any](pin *runtime.Pinner, p *T) uint64 {
	pin.Pin(p)
	return uint64(uintptr(unsafe.Pointer(p)))
}

// queryAttr is declared to its end: kernels from 6.17 up to 7.1 write revision whatever
// size they are given.
//
//nolint:unused // the layout is the kernel's
type queryAttr struct {
	target, attachType, queryFlags, attachFlags            uint32
	ids                                                    uint64
	count, pad                                             uint32
	programAttachFlags, linkIDs, linkAttachFlags, revision uint64
}

func (syscalls) query(cgroup *os.File, flags uint32) (attached, error) {
	// The kernel's limit for one cgroup is 64; with those above it can be more.
	for room := uint32(64); ; {
		ids := make([]uint32, room)
		var pin runtime.Pinner
		attr := queryAttr{
			target: uint32(cgroup.Fd()), attachType: unix.BPF_CGROUP_DEVICE, queryFlags: flags,
			ids: pointer(&pin, &ids[0]), count: room,
		}
		_, err := bpf(unix.BPF_PROG_QUERY, &attr)
		pin.Unpin()
		runtime.KeepAlive(cgroup)
		if errors.Is(err, unix.ENOSPC) && attr.count > room {
			room = attr.count
			continue
		}
		if err != nil {
			return attached{}, fmt.Errorf("bpf(PROG_QUERY) on %s: %w", cgroup.Name(), err)
		}
		return attached{ids[:attr.count], attr.attachFlags, attr.revision}, nil
	}
}

func (syscalls) program(id uint32) (*os.File, error) {
	attr := struct{ id, next, openFlags uint32 }{id: id}
	fd, err := bpf(unix.BPF_PROG_GET_FD_BY_ID, &attr)
	if err != nil {
		return nil, fmt.Errorf("bpf(PROG_GET_FD_BY_ID) of program %d: %w", id, err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("BPF program %d", id)), nil
}

type infoAttr struct {
	fd, length uint32
	info       uint64
}

// progInfo is the beginning of struct bpf_prog_info.
//
//nolint:unused // the layout is the kernel's
type progInfo struct {
	kind, id                uint32
	tag                     [8]byte
	jitedLength, codeLength uint32
	jited, code             uint64
	loadTime                uint64
	uid, mapCount           uint32
	maps                    uint64
	name                    [16]byte
}

func (syscalls) inspect(prog *os.File) (programInfo, error) {
	info, err := progInfoOf(prog, nil)
	if err != nil {
		return programInfo{}, err
	}
	name, _, _ := strings.Cut(string(info.name[:]), "\x00")
	p := programInfo{id: info.id, tag: info.tag, name: name}
	if info.codeLength == 0 {
		p.hidden = "its instructions are hidden from this process (CAP_BPF or CAP_SYS_ADMIN is missing)"
		return p, nil
	}
	raw := make([]byte, info.codeLength)
	info, err = progInfoOf(prog, raw)
	if err != nil {
		return programInfo{}, err
	}
	if info.code == 0 || strings.Trim(string(raw), "\x00") == "" {
		p.hidden = "the kernel hides its instructions (sysctl net.core.bpf_jit_harden)"
		return p, nil
	}
	p.code = decode(raw)
	return p, nil
}

func progInfoOf(prog *os.File, raw []byte) (progInfo, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	info := new(progInfo)
	if len(raw) > 0 {
		info.codeLength, info.code = uint32(len(raw)), pointer(&pin, &raw[0])
	}
	attr := infoAttr{fd: uint32(prog.Fd()), length: uint32(unsafe.Sizeof(*info)), info: pointer(&pin, info)}
	_, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, &attr)
	runtime.KeepAlive(prog)
	if err != nil {
		return progInfo{}, fmt.Errorf("bpf(OBJ_GET_INFO_BY_FD) of %s: %w", prog.Name(), err)
	}
	return *info, nil
}

//nolint:unused // the layout is the kernel's
type attachAttr struct {
	target, program, attachType, flags, replace, relative uint32
	revision                                              uint64
}

func (syscalls) attach(cgroup, prog *os.File, how attachment) error {
	attr := attachAttr{
		target: uint32(cgroup.Fd()), program: uint32(prog.Fd()), attachType: unix.BPF_CGROUP_DEVICE,
		flags: how.flags, revision: how.revision,
	}
	if how.replace != nil {
		attr.flags |= unix.BPF_F_REPLACE
		attr.replace = uint32(how.replace.Fd())
	}
	_, err := bpf(unix.BPF_PROG_ATTACH, &attr)
	runtime.KeepAlive(cgroup)
	runtime.KeepAlive(prog)
	runtime.KeepAlive(how.replace)
	if err != nil {
		return fmt.Errorf("bpf(PROG_ATTACH, flags %#x) of %s on %s: %w", attr.flags, prog.Name(), cgroup.Name(), err)
	}
	return nil
}

func (syscalls) detach(cgroup, prog *os.File) error {
	attr := attachAttr{target: uint32(cgroup.Fd()), program: uint32(prog.Fd()), attachType: unix.BPF_CGROUP_DEVICE}
	_, err := bpf(unix.BPF_PROG_DETACH, &attr)
	runtime.KeepAlive(cgroup)
	runtime.KeepAlive(prog)
	if err != nil {
		return fmt.Errorf("bpf(PROG_DETACH) of %s on %s: %w", prog.Name(), cgroup.Name(), err)
	}
	return nil
}
