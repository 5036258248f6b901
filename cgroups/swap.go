package cgroups

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const modeFlags = unix.BPF_F_ALLOW_OVERRIDE | unix.BPF_F_ALLOW_MULTI

// swap is one program in place of another, both held. Flags are those that the old one
// was attached with.
type swap struct {
	id       uint32 // of old
	old, new *os.File
	flags    uint32
	revision uint64
}

func closeSwaps(list []swap) {
	for _, s := range list {
		s.old.Close()
		s.new.Close()
	}
}

// swaps are those that were done, in order.
type swaps struct {
	kernel kernel
	dir    *os.File
	list   []swap
}

func (all *swaps) do(s swap) error {
	if err := exchange(all.kernel, all.dir, s.old, s.new, s.flags, s.revision); err != nil {
		return err
	}
	all.list = append(all.list, s)
	return nil
}

// undo puts the old ones back, the last first, where ours are still in place.
func (all *swaps) undo() error {
	var errs []error
	for at := len(all.list) - 1; at >= 0; at-- {
		if err := all.undoOne(all.list[at]); err != nil {
			errs = append(errs, fmt.Errorf("put program %d back: %w", all.list[at].id, err))
		}
	}
	closeSwaps(all.list)
	all.list = nil
	return errors.Join(append(errs, all.dir.Close())...)
}

func (all *swaps) undoOne(s swap) error {
	for range maxPasses {
		now, err := all.kernel.query(all.dir, 0)
		if isGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if here, err := isAttached(all.kernel, now, s.new); err != nil || !here {
			return err // someone put another one there since: that one stays
		}
		err = exchange(all.kernel, all.dir, s.new, s.old, s.flags, now.revision)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return errChanged
}

func isAttached(k kernel, now attached, prog *os.File) (bool, error) {
	info, err := k.inspect(prog)
	if err != nil {
		return false, err
	}
	for _, id := range now.ids {
		if id == info.id {
			return true, nil
		}
	}
	return false, nil
}

// exchange puts one program in the place of another without a moment in which neither or
// less is allowed than by the two together. errChanged: the other one is not there.
func exchange(k kernel, dir, from, to *os.File, flags uint32, revision uint64) error {
	if flags&unix.BPF_F_ALLOW_MULTI == 0 {
		// The only one there may be is replaced, whichever it is: the revision guards.
		err := k.attach(dir, to, attachment{flags: flags, revision: revision})
		if errors.Is(err, unix.ESTALE) {
			return errChanged
		}
		return err
	}
	err := k.attach(dir, to, attachment{flags: flags, replace: from})
	switch {
	case errors.Is(err, unix.ENOENT):
		return errChanged
	case errors.Is(err, unix.EINVAL): // before 5.6
		return exchangeInTwo(k, dir, from, to, flags)
	}
	return err
}

// exchangeInTwo has both attached for a moment, when both must allow.
func exchangeInTwo(k kernel, dir, from, to *os.File, flags uint32) error {
	if err := k.attach(dir, to, attachment{flags: flags}); err != nil {
		return err
	}
	err := k.detach(dir, from)
	if err == nil {
		return nil
	}
	if backErr := k.detach(dir, to); backErr != nil {
		return errors.Join(err, backErr)
	}
	if errors.Is(err, unix.ENOENT) {
		return errChanged
	}
	return err
}
