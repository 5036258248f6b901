package record

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// names lists the containers that have files here, in order.
func (d *Dir) names() ([]string, error) {
	f, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		for _, ending := range []string{recordEnding, lockEnding, tempEnding} {
			if base, ok := strings.CutSuffix(name, ending); ok && !seen[base] {
				seen[base] = true
				names = append(names, base)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Others calls f with each readable record but the entry's own.
func (e *Entry) Others(f func(*Record)) error {
	names, err := e.dir.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == e.name {
			continue
		}
		if r, err := e.dir.read(name); err == nil {
			f(r)
		}
	}
	return nil
}

// All calls f with the name of each container's files and its record, in the order of the
// names; err says why one cannot be read. What is only a lock is left out.
func (d *Dir) All(f func(name string, r *Record, err error)) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if r, err := d.read(name); !errors.Is(err, os.ErrNotExist) {
			f(name, r, err)
		}
	}
	return nil
}

// sweepAtOnce bounds the records that one start looks at. A start adds one at most, so
// what is left over is found soon, and a host with thousands pays for these few.
const sweepAtOnce = 16

// Sweep looks at some of the other containers' records and removes those for which gone
// says so. Before that, and under the record's lock, it calls before, whose error keeps
// the record; gone is also called without the lock. What somebody works on now, or cannot
// be read, is left alone.
func (e *Entry) Sweep(gone func(*Record) bool, before func(*Record) error) error {
	names, err := e.dir.names()
	if err != nil {
		return err
	}
	var errs []error
	first := 0
	if len(names) > sweepAtOnce {
		first = os.Getpid() % len(names)
	}
	for i := range min(len(names), sweepAtOnce) {
		if name := names[(first+i)%len(names)]; name != e.name {
			errs = append(errs, e.dir.sweepOne(name, gone, before))
		}
	}
	return errors.Join(errs...)
}

func (d *Dir) sweepOne(name string, gone func(*Record) bool, before func(*Record) error) error {
	// Most records are of containers that live: look before taking the lock.
	if r, err := d.read(name); err == nil && !gone(r) {
		return nil
	}
	e, err := d.lockName(name, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := e.Read()
	if err == nil && gone(r) {
		if err = before(r); err == nil {
			err = e.Remove()
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		err = e.Remove()
	}
	return errors.Join(err, e.Unlock())
}
