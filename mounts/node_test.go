package mounts

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func (b *bed) makeNode(n Node) (Undo, error) {
	b.t.Helper()
	var undo Undo
	err := b.thread.Do(func() error {
		p, err := b.root.CheckNode(n, false)
		if err != nil {
			return err
		}
		undo, err = p.Do()
		return err
	})
	return undo, err
}

func TestNode(t *testing.T) {
	nodes := []Node{
		{UnsafePath: "/dev/null", Type: 'c', Major: 1, Minor: 3, Mode: 0o666},
		{UnsafePath: "/dev/d/e/f", Type: 'c', Major: 1, Minor: 5, Mode: 0o660, UID: 7, GID: 8},
		{UnsafePath: "/dev/blk", Type: 'b', Major: 7, Minor: 0, Mode: 0o400},
		{UnsafePath: "/dev/u", Type: 'u', Major: 1, Minor: 3, Mode: 0o1224},
		{UnsafePath: "/run/fifo", Type: 'p', Mode: 0o622},
	}
	for _, userns := range []bool{false, true} {
		onEachKernel(t, func(t *testing.T, b *bed) {
			b.root.UserNamespace = userns
			b.write("root/dev/")
			before := b.tree()
			b.do(func() error { unix.Umask(0o077); return nil })
			for _, n := range nodes {
				undo, err := b.makeNode(n)
				if userns && strings.Contains(t.Name(), "open_tree") {
					// Only a detached clone can go from the staging namespace to another.
					if !errors.Is(err, unix.ENOSYS) {
						t.Errorf("%s: %v, want ENOSYS", n.UnsafePath, err)
					}
					b.wantTree(before)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				b.checkNode(n)
				b.do(undo)
				b.wantTree(before)
			}
		})
	}
}

// checkNode looks at a node as the container would.
func (b *bed) checkNode(n Node) {
	b.t.Helper()
	b.do(func() error {
		var st, dir unix.Stat_t
		if err := unix.Lstat(b.path("root", n.UnsafePath), &st); err != nil {
			return err
		}
		if !n.matches(st) || st.Mode&0o7777 != n.Mode || st.Uid != n.UID || st.Gid != n.GID {
			b.t.Errorf("%s is %s mode %o owner %d:%d", n.UnsafePath, describe(st), st.Mode, st.Uid, st.Gid)
		}
		if n.UnsafePath == "/dev/d/e/f" {
			if err := unix.Lstat(b.path("root/dev/d/e"), &dir); err != nil {
				return err
			}
			if dir.Mode&0o7777 != 0o755 {
				b.t.Errorf("parent directory has mode %o", dir.Mode)
			}
		}
		if n.Type == 'c' {
			f, err := os.OpenFile(b.path("root", n.UnsafePath), os.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return nil
	})
}

func TestNodeWhereSomethingIs(t *testing.T) {
	b := newBed(t)
	b.write("root/dev/file", "root/dev/dir/", "root/etc/", "host/")
	b.link("/etc/evil", "root/dev/link")
	b.do(func() error {
		return errors.Join(
			unix.Mknod(b.path("root/dev/same"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
			unix.Mknod(b.path("root/dev/other"), unix.S_IFCHR|0o600, int(unix.Mkdev(9, 9))),
			unix.Mknod(b.path("root/dev/block"), unix.S_IFBLK|0o600, int(unix.Mkdev(1, 3))))
	})
	before := b.tree()
	for _, name := range []string{"file", "dir", "link", "other", "block"} {
		_, err := b.makeNode(Node{UnsafePath: "/dev/" + name, Type: 'c', Major: 1, Minor: 3, Mode: 0o666})
		var different *DifferentError
		if !errors.As(err, &different) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.makeNode(Node{UnsafePath: "/dev/same", Type: 'c', Major: 1, Minor: 3, Mode: 0o666}); err != nil {
		t.Error(err)
	}
	b.wantTree(before)
}

func TestNodeAdopted(t *testing.T) {
	onEachKernel(t, func(t *testing.T, b *bed) {
		b.write("root/dev/", "root/bound/", "host/")
		b.do(func() error {
			return errors.Join(
				unix.Mknod(b.path("root/dev/mine"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
				unix.Mknod(b.path("host/theirs"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
				unix.Mknod(b.path("root/dev/theirs"), unix.S_IFREG|0o600, 0),
				unix.Mount(b.path("host/theirs"), b.path("root/dev/theirs"), "", unix.MS_BIND, ""),
				unix.Mount(b.path("host"), b.path("root/bound"), "", unix.MS_BIND, ""))
		})
		mode := func(name string) (uint32, uint32) {
			var st unix.Stat_t
			b.do(func() error { return unix.Lstat(b.path(name), &st) })
			return st.Mode & 0o7777, st.Gid
		}
		n := Node{UnsafePath: "/dev/mine", Type: 'c', Major: 1, Minor: 3, Mode: 0o640, GID: 9, Adopt: true}
		undo, err := b.makeNode(n)
		if err != nil {
			t.Fatal(err)
		}
		if m, g := mode("root/dev/mine"); m != 0o640 || g != 9 {
			t.Errorf("adopted with mode %o, group %d", m, g)
		}
		b.do(undo)
		if m, g := mode("root/dev/mine"); m != 0o600 || g != 0 {
			t.Errorf("given back with mode %o, group %d", m, g)
		}
		for _, name := range []string{"/dev/theirs", "/bound/theirs"} {
			n.UnsafePath = name
			if _, err := b.makeNode(n); err != nil {
				t.Error(err)
			}
			if m, g := mode("host/theirs"); m != 0o600 || g != 0 {
				t.Errorf("%s: a node of the host has mode %o, group %d now", name, m, g)
			}
		}
	})
}

func TestNodeOnAHostMount(t *testing.T) {
	b := newBed(t)
	b.write("host/dev/", "root/dev/", "root/own/")
	b.do(func() error {
		return errors.Join(
			unix.Mount(b.path("host/dev"), b.path("root/dev"), "", unix.MS_BIND, ""),
			unix.Mknod(b.path("host/dev/there"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
			unix.Mount("own", b.path("root/own"), "tmpfs", 0, ""))
	})
	b.link("dev", "root/sneaky")
	before := b.tree()
	for _, name := range []string{"/dev/new", "/dev/a/b", "/sneaky/new"} {
		if _, err := b.makeNode(Node{UnsafePath: name, Type: 'c', Major: 1, Minor: 3}); !errors.Is(err, ErrHostMount) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.makeNode(Node{UnsafePath: "/dev/there", Type: 'c', Major: 1, Minor: 3}); err != nil {
		t.Error(err)
	}
	b.wantTree(before)
	if _, err := b.makeNode(Node{UnsafePath: "/own/new", Type: 'c', Major: 1, Minor: 3}); err != nil {
		t.Errorf("on the container's own filesystem: %v", err)
	}
}

func TestHostNodeIsBoundWhereNoneMayBeMade(t *testing.T) {
	b := newBed(t)
	b.write("root/dev/")
	b.do(func() error { return unix.Mknod(b.path("host/real"), unix.S_IFCHR|0o640, int(unix.Mkdev(1, 5))) })
	before := b.tree()
	n := Node{UnsafePath: "/dev/random", Type: 'c', Major: 1, Minor: 5, HostPath: b.path("host/real")}
	b.do(func() error {
		tree, err := b.root.cloneHostNode(n)
		if err != nil {
			return err
		}
		defer tree.Close()
		dir, err := b.root.open("/dev")
		if err != nil {
			return err
		}
		defer dir.Close()
		undo, err := b.root.bindNode(dir, "random", n, tree)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(b.path("root/dev/random"), &st); err != nil || !n.matches(st) {
			t.Errorf("bound %s, %v", describe(st), err)
		}
		return undo()
	})
	b.wantTree(before)
	n.Minor = 9
	var different *DifferentError
	if err := b.thread.Do(func() error { _, err := b.root.cloneHostNode(n); return err }); !errors.As(err, &different) {
		t.Errorf("another node of the host was taken: %v", err)
	}
}

func TestLeftovers(t *testing.T) {
	b := newBed(t)
	b.write("root/made/dir/", "root/made/dir2/kept", "root/empty", "root/full", "root/mnt/inner")
	b.do(func() error {
		return errors.Join(os.Truncate(b.path("root/empty"), 0),
			unix.Mknod(b.path("root/node"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
			unix.Mknod(b.path("root/node2"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))),
			unix.Mount("m", b.path("root/mnt"), "tmpfs", 0, ""))
	})
	b.write("root/mnt/x/")
	b.link("/etc", "root/link")
	planned := &Node{Type: 'c', Major: 1, Minor: 3}
	b.root.Keep = func(path string) bool { return path == "/kept" }
	b.write("root/kept/")
	b.do(func() error {
		return b.root.RemoveLeftovers([]Leftover{
			{UnsafePath: "/made"}, {UnsafePath: "/made/dir"}, {UnsafePath: "/made/dir2"}, {UnsafePath: "/empty"},
			{UnsafePath: "/full"}, {UnsafePath: "/node", Node: planned}, {UnsafePath: "/node2", Node: planned},
			{UnsafePath: "/mnt/x"}, {UnsafePath: "/link"}, {UnsafePath: "/kept"}, {UnsafePath: "/never/there"}, {UnsafePath: "/"},
		})
	})
	for name, want := range map[string]bool{
		"made/dir": false, "made/dir2/kept": true, "empty": false, "full": true, "node": false, "node2": true,
		"mnt/x": true, "link": true, "kept": true,
	} {
		b.do(func() error {
			_, err := os.Lstat(b.path("root", name))
			if (err == nil) != want {
				t.Errorf("%s: there %v, want %v", name, err == nil, want)
			}
			return nil
		})
	}
}
