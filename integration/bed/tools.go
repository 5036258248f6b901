package bed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Names in the tools directory.
const (
	toolProbe     = "probe"
	toolHook      = "vendorhook"
	toolStepper   = "stepper"
	toolPreload   = "nolimit.so"
	toolRunc      = "runc"
	toolCTK       = "nvidia-ctk"
	toolNvidia    = "nvidia-cdi-hook"
	toolHooksLoad = "hooks"
)

var toolNames = []string{toolProbe, toolHook, toolStepper, toolPreload, toolRunc, toolCTK, toolNvidia, toolHooksLoad}

// peer is a program of another project, in a Go module of its own so that nothing of it reaches this one's go.mod.
type peer struct {
	module string // folder under peers
	cgo    bool
	pkgs   []string
}

var peers = []peer{
	{"runc", true, []string{"github.com/opencontainers/runc"}},
	{"nvidia", true, []string{"github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk", "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook"}},
	{"hooks", false, []string{"."}},
}

// Tool is the path of a built program, in the bed.
func Tool(name string) string { return filepath.Join(bin, name) }

// buildTools builds what the tests need into the cache and returns the folder.
func buildTools() (string, error) {
	dir := filepath.Join(cacheDir(), "integration")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, p := range peers {
		if err := p.build(dir); err != nil {
			return "", err
		}
	}
	for _, name := range []string{toolProbe, toolHook, toolStepper} {
		if err := goBuild(".", filepath.Join(dir, name), false, "./"+name); err != nil {
			return "", err
		}
	}
	return dir, buildPreload(filepath.Join(dir, toolPreload))
}

func cacheDir() string {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" && os.Getenv("HOME") != "" {
		base = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	if base == "" {
		base = "/var/tmp"
	}
	return filepath.Join(base, "oci-cdi-hook")
}

// build does nothing while go.mod, go.sum, the peer's own code and the compiler are those of the last time.
func (p peer) build(dir string) error {
	src := filepath.Join("peers", p.module)
	stamp, err := stampOf(src)
	if err != nil {
		return err
	}
	mark := filepath.Join(dir, p.module+".stamp")
	if old, err := os.ReadFile(mark); err == nil && string(old) == stamp {
		return nil
	}
	for _, pkg := range p.pkgs {
		name := filepath.Base(pkg)
		if pkg == "." {
			name = p.module
		}
		fmt.Fprintf(os.Stderr, "integration: building %s, once\n", name)
		if err := goBuild(src, filepath.Join(dir, name), p.cgo, pkg); err != nil {
			return err
		}
	}
	return os.WriteFile(mark, []byte(stamp), 0o644)
}

func stampOf(src string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version())
	files, err := filepath.Glob(filepath.Join(src, "*"))
	if err != nil {
		return "", err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(f), len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func goBuild(dir, out string, cgo bool, pkg string) error {
	abs, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", abs, pkg)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if cgo {
		c.Env = append(c.Env, "CGO_ENABLED=1", "CGO_CFLAGS=-Wno-deprecated-declarations -O2")
	}
	return output(c)
}

// buildPreload makes the library that lets crun 1.8 start without CAP_SYS_RESOURCE: on cgroup v2 it raises RLIMIT_MEMLOCK, which kernels
// have not needed since 5.11, and dies when it may not.
func buildPreload(out string) error {
	const code = "int setrlimit(int r, const void *l) { return 0; }\n"
	c := exec.Command("gcc", "-shared", "-fPIC", "-w", "-x", "c", "-o", out, "-")
	c.Stdin = strings.NewReader(code)
	return output(c)
}

func output(c *exec.Cmd) error {
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, b.String())
	}
	return nil
}

func copyFile(from, to string, mode os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}
