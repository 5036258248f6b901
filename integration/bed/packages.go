package bed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Packages are what `make packages` makes of one version.
type Packages struct{ Deb, Rpm string }

// MakePackages makes them in a copy of the tree, with whatever else the environment says. It does so outside the bed: Go may have to fetch
// modules, and the bed's /run may lack what the machine finds names of hosts with.
func MakePackages(t *testing.T, version, umask string, env ...string) Packages {
	t.Helper()
	dir := t.TempDir()
	const script = `umask "$1" && tar -C .. -c --exclude=./bin --exclude=./.git . | tar -C "$2" -x && make -C "$2" packages VERSION="$3" COMMIT=none`
	c := exec.Command("nsenter", "--target", fmt.Sprint(os.Getppid()), "--mount", "--wd=.", "--", "sh", "-e", "-c", script, "sh", umask, dir, version)
	c.Env = append(os.Environ(), append(env, "GO=go", "MAKEFLAGS=")...)
	if err := output(c); err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(dir, "bin", pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s %s: %q %v", version, pattern, found, err)
		}
		return found[0]
	}
	p := Packages{find("*.deb"), find("*.rpm")}
	for _, file := range []string{p.Deb, p.Rpm} {
		if !strings.Contains(file, strings.TrimPrefix(version, "v")) {
			t.Errorf("%s is not named after %s", file, version)
		}
	}
	return p
}

// Copy brings a file into the system.
func (x *Trixie) Copy(from, to string, mode os.FileMode) {
	x.t.Helper()
	if err := os.MkdirAll(filepath.Dir(x.Path(to)), 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := copyFile(from, x.Path(to), mode); err != nil {
		x.t.Fatal(err)
	}
}
