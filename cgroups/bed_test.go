package cgroups

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Tests with a real kernel: a thread of its own, never given back, has a mount namespace
// with a fresh cgroup mount and device nodes. Nothing of it is seen outside but the
// cgroups themselves, which are removed.

const probeEnv = "OCI_CDI_HOOK_CGROUPS_PROBE"

func TestMain(m *testing.M) {
	if procs := os.Getenv(probeEnv); procs != "" {
		os.Exit(probe(procs, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// probe joins a cgroup and says for each node how opening it for reading went.
func probe(procs string, nodes []string) int {
	say := func(what any) {
		fmt.Println(what) //nolint:forbidigo // this process is all about its answer on stdout
	}
	if err := os.WriteFile(procs, []byte("0"), 0); err != nil {
		say(err)
		return 1
	}
	for _, node := range nodes {
		fd, err := unix.Open(node, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		var errno unix.Errno
		if errors.As(err, &errno) {
			say(unix.ErrnoName(errno))
			continue
		}
		unix.Close(fd)
		say("ok")
	}
	return 0
}

// bed is one cgroup of one version, below a parent of its own.
type bed struct {
	t       *testing.T
	mount   string
	parent  string
	cgroup  string
	devices string
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("no root: not tested are real cgroups and BPF programs")
	}
}

func newBed(t *testing.T, v Version) *bed {
	t.Helper()
	needRoot(t)
	runtime.LockOSThread() // for good: the thread ends with the test
	must(t, unix.Unshare(unix.CLONE_NEWNS))
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	b := &bed{t: t, mount: t.TempDir(), devices: t.TempDir()}
	kind, data := "cgroup2", ""
	if v == V1 {
		kind, data = "cgroup", "devices"
	}
	if err := unix.Mount("none", b.mount, kind, 0, data); err != nil {
		if v == V1 && !hasV1() {
			t.Skipf("this kernel has no cgroup v1 devices hierarchy to mount: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(b.mount, unix.MNT_DETACH)) })
	must(t, unix.Mount("none", b.devices, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(b.devices, 0)) })
	b.parent = b.mkdir(filepath.Join(b.mount, fmt.Sprintf("cgroups-test-%d", os.Getpid())))
	b.cgroup = b.mkdir(filepath.Join(b.parent, "container"))
	return b
}

// hasV1 says that the devices controller is there for v1: not bound to the unified one.
func hasV1() bool {
	data, _ := os.ReadFile("/proc/cgroups")
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); f[0] == "devices" {
			return f[1] != "0"
		}
	}
	return false
}

func (b *bed) mkdir(path string) string {
	b.t.Helper()
	must(b.t, os.Mkdir(path, 0o755))
	b.t.Cleanup(func() {
		// A process that has just ended may still be counted.
		for {
			err := os.Remove(path)
			if err == nil || os.IsNotExist(err) {
				return
			}
			if !strings.Contains(err.Error(), unix.EBUSY.Error()) {
				b.t.Error(err)
				return
			}
			runtime.Gosched()
		}
	})
	return path
}

func (b *bed) open(path string) *Cgroup {
	b.t.Helper()
	c, err := Open(path)
	must(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	return c
}

// opens runs a process in the cgroup that opens these "c MAJOR:MINOR" for reading.
func (b *bed) opens(cgroup string, devices ...string) string {
	b.t.Helper()
	var nodes []string
	for _, d := range devices {
		nodes = append(nodes, b.node(d))
	}
	cmd := exec.Command("/proc/self/exe", nodes...)
	// The race detector would let each end a second later.
	cmd.Env = []string{probeEnv + "=" + filepath.Join(cgroup, "cgroup.procs"), "GORACE=atexit_sleep_ms=0"}
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("probe: %v: %s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

func (b *bed) node(device string) string {
	b.t.Helper()
	var major, minor uint32
	_, err := fmt.Sscanf(device, "c %d:%d", &major, &minor)
	must(b.t, err)
	path := filepath.Join(b.devices, fmt.Sprintf("c-%d-%d", major, minor))
	err = unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor)))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		b.t.Fatal(err)
	}
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// load makes a program of assembled instructions, by the library's loader, not ours.
func load(t *testing.T, code asm.Instructions) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "theirs", Type: ebpf.CGroupDevice, Instructions: code, License: "Apache"})
	must(t, err)
	t.Cleanup(func() { prog.Close() })
	return prog
}

// assembled turns instructions of the library into ours.
func assembled(t testing.TB, code asm.Instructions) []insn {
	t.Helper()
	var raw bytes.Buffer
	if err := code.Marshal(&raw, byteOrder()); err != nil {
		t.Fatal(err)
	}
	return decode(raw.Bytes())
}
