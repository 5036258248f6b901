package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Exchange swaps two names in one step, as an attacker does (renameat2(2), RENAME_EXCHANGE).
func Exchange(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// RawMounts are the lines of the container's mountinfo, ids and all.
func (h *Held) RawMounts() []string {
	h.b.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", h.State.Pid))
	h.b.must(err)
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// Unmount takes mounts away again, lines of RawMounts, the last first.
func (h *Held) Unmount(lines []string) {
	h.b.t.Helper()
	if len(lines) == 0 {
		return
	}
	argv := []string{"nsenter", "--mount", "--target", strconv.Itoa(h.State.Pid), ToolBusybox, "umount", "-l"}
	for _, line := range slices.Backward(lines) {
		argv = append(argv, unescape(strings.Fields(line)[4]))
	}
	// a process of its own: a thread that has been in another namespace could not stay, and would take the containers that it started along
	if res := Run(h.b.t, "", nil, argv...); res.Refused() {
		h.b.t.Fatalf("%v: %s", argv, res.Stderr)
	}
}

// unescape turns mountinfo's octal escapes back (proc_pid_mountinfo(5)).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// Sweep removes from the rootfs what is not among the names.
func (b *Bundle) Sweep(names map[string]bool) {
	b.t.Helper()
	for name := range b.Names() {
		if !names[name] {
			b.must(os.RemoveAll(filepath.Join(b.Rootfs, name)))
		}
	}
}

// Names are all names below the rootfs.
func (b *Bundle) Names() map[string]bool { return namesBelow(b.t, b.Rootfs) }

func namesBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // swept with what it was in
		}
		out[strings.TrimPrefix(path, dir)] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// RemoveRecords makes the hook forget what it did.
func RemoveRecords(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(StateDir); err != nil {
		t.Fatal(err)
	}
}
