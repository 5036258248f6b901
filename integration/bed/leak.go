package bed

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/report"
)

// snapshot is what a container must not change: one line a thing.
type snapshot map[string]bool

func (s snapshot) diff(after snapshot) []string {
	var out []string
	for line := range s {
		if !after[line] {
			out = append(out, "gone: "+line)
		}
	}
	for line := range after {
		if !s[line] {
			out = append(out, "new: "+line)
		}
	}
	sort.Strings(out)
	return out
}

func take() (snapshot, error) {
	s := snapshot{}
	for _, step := range []func() error{
		func() error { return s.addTree("/dev") },
		func() error { return s.addTree("/run") },
		func() error { return s.addCgroups() },
		func() error { return s.addMounts() },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// takeOutside looks at the machine itself, which other programs use too: at /dev whole, and elsewhere at what carries our names.
func takeOutside() (snapshot, error) {
	s := snapshot{}
	if err := s.addTree("/dev"); err != nil {
		return nil, err
	}
	if err := s.addCgroups(); err != nil {
		return nil, err
	}
	elsewhere := snapshot{}
	if err := elsewhere.addMounts(); err != nil {
		return nil, err
	}
	for _, dir := range []string{"/run", "/var/lib", "/etc", "/etc/cdi", "/run/cdi", "/run/oci-cdi-hook", "/usr/lib/x86_64-linux-gnu", "/usr/libexec/oci/hooks.d"} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		for _, e := range entries {
			elsewhere[filepath.Join(dir, e.Name())] = true
		}
	}
	for line := range elsewhere {
		for _, name := range []string{Prefix, home, "cdi", "nvidia"} {
			if strings.Contains(line, name) {
				s[line] = true
			}
		}
	}
	return s, nil
}

// addTree notes type, numbers, mode and owner, not times and sizes. Terminals come and go with logins and are left out.
func (s snapshot) addTree(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if path == "/dev/pts" || path == "/dev/shm" || path == bin || path == home+"/overwork" {
			return fs.SkipDir
		}
		if d.IsDir() && copiedUp(path) {
			return nil
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		s[fmt.Sprintf("%s %v %d:%d owner %d:%d", path, info.Mode(), unix.Major(st.Rdev), unix.Minor(st.Rdev), st.Uid, st.Gid)] = true
		return nil
	})
}

// copiedUp tells whether an overlay's folder is only there because something was once made in it.
func copiedUp(path string) bool {
	rest, found := strings.CutPrefix(path, home+"/over/")
	name, rel, _ := strings.Cut(rest, "/")
	if !found || lower[name] == nil {
		return false
	}
	_, err := lower[name].Lstat(filepath.Join(".", rel))
	return err == nil
}

// addMounts leaves the numbers of mounts and of peer groups out.
func (s snapshot) addMounts() error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	mounts, err := report.ParseMountinfo(string(raw))
	for _, m := range mounts {
		line := "mount " + m.String()
		for n := 2; s[line]; n++ { // stacked ones look alike
			line = fmt.Sprintf("mount %s (%d)", m, n)
		}
		s[line] = true
	}
	return err
}

// addCgroups looks for ours by name: other cgroups of the machine come and go.
func (s snapshot) addCgroups() error {
	return filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed while we walked
		}
		if d.IsDir() && strings.Contains(path, Prefix) {
			s["cgroup "+path] = true
		}
		return nil
	})
}

// LeavesNothing makes the test fail if, after all its clean-up, the bed is not as it is now.
func LeavesNothing(t *testing.T) {
	t.Helper()
	before, err := take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := leftAfter(t, before); len(left) > 0 {
			t.Errorf("the bed is not as before:\n%s", strings.Join(left, "\n"))
		}
	})
}

// leftAfter gives the kernel time to end what ends by itself: a cgroup of a process that is being reaped.
func leftAfter(t *testing.T, before snapshot) []string {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Second); ; <-tick.C {
		after, err := take()
		if err != nil {
			t.Fatal(err)
		}
		if left := before.diff(after); len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
