package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/mounts/nsthread"
)

// bed is a host and a container's root in a mount namespace of a thread's own. The host
// side is a tmpfs at dir/host, the root one at dir/root.
type bed struct {
	t      *testing.T
	thread *nsthread.Thread
	dir    string
	root   *Root
	host   []byte // mountinfo before the root was there
}

// newBed makes a bed; poisoned system calls answer ENOSYS on its thread, as in a kernel
// that lacks them.
func newBed(t *testing.T, poisoned ...uintptr) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: making mounts and device nodes")
	}
	b := &bed{t: t, dir: t.TempDir()}
	var err error
	b.thread, err = nsthread.Start(func() error { return unix.Unshare(unix.CLONE_NEWNS) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.thread.Close)
	b.do(b.setUp)
	if len(poisoned) > 0 {
		b.do(func() error { return poison(poisoned) })
	}
	return b
}

func (b *bed) setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	for _, name := range []string{"host", "root"} {
		if err := os.Mkdir(b.path(name), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("host", b.path("host"), "tmpfs", 0, ""); err != nil {
		return err
	}
	var err error
	if b.host, err = os.ReadFile("/proc/thread-self/mountinfo"); err != nil {
		return err
	}
	if err := unix.Mount("root", b.path("root"), "tmpfs", 0, ""); err != nil {
		return err
	}
	dir, err := os.OpenFile(b.path("root"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	b.root, err = NewRoot(dir, func() ([]byte, error) { return b.host, nil })
	return err
}

func (b *bed) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

func (b *bed) do(f func() error) {
	b.t.Helper()
	if err := b.thread.Do(f); err != nil {
		b.t.Fatal(err)
	}
}

// write makes files (name ending in "/" makes a directory) with the parents they need.
func (b *bed) write(names ...string) {
	b.t.Helper()
	b.do(func() error {
		for _, name := range names {
			full := b.path(name)
			if strings.HasSuffix(name, "/") {
				if err := os.MkdirAll(full, 0o755); err != nil {
					return err
				}
				continue
			}
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(full, []byte(name), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bed) link(target, name string) {
	b.t.Helper()
	b.do(func() error { return os.Symlink(target, b.path(name)) })
}

// tree lists everything below the bed with what matters of it, and all mounts.
func (b *bed) tree() []string {
	b.t.Helper()
	var all []string
	b.do(func() error {
		err := filepath.WalkDir(b.dir, func(name string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(name, &st); err != nil {
				return err
			}
			if strings.HasSuffix(name, "root/proc") {
				return filepath.SkipDir // what is below changes by itself
			}
			link, _ := os.Readlink(name)
			all = append(all, strings.TrimPrefix(name, b.dir)+" "+describe(st)+" "+link)
			return nil
		})
		info, rerr := os.ReadFile("/proc/thread-self/mountinfo")
		for line := range strings.Lines(string(info)) {
			if strings.Contains(line, b.dir) {
				all = append(all, strings.TrimSpace(line))
			}
		}
		return errors.Join(err, rerr)
	})
	return all
}

func (b *bed) wantTree(want []string) {
	b.t.Helper()
	if have := b.tree(); !slices.Equal(have, want) {
		b.t.Errorf("tree is\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// mountOn gives the fields of mountinfo that a process can see of the top mount on a
// place: flags and propagation, without ids.
func (b *bed) mountOn(name string) string {
	b.t.Helper()
	found := ""
	b.do(func() error {
		all, err := threadMounts()
		for _, m := range all {
			if m.Mountpoint == b.path(name) {
				kind := ""
				for field := range strings.FieldsSeq(m.Optional) {
					kind += " " + strings.SplitN(field, ":", 2)[0]
				}
				found = m.Root + " " + m.Options + kind
			}
		}
		return err
	})
	return found
}

// poison makes system calls of the calling thread fail with ENOSYS (seccomp(2), for this
// thread alone).
func poison(calls []uintptr) error {
	const nr = 0 // offset of nr in struct seccomp_data
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr}}
	for _, c := range calls {
		prog = append(prog,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(c), Jt: 0, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)})
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// kernels are what older kernels lack, newest first.
var kernels = []struct {
	name  string
	lacks []uintptr
}{
	{"today", nil},
	{"no fchmodat2", []uintptr{unix.SYS_FCHMODAT2}},
	{"no mount_setattr", []uintptr{unix.SYS_FCHMODAT2, unix.SYS_MOUNT_SETATTR}},
	{"no openat2", []uintptr{unix.SYS_FCHMODAT2, unix.SYS_MOUNT_SETATTR, unix.SYS_OPENAT2}},
	{"no open_tree", []uintptr{unix.SYS_FCHMODAT2, unix.SYS_MOUNT_SETATTR, unix.SYS_OPENAT2,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG}},
}

func onEachKernel(t *testing.T, test func(t *testing.T, b *bed)) {
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) { test(t, newBed(t, k.lacks...)) })
	}
}
