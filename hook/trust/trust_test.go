package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTrusted(t *testing.T) {
	x := newTree(t)
	x.file("dir/file", 0o644)
	x.file("dir/private", 0o400)
	x.mkdir("sticky", 0o777|os.ModeSticky)
	x.file("sticky/file", 0o755)
	x.link("sticky/link", "../dir/file")
	x.link("abs", x.path("dir"))
	x.link("chain", "abs/../chain2")
	x.link("chain2", "./dir//file")
	x.link("up", "../../../../../../../../../.."+x.path("dir/file"))
	for _, name := range []string{"dir", "dir/file", "dir/private", "dir/../dir/./file", "dir//file", "sticky", "sticky/file",
		"sticky/link", "abs", "abs/file", "chain", "up"} {
		if err := check(t, x.dir+"/"+name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"/", "/..", "/proc/self/status"} {
		if err := check(t, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWritableByOthers(t *testing.T) {
	tests := []struct {
		mode   os.FileMode
		reason string
		fix    string
	}{
		{0o664, "writable by group", "chmod g-w "},
		{0o666, "writable by everybody", "chmod go-w "},
		{0o646, "writable by everybody", "chmod o-w "},
		{0o666 | os.ModeSticky, "writable by everybody", "chmod go-w "}, // means nothing for files
		{0o620, "writable by group", "chmod g-w "},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v", tt.mode), func(t *testing.T) {
			x := newTree(t)
			x.file("file", tt.mode)
			err := check(t, x.path("file"))
			wantUntrusted(t, err, x.path("file"), tt.reason)
			wantUntrusted(t, err, x.path("file"), tt.fix+x.path("file"))
			x.mkdir("way", 0o755)
			x.file("way/in/file", 0o644)
			x.mkdir("way", tt.mode&0o777|0o111)
			wantUntrusted(t, check(t, x.path("way/in/file")), x.path("way"), tt.reason)
			wantUntrusted(t, check(t, x.path("way/in")), x.path("way"), tt.reason)
			wantUntrusted(t, check(t, x.path("way")), x.path("way"), tt.reason)
			wantUntrusted(t, check(t, x.path("way/missing")), x.path("way"), tt.reason)
			wantUntrusted(t, check(t, x.dir+"/way/.."), x.path("way"), tt.reason)
		})
	}
}

func TestOwnedByAPlainUser(t *testing.T) {
	needRoot(t)
	x := newTree(t)
	x.file("cdi/theirs.yaml", 0o644)
	x.chown("cdi/theirs.yaml", plainUser)
	x.file("cdi/ours.yaml", 0o644)
	x.mkdir("home", 0o755)
	x.file("home/user/spec.yaml", 0o644)
	x.chown("home/user", plainUser)
	x.link("cdi/into-home.yaml", "../home/user/spec.yaml")
	x.link("cdi/dir-into-home", x.path("home/user"))
	x.link("cdi/theirs-link.yaml", "ours.yaml")
	x.chown("cdi/theirs-link.yaml", plainUser)
	x.mkdir("sticky", 0o777|os.ModeSticky)
	x.link("sticky/link.yaml", "../cdi/ours.yaml")
	x.chown("sticky/link.yaml", plainUser)
	x.file("sticky/file.yaml", 0o644)
	x.chown("sticky/file.yaml", plainUser)

	tests := []struct{ name, blamed string }{
		{"cdi/theirs.yaml", "cdi/theirs.yaml"},
		{"cdi/into-home.yaml", "home/user"},
		{"cdi/dir-into-home/spec.yaml", "home/user"},
		{"cdi/dir-into-home", "home/user"},
		{"home/user/../../cdi/ours.yaml", "home/user"},
		{"cdi/theirs-link.yaml", "cdi/theirs-link.yaml"},
		{"sticky/link.yaml", "sticky/link.yaml"},
		{"sticky/file.yaml", "sticky/file.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := check(t, x.dir+"/"+tt.name)
			wantUntrusted(t, err, x.path(tt.blamed), "owned by uid 1234, not by root (mode 0")
			mend := "chown -h root " + x.path(tt.blamed)
			if strings.Contains(tt.name, "into-home") {
				mend = "let no link on the way" // the home is right as it is
			}
			wantUntrusted(t, err, x.path(tt.blamed), mend)
		})
	}
	if err := check(t, x.path("cdi/ours.yaml")); err != nil {
		t.Error(err)
	}
}

// TestACL shows why ACLs need no look of their own.
func TestACL(t *testing.T) {
	x := newTree(t)
	x.file("file", 0o644)
	const named, mask = 0x02, 0x10
	entries := []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 6, ^uint32(0)}, {named, 6, plainUser}, {0x04, 4, ^uint32(0)}, {mask, 6, ^uint32(0)}, {0x20, 4, ^uint32(0)}}
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	err := unix.Setxattr(x.path("file"), "system.posix_acl_access", acl, 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("the temporary directory's filesystem has no POSIX ACLs")
	}
	x.ok(err)
	wantUntrusted(t, check(t, x.path("file")), x.path("file"), "writable by group")
}

func TestNoPath(t *testing.T) {
	x := newTree(t)
	x.file("file", 0o644)
	x.ok(unix.Mkfifo(x.path("fifo"), 0o600))
	x.link("loop", "loop")
	x.link("dangling", "nowhere")
	long := x.path("file")
	for i := range 41 {
		name := fmt.Sprintf("link%d", i)
		x.link(name, long)
		long = x.path(name)
	}
	tests := []struct {
		name string
		want error
		text string
	}{
		{x.path("missing"), os.ErrNotExist, ""},
		{x.path("missing/more"), os.ErrNotExist, ""},
		{x.path("dangling"), os.ErrNotExist, ""},
		{x.path("file/more"), unix.ENOTDIR, ""},
		{x.dir + "/file/..", unix.ENOTDIR, ""},
		{x.path("loop"), unix.ELOOP, ""},
		{long, unix.ELOOP, ""},
		{x.path("fifo"), nil, "neither a regular file nor a directory"},
		{"", nil, "not an absolute path"},
		{"etc/passwd", nil, "not an absolute path"},
		{"/dev/null", nil, "neither a regular file nor a directory"},
		{"/a\x00b", unix.EINVAL, ""},
	}
	for _, tt := range tests {
		err := check(t, tt.name)
		var untrusted *Error
		switch {
		case err == nil || errors.As(err, &untrusted) && tt.name != "/dev/null":
			t.Errorf("%q: %v", tt.name, err)
		case tt.want != nil && !errors.Is(err, tt.want):
			t.Errorf("%q: %v, want %v", tt.name, err, tt.want)
		case untrusted == nil && !strings.Contains(err.Error(), tt.text):
			t.Errorf("%q: %v, want %q", tt.name, err, tt.text)
		}
	}
	if err := check(t, x.path("link39")); err != nil {
		t.Errorf("40 links, as the kernel allows: %v", err)
	}
}

func TestOpen(t *testing.T) {
	x := newTree(t)
	x.file("dir/file", 0o644)
	x.link("link", "dir/file")
	c := &Checker{}
	defer c.Close()
	f, err := c.Open(x.path("link"))
	x.ok(err)
	defer f.Close()
	content := make([]byte, 64)
	if n, err := f.Read(content); string(content[:n]) != "dir/file" {
		t.Errorf("read %q, %v", content[:n], err)
	}
	dir, err := c.Open(x.path("dir"))
	x.ok(err)
	defer dir.Close()
	if names, err := dir.Readdirnames(-1); len(names) != 1 {
		t.Errorf("names %v, %v", names, err)
	}
	x.file("loose", 0o666)
	if _, err := c.Open(x.path("loose")); err == nil {
		t.Error("opened a file that is not trusted")
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	x := newTree(t)
	x.file("dir/file", 0o644)
	x.file("loose", 0o666)
	x.link("link", "dir/file")
	x.link("loop", "loop")
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		x.ok(err)
		return len(entries)
	}
	before := count()
	for range 10 {
		for _, name := range []string{"dir", "dir/file", "dir/file/x", "loose", "link", "loop", "missing"} {
			_ = check(t, x.path(name))
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestFixesAreForAShell(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"/etc/cdi/a-b_c.yaml", "/etc/cdi/a-b_c.yaml"},
		{"/etc/$(reboot)", `'/etc/$(reboot)'`},
		{"/etc/it's", `'/etc/it'\''s'`},
		{"/etc/a b", `"/etc/a b"`},
		{"/etc/\x1b[31m", `"/etc/\x1b[31m"`},
		{"/etc/a\nb", `"/etc/a\nb"`},
	} {
		if got := quoted(tt.name); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestMapsAll(t *testing.T) {
	for _, tt := range []struct {
		uidMap string
		want   bool
	}{
		{"         0          0 4294967295\n", true},
		{"         0       1000          1\n", false},
		{"         0       1000          1\n         1     100000      65536\n", false},
		{"", false},
	} {
		if got := mapsAll(tt.uidMap); got != tt.want {
			t.Errorf("%q: %v", tt.uidMap, got)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c := &Checker{}
	defer c.Close()
	for b.Loop() {
		if err := c.Check("/etc/passwd"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckOnce(b *testing.B) {
	for b.Loop() {
		c := &Checker{}
		if err := c.Check("/etc/passwd"); err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}
