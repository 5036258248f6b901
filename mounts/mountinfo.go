package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountID is a mount's id in mountinfo. The kernel reuses ids, but not of a mount that
// a descriptor holds.
type mountID int

// mountIDOf asks statx(2) (STATX_MNT_ID, kernel 5.8), else fdinfo (kernel 3.15).
func mountIDOf(f *os.File) (mountID, error) {
	var stx unix.Statx_t
	err := retry(func() error {
		return unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &stx)
	})
	if err == nil && stx.Mask&unix.STATX_MNT_ID != 0 {
		return mountID(stx.Mnt_id), nil
	}
	return mountIDFromFdinfo(f)
}

func mountIDFromFdinfo(f *os.File) (mountID, error) {
	name := "/proc/thread-self/fdinfo/" + strconv.Itoa(int(f.Fd()))
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			id, err := strconv.Atoi(strings.TrimSpace(value))
			return mountID(id), err
		}
	}
	return 0, fmt.Errorf("%s: no mnt_id", name)
}

// isMountRoot tells whether f is the root of a mount: STATX_ATTR_MOUNT_ROOT (kernel
// 5.8), else by mountinfo.
func isMountRoot(f *os.File) (bool, error) { return isMountRootOr(f, isMountRootByTable) }

func isMountRootOr(f *os.File, byTable func(*os.File) (bool, error)) (bool, error) {
	var stx unix.Statx_t
	err := retry(func() error {
		return unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &stx)
	})
	if err == nil && stx.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	return byTable(f)
}

func isMountRootByTable(f *os.File) (bool, error) {
	all, err := threadMounts()
	if err != nil {
		return false, err
	}
	return all.hasRoot(f)
}

func (t mountTable) hasRoot(f *os.File) (bool, error) {
	m, err := t.of(f)
	if err != nil {
		return false, err
	}
	name, err := os.Readlink(procFd(f))
	return err == nil && name == m.Mountpoint, err
}

// mountTable is the mounts of a namespace in the order of mountinfo.
type mountTable []*mountinfo.Info

// threadMounts reads the mounts of the calling thread's namespace.
func threadMounts() (mountTable, error) {
	f, err := retryFd("/proc/thread-self/mountinfo", func() (int, error) {
		return unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc/thread-self/mountinfo", Err: err}
	}
	defer f.Close()
	return parseMounts(f)
}

// namespaceMounts is the mounts of the namespace that the root is in. It is read once for
// many items: only this process changes them, and what a single file covers (a node, a
// library) has nothing below it and is looked up by nobody. Not so where the container
// runs: there read says how, and it is read for every question.
type namespaceMounts struct {
	table mountTable
	read  func() ([]byte, error)
}

func (n *namespaceMounts) mounts() (mountTable, error) {
	if n.read != nil {
		text, err := n.read()
		if err != nil {
			return nil, err
		}
		return parseMounts(bytes.NewReader(text))
	}
	if n.table == nil {
		t, err := threadMounts()
		if err != nil {
			return nil, err
		}
		n.table = t
	}
	return n.table, nil
}

func parseMounts(r io.Reader) (mountTable, error) {
	all, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	return all, nil
}

var errNoMount = errors.New("its mount is not in mountinfo")

func (t mountTable) of(f *os.File) (*mountinfo.Info, error) {
	id, err := mountIDOf(f)
	if err != nil {
		return nil, err
	}
	m, err := t.byID(id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return m, nil
}

func (t mountTable) byID(id mountID) (*mountinfo.Info, error) {
	for _, m := range t {
		if m.ID == int(id) {
			return m, nil
		}
	}
	return nil, errNoMount
}

func (t mountTable) countOn(name string) (n int) {
	for _, m := range t {
		if m.Mountpoint == name {
			n++
		}
	}
	return n
}

// below lists the visible mounts at or under the directory name that are not themselves
// below another one of the list: cloning each with what is below it covers all.
func (t mountTable) below(name string) []*mountinfo.Info {
	var found []*mountinfo.Info
	under := map[int]bool{}
	for _, m := range t {
		if m.Mountpoint != name && !strings.HasPrefix(m.Mountpoint, strings.TrimSuffix(name, "/")+"/") {
			continue
		}
		if under[m.Parent] {
			under[m.ID] = true
			continue
		}
		if m.Mountpoint == name {
			continue // the target itself: covered, not moved
		}
		under[m.ID] = true
		found = append(found, m)
	}
	return found
}

// hostMounts knows what is mounted on the host as well. It is read only when asked.
type hostMounts struct {
	read  func() ([]byte, error)
	table mountTable
}

func (h *hostMounts) mounts() (mountTable, error) {
	if h.table == nil {
		text, err := h.read()
		if err != nil {
			return nil, err
		}
		t, err := parseMounts(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		h.table = t
	}
	return h.table, nil
}

// hasFilesystem tells whether the filesystem of m (by its device number) is mounted on
// the host.
func (h *hostMounts) hasFilesystem(m *mountinfo.Info) (bool, error) {
	t, err := h.mounts()
	if err != nil {
		return false, err
	}
	for _, hm := range t {
		if hm.Major == m.Major && hm.Minor == m.Minor {
			return true, nil
		}
	}
	return false, nil
}

// hasPeer tells whether a mount of the host is in m's peer group, so that what is
// mounted on m appears there (mount_namespaces(7), "Shared subtrees").
func (h *hostMounts) hasPeer(m *mountinfo.Info) (bool, error) {
	group := sharedGroup(m)
	if group == "" {
		return false, nil
	}
	t, err := h.mounts()
	if err != nil {
		return false, err
	}
	for _, hm := range t {
		if sharedGroup(hm) == group {
			return true, nil
		}
	}
	return false, nil
}

func sharedGroup(m *mountinfo.Info) string {
	for field := range strings.FieldsSeq(m.Optional) {
		if strings.HasPrefix(field, "shared:") {
			return field
		}
	}
	return ""
}
