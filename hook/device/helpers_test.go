package device

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"
)

// writeSpecs writes files, by name, into a new directory and returns it.
func writeSpecs(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// specFor returns a spec of kind v.example/dev that sets SRC for each device.
func specFor(src string, names ...string) string {
	var b strings.Builder
	b.WriteString("cdiVersion: 0.6.0\nkind: v.example/dev\ndevices:\n")
	for _, name := range names {
		b.WriteString("- name: \"" + name + "\"\n  containerEdits: {env: [SRC=" + src + "]}\n")
	}
	return b.String()
}

// specWith returns a spec of kind v.example/dev whose device a has the edits.
func specWith(version, edits string) string {
	return "cdiVersion: " + version + "\nkind: v.example/dev\ndevices:\n- name: a\n  containerEdits: " + edits + "\n"
}

func mustResolve(t *testing.T, r Registry, names ...string) *Resolution {
	t.Helper()
	res, err := r.Resolve(names)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// refused resolves names that must not resolve and returns the error.
func refused(t *testing.T, r Registry, names ...string) *RequestError {
	t.Helper()
	res, err := r.Resolve(names)
	var refusal *RequestError
	if !errors.As(err, &refusal) {
		t.Fatalf("Resolve(%q) = %v, %v, want a RequestError", names, res, err)
	}
	if res != nil {
		t.Errorf("Resolve(%q) returned a resolution beside its error", names)
	}
	checkLine(t, refusal.Error())
	return refusal
}

// checkLine checks what every error promises: one printable, bounded line.
func checkLine(t *testing.T, line string) {
	t.Helper()
	if len(line) > maxLine {
		t.Errorf("error of %d bytes", len(line))
	}
	for _, r := range line {
		if !unicode.IsPrint(r) {
			t.Errorf("error has %q: %q", r, line)
			return
		}
	}
}

func wantIn(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in %q", w, text)
		}
	}
}

func wantNotIn(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(text, w) {
			t.Errorf("%q is in %q", w, text)
		}
	}
}

func wantEqual[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

const childVariable = "DEVICE_TEST_UNPRIVILEGED"

// unprivileged reports whether the test runs without root. Where it does not,
// it runs the calling test again as an unprivileged child and returns false.
func unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	if os.Getenv(childVariable) != "" {
		t.Fatal("the child still runs as root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{childVariable + "=1", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as uid 65534: %v\n%s", err, out)
	}
	return false
}
