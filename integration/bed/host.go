package bed

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/report"
)

// Host is what a test adds to the bed: the stand-ins for a vendor's nodes, libraries and programs. All of it goes when the test ends.
type Host struct {
	t    *testing.T
	pool []uint64
	next uint32
}

// NewHost makes an empty work folder and starts with nothing added.
func NewHost(t *testing.T) *Host {
	t.Helper()
	h := &Host{t: t}
	for _, name := range deniedByDefault {
		var st unix.Stat_t
		if unix.Stat("/dev/"+name, &st) == nil {
			h.pool = append(h.pool, st.Rdev)
		}
	}
	h.Dir(work)
	h.Dir(SpecDir)
	// there beforehand and open to all: a hook of a user namespace writes it too
	h.File(report.TraceFile, "", 0o666)
	return h
}

// undo removes path when the test ends.
func (h *Host) undo(path string) {
	h.t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			h.t.Error(err)
		}
	})
}

func (h *Host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// Dir makes a folder and its parents.
func (h *Host) Dir(path string) {
	h.t.Helper()
	if _, err := os.Lstat(path); err == nil {
		return
	}
	h.Dir(filepath.Dir(path))
	h.must(os.Mkdir(path, 0o755))
	h.must(os.Chmod(path, 0o755))
	h.undo(path)
}

// File makes a file, unless something is there.
func (h *Host) File(path, content string, mode os.FileMode) {
	h.t.Helper()
	if _, err := os.Lstat(path); err == nil {
		return
	}
	h.Dir(filepath.Dir(path))
	h.must(os.WriteFile(path, []byte(content), mode))
	h.must(os.Chmod(path, mode))
	h.undo(path)
}

// Link makes a symbolic link.
func (h *Host) Link(path, to string) {
	h.t.Helper()
	h.Dir(filepath.Dir(path))
	h.must(os.Symlink(to, path))
	h.undo(path)
}

// Node makes a device node with numbers, mode (type included) and owner.
func (h *Host) Node(path string, mode, major, minor uint32, uid, gid int) {
	h.t.Helper()
	h.Dir(filepath.Dir(path))
	h.must(makeNode(path, mode, unix.Mkdev(major, minor)))
	h.must(os.Chown(path, uid, gid))
	h.undo(path)
}

// AnyNode makes a character device that the runtimes' own rules deny, each call another. The first ones open once they are allowed; the
// kernel has no driver for the later ones and says so (ENXIO), which a denied one never does (EPERM).
func (h *Host) AnyNode(path string, mode uint32) {
	h.t.Helper()
	if _, err := os.Lstat(path); err == nil {
		return
	}
	dev := unix.Mkdev(195, h.next)
	if int(h.next) < len(h.pool) {
		dev = h.pool[h.next]
	}
	h.next++
	h.Node(path, unix.S_IFCHR|mode, unix.Major(dev), unix.Minor(dev), 0, 0)
}

// VendorHook installs the stand-in for a vendor's hook program.
func (h *Host) VendorHook(path string) {
	h.t.Helper()
	if _, err := os.Lstat(path); err == nil {
		return
	}
	h.Dir(filepath.Dir(path))
	h.must(copyFile(Tool(toolHook), path, 0o755))
	h.undo(path)
}

// Mount mounts in the bed until the test ends.
func (h *Host) Mount(source, target, kind string, flags uintptr, data string) {
	h.t.Helper()
	h.must(mount(source, target, kind, flags, data))
	h.t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			h.t.Error(&os.PathError{Op: "umount", Path: target, Err: err})
		}
	})
}

// Flags gives a mount of the test's other flags until the test ends.
func (h *Host) Flags(target string, flags uintptr) {
	h.t.Helper()
	h.must(mount("", target, "", flags|unix.MS_REMOUNT|unix.MS_BIND, ""))
	h.t.Cleanup(func() { h.must(mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND, "")) })
}

// Pipe makes a FIFO.
func (h *Host) Pipe(path string) {
	h.t.Helper()
	h.must(unix.Mkfifo(path, 0o660))
	h.undo(path)
}

// Socket makes a listening socket's file, without a listener.
func (h *Host) Socket(path string) {
	h.t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	h.must(err)
	defer unix.Close(fd)
	h.must(unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	h.undo(path)
}

// Propagation changes that of all the bed's mounts until the test ends; they are shared otherwise.
func (h *Host) Propagation(kind uintptr) {
	h.t.Helper()
	h.must(mount("", "/", "", kind|unix.MS_REC, ""))
	h.t.Cleanup(func() { h.must(mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "")) })
}
