package bed

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanaryDir is a filesystem of the host's that no container has any business in.
const CanaryDir = home + "/canary"

// Canary tells whether anybody created, changed, opened or mounted something outside of a container.
type Canary struct {
	t       *testing.T
	inotify *os.File
	names   map[int32]string
	tree    []string
	mounts  string
}

// Canary sets one up: files, folders, a FIFO, a socket and a node, all watched.
func (h *Host) Canary() *Canary {
	h.t.Helper()
	h.Dir(CanaryDir)
	h.Mount("canary", CanaryDir, "tmpfs", 0, "mode=0755")
	h.Dir(CanaryDir + "/dir/inner")
	h.Dir(CanaryDir + "/proc") // like a folder of /proc, to be led into
	h.File(CanaryDir+"/file", "the host's", 0o600)
	h.File(CanaryDir+"/dir/file", "the host's too", 0o644)
	h.Pipe(CanaryDir + "/fifo")
	h.Socket(CanaryDir + "/socket")
	h.Node(CanaryDir+"/node", unix.S_IFCHR|0o666, 1, 3, 0, 0)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	h.must(err)
	c := &Canary{t: h.t, inotify: os.NewFile(uintptr(fd), "inotify"), names: map[int32]string{}}
	h.t.Cleanup(func() { c.inotify.Close() })
	h.must(filepath.WalkDir(CanaryDir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		wd, err := unix.InotifyAddWatch(fd, path, unix.IN_ALL_EVENTS|unix.IN_DONT_FOLLOW)
		c.names[int32(wd)] = path
		return err
	}))
	c.tree = c.look()
	c.mounts = c.mountinfo()
	c.events()
	return c
}

// Touched lists what has happened since the last look.
func (c *Canary) Touched() []string {
	c.t.Helper()
	out := c.events()
	now := c.look()
	if strings.Join(now, "\n") != strings.Join(c.tree, "\n") {
		out = append(out, "it was\n"+strings.Join(c.tree, "\n")+"\nand is\n"+strings.Join(now, "\n"))
		c.tree = now
	}
	if m := c.mountinfo(); m != c.mounts {
		out = append(out, "the host's mounts were\n"+c.mounts+"and are\n"+m)
		c.mounts = m
	}
	c.events() // of looking
	return out
}

// Clean takes away what has been made in it.
func (c *Canary) Clean() {
	c.t.Helper()
	for _, dir := range []string{CanaryDir, CanaryDir + "/dir"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !slices.Contains(slices.Collect(maps.Values(c.names)), path) {
				if err := os.RemoveAll(path); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	c.Touched()
}

// look notes all that a stat can tell but the time of the last access.
func (c *Canary) look() []string {
	c.t.Helper()
	var out []string
	err := filepath.WalkDir(CanaryDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		out = append(out, fmt.Sprint(path, " ", info.Mode(), st.Ino, st.Nlink, st.Uid, st.Gid, st.Rdev, st.Size, st.Mtim, st.Ctim))
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *Canary) mountinfo() string {
	c.t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

// events empties the queue of inotify(7).
func (c *Canary) events() []string {
	c.t.Helper()
	var out []string
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(int(c.inotify.Fd()), buf)
		if err != nil || n <= 0 {
			return out
		}
		for at := 0; at < n; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			out = append(out, fmt.Sprintf("%s event %#x", c.names[e.Wd], e.Mask))
			at += unix.SizeofInotifyEvent + int(e.Len)
		}
	}
}
