package oci

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStartTime(t *testing.T) {
	fields := " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21\n"
	for name, c := range map[string]struct {
		stat string
		want uint64
		err  error
	}{
		"plain":           {"7 (sh) S" + fields, 4242, nil},
		"hostile":         {"7 (a) Z 1 (b)) S" + fields, 4242, nil},
		"newline in it":   {"7 (a\n) R) D" + fields, 4242, nil},
		"empty name":      {"7 () S" + fields, 4242, nil},
		"zombie":          {"7 (sh) Z" + fields, 0, unix.ESRCH},
		"dead":            {"7 (sh) X" + fields, 0, unix.ESRCH},
		"a name like one": {"7 (Z) S" + fields, 4242, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if have, err := startTime(c.stat); have != c.want || !errors.Is(err, c.err) {
				t.Errorf("%d, %v", have, err)
			}
		})
	}
	for _, stat := range []string{"", "7", "7 (sh", "7 (sh)", "7 (sh) S 1 2 3", "7 (sh) S" + strings.Replace(fields, "4242", "x", 1)} {
		if _, err := startTime(stat); err == nil {
			t.Errorf("stat %q was taken", stat)
		}
	}
}

func TestIDMap(t *testing.T) {
	m, err := ParseIDMap("         0     100000      10\n        10          5          1\n4294967295 7 1\n\n")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint32]int64{0: 100000, 9: 100009, 10: 5, 11: -1, 4294967295: 7, 4294967294: -1} {
		host, ok := m.ToHost(id)
		if ok != (want >= 0) || ok && int64(host) != want {
			t.Errorf("id %d is %d %v, want %d", id, host, ok, want)
		}
	}
	if _, ok := IDMap(nil).ToHost(0); ok {
		t.Error("an empty map maps")
	}
	whole, err := ParseIDMap("0 0 4294967295")
	if id, ok := whole.ToHost(4294967294); err != nil || !ok || id != 4294967294 {
		t.Error(whole, err)
	}
	for _, text := range []string{"0", "0 1", "0 1 2 3", "a 0 1", "-1 0 1", "0 0 4294967296"} {
		if m, err := ParseIDMap(text); err == nil {
			t.Errorf("%q gave %v", text, m)
		}
	}
}

func TestOpenProcess(t *testing.T) {
	p, err := OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, kind := range []string{"mnt", "pid", "user", "net"} {
		if shared, err := p.SharesNamespace(kind); err != nil || !shared {
			t.Errorf("own %s namespace: %v %v", kind, shared, err)
		}
		f, err := p.Namespace(kind)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if _, err := p.Namespace("nonsense"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if pid, err := p.InnerPid(); err != nil || pid != os.Getpid() {
		t.Errorf("inner pid %d %v", pid, err)
	}
	if p.Owns(os.Getpid()) {
		t.Error("a process of the caller's pid namespace owns others there")
	}
}

// A descriptor of a process that has ended speaks of no other, whatever its pid is by now.
func TestDeadProcess(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in.Close()
	// A zombie is dead as well: it is one until Wait.
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenProcess(p.Pid); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a zombie: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenProcess(p.Pid); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a dead process: %v", err)
	}
	if text, err := p.Read("status"); err == nil {
		t.Errorf("a dead process has a status: %s", text)
	}
	if _, err := p.SharesNamespace("mnt"); err == nil {
		t.Error("a dead process has a namespace")
	}
}

func TestInUserNamespace(t *testing.T) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	initial := strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
	if InUserNamespace() == initial {
		t.Errorf("in a user namespace: %v, with uid_map %s", InUserNamespace(), text)
	}
}

func TestBootID(t *testing.T) {
	id, err := BootID()
	if err != nil || len(id) != 36 {
		t.Errorf("%q %v", id, err)
	}
}
