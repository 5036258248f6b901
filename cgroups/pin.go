package cgroups

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// pinTemporary ends the name that a program has before it takes its place: bpffs has no
// names with dots (bpf_lookup in kernel/bpf/inode.c).
const pinTemporary = "_oci_cdi_hook"

type objectAttr struct {
	path uint64
	fd   uint32
	_    uint32 // file_flags: none
}

func getPinned(name string) (*os.File, error) {
	fd, err := object(unix.BPF_OBJ_GET, name, 0)
	if err != nil {
		return nil, fmt.Errorf("bpf(OBJ_GET) of %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), "BPF program at "+name), nil
}

func object(cmd uintptr, name string, fd uint32) (int, error) {
	path, err := unix.ByteSliceFromString(name)
	if err != nil {
		return -1, err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	return bpf(cmd, &objectAttr{path: pointer(&pin, &path[0]), fd: fd})
}

// pinOver puts a program in the place of the one that is pinned, without a moment in
// which there is none.
func pinOver(prog *os.File, name string) error {
	temporary := name + pinTemporary
	_ = unix.Unlink(temporary) // of a process that was killed in between
	_, err := object(unix.BPF_OBJ_PIN, temporary, uint32(prog.Fd()))
	runtime.KeepAlive(prog)
	if err != nil {
		return fmt.Errorf("bpf(OBJ_PIN) of %s: %w", temporary, err)
	}
	if err := unix.Rename(temporary, name); err != nil {
		return errors.Join(&os.LinkError{Op: "rename", Old: temporary, New: name, Err: err}, unix.Unlink(temporary))
	}
	return nil
}

// AllowPinned does to a device program that is pinned in bpffs what Allow does to those
// that are attached: who attaches it later from there attaches one that allows the rules.
// The path is trusted. A pin that is gone has no more use, for either call.
func AllowPinned(name string, rules []Rule, opts Options) (Undo, error) {
	return allowPinned(syscalls{}, filepath.Clean(name), rules, opts)
}

func allowPinned(k kernel, name string, rules []Rule, opts Options) (Undo, error) {
	if err := validate(rules); err != nil {
		return noUndo, err
	}
	old, err := getPinned(name)
	if errors.Is(err, unix.ENOENT) {
		return noUndo, nil
	}
	if err != nil {
		return noUndo, err
	}
	next, err := builder{kernel: k, rules: rules, opts: opts, alone: true}.replacement(old)
	if err != nil || next == nil {
		if err := errors.Join(err, old.Close()); err != nil {
			return noUndo, fmt.Errorf("pinned program %s: %w", name, err)
		}
		return noUndo, nil
	}
	if err := pinOver(next, name); err != nil {
		return noUndo, errors.Join(err, next.Close(), old.Close())
	}
	return once(func() error {
		defer old.Close()
		defer next.Close()
		return unpin(k, name, next, old)
	}), nil
}

// unpin puts the old program back where ours is still the one that is pinned.
func unpin(k kernel, name string, ours, old *os.File) error {
	now, err := getPinned(name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer now.Close()
	theirs, err1 := k.inspect(now)
	mine, err2 := k.inspect(ours)
	if err := errors.Join(err1, err2); err != nil || theirs.id != mine.id {
		return err
	}
	return pinOver(old, name)
}

// PinnedAllows says whether a program that is pinned lets all of the rules' access pass;
// it is not sure where the program could not be understood.
func PinnedAllows(name string, rules []Rule) (allowed, sure bool, err error) {
	if err := validate(rules); err != nil {
		return false, false, err
	}
	prog, err := getPinned(name)
	if err != nil {
		return false, false, err
	}
	defer prog.Close()
	info, err := syscalls{}.inspect(prog)
	if err != nil {
		return false, false, err
	}
	all := allows
	for _, r := range rules {
		all = worst(all, judge(info.code, r))
	}
	return all == allows, all != unclear, nil
}
