package mounts

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// bindTo binds and returns the undo.
func (b *bed) bindTo(source, target, options string) Undo {
	b.t.Helper()
	var undo Undo
	b.do(func() error {
		p, err := b.root.CheckBind(Bind{
			Source: b.path(source), UnsafeTarget: target, Options: ParseOptions(strings.Split(options, ",")),
		}, false)
		if err != nil {
			return err
		}
		undo, err = p.Do()
		return err
	})
	return undo
}

// nativeBind is what runc does: bind, remount with just the flags, propagation.
func nativeBind(source, target, options string) error {
	o := ParseOptions(strings.Split(options, ","))
	flags := uintptr(unix.MS_BIND)
	if o.Recursive {
		flags |= unix.MS_REC
	}
	if err := unix.Mount(source, target, "", flags, ""); err != nil {
		return err
	}
	for _, p := range o.propagation {
		if err := unix.Mount("", target, "", p, ""); err != nil {
			return err
		}
	}
	if o.namesFlags() {
		return unix.Mount("", target, "", o.flags|unix.MS_BIND|unix.MS_REMOUNT, "")
	}
	return nil
}

func TestBindIsAsNative(t *testing.T) {
	options := []string{
		"bind", "rbind", "bind,ro", "rbind,ro", "bind,rw", "ro,nosuid,nodev,rbind,rprivate", "bind,nosuid,noexec",
		"bind,ro,rw", "bind,noatime", "bind,nodiratime,relatime", "bind,strictatime", "bind,suid,dev,exec",
		"rbind,rslave", "rbind,rshared", "bind,shared", "bind,private", "bind,unknownopt", "bind,sync", "bind,atime",
	}
	sources := map[string]uintptr{"plain": 0, "nosuid,nodev": unix.MS_NOSUID | unix.MS_NODEV, "ro,noatime": unix.MS_RDONLY | unix.MS_NOATIME}
	onEachKernel(t, func(t *testing.T, b *bed) {
		for name, flags := range sources {
			b.write("host/"+name+"/", "root/native/"+name+"/", "root/ours/"+name+"/")
			b.do(func() error { return unix.Mount("src", b.path("host", name), "tmpfs", flags, "") })
			for _, o := range options {
				at := "/" + name + "/" + strings.ReplaceAll(o, ",", "-")
				b.write("root/native"+at+"/", "root/ours"+at+"/")
				b.do(func() error { return nativeBind(b.path("host", name), b.path("root/native", at), o) })
				b.bindTo("host/"+name, "/ours"+at, o)
				if native, ours := b.mountOn("root/native"+at), b.mountOn("root/ours"+at); native != ours {
					t.Errorf("source %s, options %s: %q, natively %q", name, o, ours, native)
				}
			}
		}
	})
}

func TestBindMakesAndUndoes(t *testing.T) {
	onEachKernel(t, func(_ *testing.T, b *bed) {
		b.write("host/lib/x.so", "host/file", "root/usr/lib/", "root/there/deep/", "root/there/f")
		b.link("usr/lib", "root/lib")
		b.link("/run", "root/var-run")
		b.link("loop", "root/loop")
		before := b.tree()
		for _, c := range []struct{ source, target, shows string }{
			{"host/lib", "/opt/new/dir", "root/opt/new/dir/x.so"},
			{"host/file", "/opt/new/f", "root/opt/new/f"},
			{"host/file", "/there/f", "root/there/f"},
			{"host/lib", "/there/deep", "root/there/deep/x.so"},
			{"host/file", "/lib/x/f", "root/usr/lib/x/f"},
			{"host/file", "/var-run/np/socket", "root/run/np/socket"},
			{"host/file", "../../../up", "root/up"},
		} {
			undo := b.bindTo(c.source, c.target, "rbind,ro")
			b.do(func() error { _, err := os.ReadFile(b.path(c.shows)); return err })
			b.do(undo)
			b.wantTree(before)
		}
	})
}

func TestBindRefusals(t *testing.T) {
	onEachKernel(t, func(t *testing.T, b *bed) {
		b.write("host/dir/", "host/file", "root/dir/", "root/file", "root/proc/")
		b.link("loop", "root/loop")
		b.link("nowhere", "host/dangling")
		b.link("proc", "root/sneaky")
		b.do(func() error { return unix.Mount("proc", b.path("root/proc"), "proc", 0, "") })
		before := b.tree()
		for _, c := range []struct {
			source, target, options string
			want                    error
		}{
			{"host/missing", "/x", "bind", unix.ENOENT},
			{"host/dangling", "/x", "bind", unix.ENOENT},
			{"host/dir", "/", "bind", ErrOnRoot},
			{"host/dir", "/x/../..", "bind", ErrOnRoot},
			{"host/dir", "/loop/x", "bind", unix.ELOOP},
			{"host/dir", "/file", "bind", ErrKind},
			{"host/file", "/dir", "bind", ErrKind},
			{"host/file", "/file/x", "bind", unix.ENOTDIR},
			{"host/file", "/proc/driver/x", "bind", ErrInProc},
			{"host/dir", "/proc", "bind", ErrInProc},
			{"host/dir", "/proc/sys", "bind", ErrInProc},
			{"host/file", "/sneaky/version", "bind", ErrInProc},
			{"host/file", "/x", "ro", ErrNoBind},
		} {
			err := b.thread.Do(func() error {
				p, err := b.root.CheckBind(Bind{
					Source: b.path(c.source), UnsafeTarget: c.target, Options: ParseOptions(strings.Split(c.options, ",")),
				}, false)
				if err == nil {
					_, err = p.Do()
				}
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%s on %s: %v, want %v", c.source, c.target, err, c.want)
			}
			b.wantTree(before)
		}
		b.bindTo("host/file", "/proc/cpuinfo", "bind,ro")
	})
}

func TestBindTwiceIsOnce(t *testing.T) {
	b := newBed(t)
	b.write("host/dir/f", "host/other/")
	b.bindTo("host/dir", "/opt", "rbind,ro")
	once := b.tree()
	b.bindTo("host/dir", "/opt", "rbind,ro")
	b.wantTree(once)
	b.bindTo("host/dir", "/opt", "rbind,rw")
	if on := b.mountOn("root/opt"); !strings.Contains(on, "rw") {
		t.Errorf("other options were taken for the same: %s", on)
	}
}

func TestMountsBelowStayVisible(t *testing.T) {
	onEachKernel(t, func(t *testing.T, b *bed) {
		b.write("host/new/deep/er/", "host/new/new-file", "host/bare/", "root/lib/deep/", "host/old/")
		b.do(func() error { return unix.Mount("vol", b.path("root/lib/deep"), "tmpfs", 0, "") })
		b.write("root/lib/deep/er/", "root/lib/deep/kept")
		b.do(func() error { return unix.Mount("vol2", b.path("root/lib/deep/er"), "tmpfs", 0, "") })
		b.write("root/lib/deep/er/kept-too")
		before := b.tree()

		err := b.thread.Do(func() error {
			p, err := b.root.CheckBind(Bind{Source: b.path("host/bare"), UnsafeTarget: "/lib", Options: ParseOptions([]string{"bind"})}, false)
			if err == nil {
				_, err = p.Do()
			}
			return err
		})
		if err == nil {
			t.Error("a mount of the container was covered by a source without a place for it")
		}
		b.wantTree(before)

		if strings.Contains(t.Name(), "open_tree") {
			return // nothing can be put back on top: refused as above
		}
		undo := b.bindTo("host/new", "/lib", "bind,ro")
		for _, name := range []string{"root/lib/new-file", "root/lib/deep/kept", "root/lib/deep/er/kept-too"} {
			b.do(func() error { _, err := os.ReadFile(b.path(name)); return err })
		}
		b.do(undo)
		b.wantTree(before)
	})
}

func TestNothingReachesASharedHost(t *testing.T) {
	b := newBed(t)
	b.write("host/shared/sub/", "host/src/", "root/vol/sub/", "root/opt/")
	b.do(func() error {
		shared := b.path("host/shared")
		return errors.Join(
			unix.Mount("s", shared, "tmpfs", 0, ""), unix.Mount("", shared, "", unix.MS_SHARED, ""))
	})
	b.write("host/shared/sub/")
	b.do(func() (err error) { b.host, err = os.ReadFile("/proc/thread-self/mountinfo"); return err })

	// What is mounted inside an injected tree does not appear at its source.
	b.bindTo("host/shared", "/opt", "rbind")
	b.do(func() error { return unix.Mount("inside", b.path("root/opt/sub"), "tmpfs", 0, "") })
	if on := b.mountOn("host/shared/sub"); on != "" {
		t.Errorf("a container's mount appeared on the host: %s", on)
	}
	// A target on a mount that the host shares is refused.
	b.do(func() error { return unix.Mount(b.path("host/shared"), b.path("root/vol"), "", unix.MS_BIND, "") })
	err := b.thread.Do(func() error {
		_, err := b.root.CheckBind(Bind{Source: b.path("host/src"), UnsafeTarget: "/vol/sub", Options: ParseOptions([]string{"bind"})}, false)
		return err
	})
	if !errors.Is(err, ErrShared) {
		t.Errorf("mount on a shared mount: %v", err)
	}
}
