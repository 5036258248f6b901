package vendor

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func fmtInt(n int) string { return strconv.Itoa(n) }

func TestNsenterArguments(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	n, err := NewNsenter([]string{"/none/nsenter", "/etc", "/bin/sh"}, map[string]*os.File{"mount": null, "user": null, "pid": nil, "uts": null})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	cmd := exec.Command("/vendor/hook")
	cmd.Args, cmd.Dir = []string{"name", "--an", "argument"}, "/bundle"
	n.wrap(cmd)
	want := []string{
		"nsenter", "--user=/proc/self/fd/3", "--mount=/proc/self/fd/4", "--uts=/proc/self/fd/5",
		"--", "/proc/self/fd/6", ExecVerb, "/bundle", "/vendor/hook", "name", "--an", "argument",
	}
	if !slices.Equal(cmd.Args, want) || cmd.Path != "/bin/sh" || cmd.Dir != "/" || len(cmd.ExtraFiles) != 4 {
		t.Errorf("%s in %s: %q, %d files", cmd.Path, cmd.Dir, cmd.Args, len(cmd.ExtraFiles))
	}
}

// execAs runs the second half of the way into a user namespace, as some user.
func execAs(t *testing.T, uid uint32, args ...string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{ExecVerb}, args...)...)
	cmd.Env = []string{"A=1"}
	cmd.Dir = "/"
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

func TestExec(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if have := execAs(t, 0, dir, "/bin/sh", "a name", "-c", "pwd; echo $0 $#; echo $A"); have != dir+"\na name 0\n1\n" {
		t.Errorf("%q", have)
	}
	for want, args := range map[string][]string{
		"usage: DIR PROGRAM ARG0 [ARG...]": {dir, "/bin/sh"},
		"chdir " + dir + "/none: no such":  {dir + "/none", "/bin/sh", "sh"},
		"/none/x: no such file":            {dir, "/none/x", "x"},
		dir + ": permission denied":        {dir, dir, "x"},
	} {
		if have := execAs(t, 0, args...); !strings.Contains(have, want) {
			t.Errorf("%q, want %q", have, want)
		}
	}
}

// The container's root may not be able to enter the bundle.
func TestExecWhereTheBundleIsClosed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: becoming another user")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if have := execAs(t, 65534, dir, "/bin/sh", "sh", "-c", "pwd"); have != "/\n" {
		t.Errorf("%q", have)
	}
}
