package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/internal/standin"
	"oci-cdi-hook/mounts/nsthread"
)

// bundleFor makes a bundle that everybody may enter, and a state that names it.
func bundleFor(t *testing.T, pid int) (rootfs string, s *State) {
	t.Helper()
	bundle := t.TempDir()
	for _, name := range []string{bundle, filepath.Dir(bundle)} {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	rootfs = filepath.Join(bundle, "rootfs")
	for _, name := range []string{"dev", "old"} {
		if err := os.MkdirAll(filepath.Join(rootfs, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, `{"root":{"path":"rootfs"}}`, bundle, "config.json")
	return rootfs, stateOf(t, bundle, pid)
}

func stateOf(t *testing.T, bundle string, pid int) *State {
	t.Helper()
	s, err := ReadState(strings.NewReader(fmt.Sprintf(`{"id":"a","pid":%d,"bundle":%q}`, pid, bundle)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openRoot opens the root as the hook does: in the container's mount namespace.
func openRoot(t *testing.T, c *Container) (pivoted bool, err error) {
	t.Helper()
	ns, err := c.Process.Namespace("mnt")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	thread, err := nsthread.Start(nsthread.Join(nsthread.Namespace{File: ns, Type: unix.CLONE_NEWNS}))
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Close()
	err = thread.Do(func() error {
		var root *os.File
		var err error
		if root, pivoted, err = c.OpenRoot(); err != nil {
			return err
		}
		defer root.Close()
		var st unix.Stat_t
		return unix.Fstatat(int(root.Fd()), "old", &st, 0)
	})
	return pivoted, err
}

func TestFindAndOpenRoot(t *testing.T) {
	rootfs, s := bundleFor(t, 0)
	p := standin.Start(t, standin.Options{Rootfs: rootfs, Tmpfs: []string{"dev"}, Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID})
	s.Pid = p.Pid
	c, err := Find(s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.RootPath != rootfs || c.UserNamespace || c.Config == nil {
		t.Errorf("%+v", c)
	}
	if pid, err := c.Process.InnerPid(); err != nil || pid != 1 {
		t.Errorf("inner pid %d %v", pid, err)
	}
	if !c.Process.Owns(p.Pid) || c.Process.Owns(os.Getpid()) {
		t.Error("owns the wrong processes")
	}
	if uid, gid, err := c.HostIDs(3, 4); uid != 3 || gid != 4 || err != nil {
		t.Error(uid, gid, err)
	}
	if pivoted, err := openRoot(t, c); pivoted || err != nil {
		t.Errorf("before pivot_root: %v %v", pivoted, err)
	}
	p.Pivot()
	if pivoted, err := openRoot(t, c); !pivoted || err != nil {
		t.Errorf("after pivot_root: %v %v", pivoted, err)
	}
}

// After pivot the path of the rootfs leads where the image wants it to.
func TestOpenRootIsNotFooledByThePath(t *testing.T) {
	rootfs, s := bundleFor(t, 0)
	other := t.TempDir()
	if err := os.MkdirAll(filepath.Join(other, rootfs, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := standin.Start(t, standin.Options{Rootfs: other, Namespaces: unix.CLONE_NEWNS})
	s.Pid = p.Pid
	c, err := Find(s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p.Pivot()
	if _, err := openRoot(t, c); !errors.Is(err, ErrNoRoot) {
		t.Errorf("another directory at the path of the rootfs: %v", err)
	}
}

func TestFindInUserNamespace(t *testing.T) {
	rootfs, s := bundleFor(t, 0)
	p := standin.Start(t, standin.Options{Rootfs: rootfs, Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWUSER})
	s.Pid = p.Pid
	c, err := Find(s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	uid, gid, err := c.HostIDs(1, 2)
	if !c.UserNamespace || err != nil || uid != standin.FirstID+1 || gid != standin.FirstID+2 {
		t.Error(c.UserNamespace, uid, gid, err)
	}
	_, _, err = c.HostIDs(65536, 0)
	wantError(t, err, "uid 65536 is not mapped")
	_, _, err = c.HostIDs(0, 70000)
	wantError(t, err, "gid 70000 is not mapped")
	if pivoted, err := openRoot(t, c); pivoted || err != nil {
		t.Error(pivoted, err)
	}
}

func TestFindRefuses(t *testing.T) {
	rootfs, s := bundleFor(t, os.Getpid())
	_, err := Find(s)
	if !errors.Is(err, ErrOwnNamespace) {
		t.Errorf("own namespace: %v", err)
	}
	wantError(t, err, fmt.Sprintf("container a, pid %d: ", os.Getpid()))

	p := standin.Start(t, standin.Options{Rootfs: rootfs, Namespaces: unix.CLONE_NEWNS})
	bundle := s.Bundle
	for name, c := range map[string]struct {
		config string
		is     error
		want   string
	}{
		"root is the host's": {`{"root":{"path":"/"}}`, ErrOwnRoot, "host's own"},
		"root is a file":     {`{"root":{"path":"config.json"}}`, unix.ENOTDIR, bundle + "/config.json"},
		"root is missing":    {`{"root":{"path":"none"}}`, unix.ENOENT, bundle + "/none"},
		"no root":            {`{}`, nil, "no root.path"},
		"no JSON":            {`{`, nil, "config.json: not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, c.config, bundle, "config.json")
			s.Pid = p.Pid
			_, err := Find(s)
			wantError(t, err, c.want)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
		})
	}
	writeFile(t, `{"root":{"path":"rootfs"}}`, bundle, "config.json")
	p.End()
	if _, err := Find(s); !errors.Is(err, unix.ESRCH) {
		t.Errorf("dead: %v", err)
	}
	s.Bundle = bundle + "/none"
	s.Root = rootfs
	// A bundle that is missing is not one that cannot be read.
	if _, err := Find(s); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no bundle: %v", err)
	}
}

func TestInnerState(t *testing.T) {
	rootfs, s := bundleFor(t, 0)
	p := standin.Start(t, standin.Options{Rootfs: rootfs, Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID})
	for root, want := range map[string]int{"": 1, "rootfs": 0} { // runc's, crun's
		s := stateOf(t, s.Bundle, p.Pid)
		s.Root = root
		c, err := Find(s)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		doc, err := c.InnerJSON()
		var inner State
		if err := errors.Join(err, json.Unmarshal(doc, &inner)); err != nil || inner.Pid != want || inner.ID != "a" {
			t.Errorf("state.root %q: %s %v", root, doc, err)
		}
	}
}

// moveAway puts a process into a cgroup of its own, of whatever hierarchy there is.
func moveAway(t *testing.T, p *standin.Process) (dir string) {
	t.Helper()
	for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"} {
		dir = fmt.Sprintf("%s/oci-cdi-hook-oci-test-%d", top, os.Getpid())
		if _, err := os.Stat(top + "/cgroup.procs"); err != nil {
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.End()
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(dir+"/cgroup.procs", fmt.Append(nil, p.Pid), 0); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Skip("no cgroup file system is mounted")
	return ""
}

func TestHookCgroup(t *testing.T) {
	rootfs, s := bundleFor(t, 0)
	p := standin.Start(t, standin.Options{Rootfs: rootfs, Namespaces: unix.CLONE_NEWNS})
	s.Pid = p.Pid
	c, err := Find(s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := c.HookCgroup()
	if err != nil || h.V2 != nil || len(h.V1) > 0 {
		t.Errorf("the caller's own cgroups: %+v %v", h, err)
	}
	dir := moveAway(t, p)
	if h, err = c.HookCgroup(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var found []string
	if h.V2 != nil {
		found = append(found, h.V2.Name())
	}
	if found = append(found, h.V1...); !slices.Equal(found, []string{dir}) {
		t.Errorf("found %q, want %s", found, dir)
	}
}
