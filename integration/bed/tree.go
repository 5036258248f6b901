package bed

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Tree lists what a container left in the rootfs, one line a thing.
func (b *Bundle) Tree() []string {
	b.t.Helper()
	return treeOf(b.t, b.Rootfs)
}

// treeOf lists what is below root in a fixed order, leaving out some names at its top.
func treeOf(t *testing.T, root string, leaveOut ...string) []string {
	t.Helper()
	var out []string
	// the slash: root may be a magic link
	err := filepath.WalkDir(root+"/", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if slices.Contains(leaveOut, name) {
			return fs.SkipDir
		}
		line, err := describe(path, d)
		out = append(out, "rootfs /"+name+" "+line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func describe(path string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	st := info.Sys().(*syscall.Stat_t)
	line := fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
	if info.Mode()&fs.ModeDevice != 0 {
		line += fmt.Sprintf(" %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	if to, err := os.Readlink(path); err == nil {
		line += " -> " + to
	}
	if info.Mode().IsRegular() {
		line += fmt.Sprintf(" %d bytes", info.Size())
	}
	return line, nil
}
