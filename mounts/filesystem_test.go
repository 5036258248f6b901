package mounts

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesystem(t *testing.T) {
	onEachKernel(t, func(t *testing.T, b *bed) {
		b.write("root/scratch/", "root/deep/in/f")
		b.do(func() error { return unix.Chmod(b.path("root/scratch"), 0o1777) })
		before := b.tree()
		var undo Undo
		b.do(func() error {
			p, err := b.root.CheckFilesystem(Filesystem{
				Type: "tmpfs", Source: "tmpfs", UnsafeTarget: "/scratch",
				Options: ParseOptions([]string{"nosuid", "nodev", "size=64k"}),
			}, false)
			if err != nil {
				return err
			}
			undo, err = p.Do()
			return err
		})
		if on := b.mountOn("root/scratch"); on != "/ rw,nosuid,nodev,relatime" {
			t.Errorf("mounted as %q", on)
		}
		b.do(func() error {
			var st unix.Stat_t
			err := unix.Stat(b.path("root/scratch"), &st)
			if st.Mode&0o7777 != 0o1777 {
				t.Errorf("mode %o, not that of the directory", st.Mode)
			}
			return err
		})
		b.do(undo)
		b.wantTree(before)
	})
}

func TestFilesystemsThatDependOnWhoMounts(t *testing.T) {
	b := newBed(t)
	for _, fstype := range strings.Fields("proc sysfs mqueue devpts cgroup cgroup2 overlay ext4") {
		err := b.thread.Do(func() error {
			_, err := b.root.CheckFilesystem(Filesystem{Type: fstype, UnsafeTarget: "/x"}, false)
			return err
		})
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", fstype, err)
		}
	}
}
