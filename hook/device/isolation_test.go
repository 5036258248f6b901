package device

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// errorOf returns the listed error of a file.
func errorOf(l *Listing, path string) string {
	for _, e := range l.Errors {
		if e.Path == path {
			return e.Reason()
		}
	}
	return ""
}

func TestOneBadFileHidesNoOther(t *testing.T) {
	dir := writeSpecs(t, map[string]string{
		"a-null.yaml":     specWith("0.6.0", "{deviceNodes: [null]}"),
		"b-mounts.yaml":   specWith("0.6.0", "{mounts: [null]}"),
		"c-broken.json":   "{",
		"d-empty.yaml":    "",
		"e-binary.yaml":   "\x00\x01\x02",
		"f-future.yaml":   specWith("1.2.0", "{env: [A=1]}"),
		"m-good.yaml":     specFor("good", "good"),
		"sub/x.yaml":      specFor("sub", "sub"),
		"sub.yaml/x.yaml": specFor("sub", "sub"),
		"z-null.yaml":     specWith("0.6.0", "{hooks: [null]}"),
	})
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(path("g-fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // a socket's path is short
	l, err := net.Listen("unix", "h-socket.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, target := range map[string]string{
		"i-dangling.yaml": "nowhere", "j-null.yaml": "/dev/null", "k-dir.yaml": "sub", "l-fifo.yaml": "g-fifo.yaml",
	} {
		if err := os.Symlink(target, path(name)); err != nil {
			t.Fatal(err)
		}
	}
	big, err := os.Create(path("l-big.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	if err := big.Truncate(maxSpecSize + 1); err != nil {
		t.Fatal(err)
	}

	r := Registry{Dirs: []string{dir}}
	mustResolve(t, r, "v.example/dev=good")
	listing := r.List()
	if len(listing.Devices) != 1 {
		t.Errorf("devices: %+v", listing.Devices)
	}
	want := map[string]string{
		"a-null.yaml": "device a: null device node", "b-mounts.yaml": "device a: null mount", "c-broken.json": "yaml:",
		"d-empty.yaml": "EOF", "e-binary.yaml": "control characters", "f-future.yaml": `invalid version "1.2.0"`,
		"g-fifo.yaml": "not a regular file but a fifo", "h-socket.yaml": "not a regular file but a socket",
		"i-dangling.yaml": "no such file", "j-null.yaml": "not a regular file but a device",
		"k-dir.yaml": "not a regular file but a directory", "l-fifo.yaml": "not a regular file but a fifo",
		"l-big.yaml": "larger than 16 MiB", "z-null.yaml": "hook",
	}
	for name, reason := range want {
		wantIn(t, errorOf(listing, path(name)), reason)
	}
	if len(listing.Errors) != len(want) {
		t.Errorf("%d errors, want %d: %+v", len(listing.Errors), len(want), listing.Errors)
	}
	e := refused(t, r, "v.example/dev=x")
	wantIn(t, e.Error(), "g-fifo.yaml", "z-null.yaml", "i-dangling.yaml")
}

func TestSpecFileMayBeALink(t *testing.T) {
	elsewhere := writeSpecs(t, map[string]string{"real": specFor("real", "x")})
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(elsewhere, "real"), filepath.Join(dir, "x.yaml")); err != nil {
		t.Fatal(err)
	}
	res := mustResolve(t, Registry{Dirs: []string{dir}}, "v.example/dev=x")
	if want := filepath.Join(dir, "x.yaml"); res.Edits[0].SpecPath != want {
		t.Errorf("spec path %s, want %s", res.Edits[0].SpecPath, want)
	}
}

func TestUnreadableFile(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	dir := writeSpecs(t, map[string]string{"secret.yaml": specFor("secret", "x"), "good.yaml": specFor("good", "good")})
	if err := os.Chmod(filepath.Join(dir, "secret.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	r := Registry{Dirs: []string{dir}}
	mustResolve(t, r, "v.example/dev=good")
	e := refused(t, r, "v.example/dev=x")
	wantIn(t, e.Error(), "secret.yaml", "permission denied")
	if !errors.Is(e, fs.ErrPermission) {
		t.Error("the error is not fs.ErrPermission")
	}
}

func TestUnreadableDirectory(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	secret := writeSpecs(t, map[string]string{"a.yaml": specFor("secret", "y")})
	good := writeSpecs(t, map[string]string{"b.yaml": specFor("good", "x")})
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(secret, 0o700) })
	r := Registry{Dirs: []string{secret, good}}
	mustResolve(t, r, "v.example/dev=x")
	wantIn(t, refused(t, r, "v.example/dev=y").Error(), secret+" (open: permission denied)", good)
	wantIn(t, errorOf(r.List(), secret), "permission denied")
}

func TestDirectoryIsAFile(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"file": "", "x.yaml": specFor("x", "x")})
	r := Registry{Dirs: []string{filepath.Join(dir, "file"), dir}}
	mustResolve(t, r, "v.example/dev=x")
	wantIn(t, refused(t, r, "v.example/dev=y").Error(), "file (open: not a directory)")
}

func TestNoDescriptorIsLeft(t *testing.T) {
	before := openDescriptors(t)
	dir := writeSpecs(t, map[string]string{"a.yaml": specFor("a", "a"), "b.yaml": specWith("0.6.0", "{deviceNodes: [null]}"), "c.json": "{"})
	if err := unix.Mkfifo(filepath.Join(dir, "f.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := Registry{Dirs: []string{dir, "/no/such"}}
	for range 10 {
		_, _ = r.Resolve([]string{"v.example/dev=a"})
		_, _ = r.Resolve([]string{"v.example/dev=none"})
		r.List()
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestErrorsAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("%03d.yaml", i)] = specWith("0.6.0", "{\""+strings.Repeat("x", 4000)+"\": 1}")
	}
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("v.example/dev=%d%s", i, strings.Repeat("y", 2000)))
	}
	e := refused(t, Registry{Dirs: []string{writeSpecs(t, files)}}, names...)
	if len(e.Items) != 200 || len(e.Files) != 200 {
		t.Errorf("%d items, %d files", len(e.Items), len(e.Files))
	}
}
