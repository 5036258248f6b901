package trust

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const plainUser = 1234

// needRoot skips where the tree that a test is about cannot be made.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("giving files to other users needs root")
	}
}

// tree is a directory of files that are trusted to begin with.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree {
	t.Helper()
	// The real path: a link on the way to the temporary directory is not the subject.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tree{t, dir}
}

func (x tree) path(name string) string { return filepath.Join(x.dir, name) }

func (x tree) ok(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x tree) mkdir(name string, mode os.FileMode) {
	x.t.Helper()
	x.ok(os.MkdirAll(x.path(name), 0o755))
	x.ok(os.Chmod(x.path(name), mode))
}

func (x tree) file(name string, mode os.FileMode) {
	x.t.Helper()
	x.ok(os.MkdirAll(filepath.Dir(x.path(name)), 0o755))
	x.ok(os.WriteFile(x.path(name), []byte(name), mode))
	x.ok(os.Chmod(x.path(name), mode))
}

func (x tree) link(name, target string) {
	x.t.Helper()
	x.ok(os.MkdirAll(filepath.Dir(x.path(name)), 0o755))
	x.ok(os.Symlink(target, x.path(name)))
}

func (x tree) chown(name string, uid int) {
	x.t.Helper()
	x.ok(os.Lchown(x.path(name), uid, uid))
}

func check(t *testing.T, name string) error {
	t.Helper()
	c := &Checker{}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	first := c.Check(name)
	again := c.Check(name)
	if (first == nil) != (again == nil) || first != nil && first.Error() != again.Error() {
		t.Errorf("the second check of %s says %v, the first %v", name, again, first)
	}
	return first
}

// wantUntrusted checks that err blames a component for a reason.
func wantUntrusted(t *testing.T, err error, component, reason string) {
	t.Helper()
	var untrusted *Error
	if !errors.As(err, &untrusted) {
		t.Fatalf("got %v, want %s not trusted: %s", err, component, reason)
	}
	if untrusted.Component != component {
		t.Errorf("%s is blamed, not %s: %v", untrusted.Component, component, err)
	}
	for _, part := range []string{reason, component, untrusted.Path, untrusted.Fix} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than a line: %q", err)
	}
}

const childVariable = "TRUST_TEST_CHILD"

// inChild reports whether this is the child; the parent runs the calling test again as
// attr says, with value, and returns false.
func inChild(t *testing.T, attr *syscall.SysProcAttr, value string) bool {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{childVariable + "=" + value}
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("child: %v\n%s", err, out)
	}
	return false
}
