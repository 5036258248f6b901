// Command probe is the process of the test containers: it looks around, prints a report.Report as JSON and leaves.
//
// It changes nothing but a directory of its own for the device sweep, and needs nothing of the image. With a verb and arguments it is an
// attacker instead.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/report"
)

func main() {
	if len(os.Args) > 2 && attack(os.Args[1], os.Args[2:]) {
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run() error {
	var ask report.Ask
	if len(os.Args) != 2 {
		return fmt.Errorf("%d arguments instead of one", len(os.Args)-1)
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &ask); err != nil {
		return err
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	r := report.Report{Env: os.Environ()}
	if r.Mounts, err = report.ParseMountinfo(string(table)); err != nil {
		return err
	}
	if r.Groups, err = os.Getgroups(); err != nil {
		return err
	}
	for _, p := range ask.Paths {
		r.Objects = append(r.Objects, look(p))
	}
	for _, p := range ask.Remounting {
		r.Writable = append(r.Writable, remount(p)...)
	}
	for _, p := range ask.Writable {
		r.Writable = append(r.Writable, p+" "+write(p))
	}
	for _, p := range ask.Unmounting {
		r.Writable = append(r.Writable, "unmount "+p+" "+outcome(unix.Unmount(p, unix.MNT_DETACH)), "in "+p+" "+names(p))
	}
	for _, p := range ask.Mounting {
		err := unix.Mount("made-inside", p, "tmpfs", 0, "")
		r.Writable = append(r.Writable, "mount on "+p+" "+outcome(err))
	}
	if ask.Sweep != nil {
		if r.Allowed, err = sweep(*ask.Sweep); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func outcome(err error) string {
	if err != nil {
		return errno(err)
	}
	return "ok"
}

func look(path string) report.Object {
	o := report.Object{Path: path}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		o.Kind = errno(err)
		return o
	}
	o.Mode, o.UID, o.GID = fmt.Sprintf("%04o", st.Mode&0o7777), st.Uid, st.Gid
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		o.Kind = map[uint32]string{unix.S_IFCHR: "c", unix.S_IFBLK: "b"}[st.Mode&unix.S_IFMT]
		o.Rdev = fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
		o.Access = access(path)
		o.Open = tryOpen(path)
	case unix.S_IFREG:
		o.Kind = "-"
		o.Content = start(path)
	case unix.S_IFDIR:
		o.Kind = "d"
		o.Content = names(path)
	case unix.S_IFLNK:
		o.Kind = "l"
		o.Target, _ = os.Readlink(path)
		o.Open = tryOpen(path)
	case unix.S_IFSOCK:
		o.Kind = "s"
	case unix.S_IFIFO:
		o.Kind = "p"
	}
	return o
}

func tryOpen(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return errno(err)
	}
	unix.Close(fd)
	return "ok"
}

// access asks the kernel, which asks the device cgroup, without opening anything: some drivers act on an open.
func access(path string) string {
	var s string
	if unix.Access(path, unix.R_OK) == nil {
		s += "r"
	}
	if unix.Access(path, unix.W_OK) == nil {
		s += "w"
	}
	if s == "" {
		return "none"
	}
	return s
}

func start(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return errno(err)
	}
	if len(b) > 60 {
		return fmt.Sprintf("%.60q... sha256 %x", b, sha256.Sum256(b))
	}
	return fmt.Sprintf("%q", b)
}

func names(path string) string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return errno(err)
	}
	var n []string
	for _, e := range entries {
		n = append(n, e.Name())
	}
	return "[" + strings.Join(n, " ") + "]"
}

func write(path string) string {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path += "/.written"
		defer os.Remove(path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return errno(err)
	}
	f.Close()
	return "ok"
}

// sweep makes each node in turn; its own /dev is the one place a container can always make nodes that open.
func sweep(s report.Sweep) ([]string, error) {
	const dir = "/dev/.sweep"
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.Remove(dir)
	var out []string
	for _, kind := range []struct {
		letter string
		bits   uint32
	}{{"b", unix.S_IFBLK}, {"c", unix.S_IFCHR}} {
		for _, major := range s.Majors {
			for _, minor := range s.Minors {
				may := try(dir+"/node", kind.bits, unix.Mkdev(major, minor))
				if may != "" {
					out = append(out, fmt.Sprintf("%s %d:%d %s", kind.letter, major, minor, may))
				}
			}
		}
	}
	sort.Strings(out)
	return out, nil
}

func try(path string, bits uint32, dev uint64) string {
	if err := unix.Mknod(path, bits|0o666, int(dev)); err != nil {
		return "no node: " + errno(err)
	}
	defer os.Remove(path)
	if may := access(path); may != "none" {
		return may + "m"
	}
	return "" // making a node is allowed for all numbers by default and would only fill the list
}

func errno(err error) string {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return err.Error()
	}
	return unix.ErrnoName(e)
}
