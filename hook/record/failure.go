package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Failure is why a container was refused, or a stage failed.
type Failure struct {
	Time     time.Time `json:"time"`
	ID       string    `json:"id,omitempty"`
	Name     string    `json:"name,omitempty"`
	Stage    string    `json:"stage"`
	Devices  []string  `json:"devices"`
	Reason   string    `json:"reason"`
	ExitCode int       `json:"exitCode"`
}

// The last failures are in one file of a fixed size: slots that are lines of text, each
// written at once, in turns. A line begins with a hash of the rest, so that one that was
// cut short says nothing, and a number that grows.
const (
	failuresFile = "failures"
	maxFailures  = 64
	slotSize     = 2048 // bytes
)

// AddFailure keeps a failure, in place of the oldest one. It waits no longer for others
// than ctx lets it; then one of theirs may be lost.
func (d *Dir) AddFailure(ctx context.Context, f Failure) error {
	file, err := d.open(failuresFile, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s: not a regular file", file.Name()))
	}
	if err := lockOrGoOn(ctx, file); err != nil {
		return err
	}
	last := uint64(0)
	for _, s := range readSlots(file) {
		last = max(last, s.number)
	}
	slot := f.slot(last + 1)
	_, err = file.WriteAt(slot, int64((last+1)%maxFailures)*slotSize)
	return err
}

// lockOrGoOn locks a file until it is closed, if the lock can be had in time.
func lockOrGoOn(ctx context.Context, file *os.File) error {
	if flock(file, unix.LOCK_EX|unix.LOCK_NB) == nil {
		return nil
	}
	// Who waits may wait longer than the file is open here.
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	waiting := os.NewFile(uintptr(fd), file.Name())
	locked := make(chan error, 1)
	go func() { locked <- errors.Join(flock(waiting, unix.LOCK_EX), waiting.Close()) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
	}
	return err
}

// Failures lists the last failures, the newest first. None kept is fine.
func (d *Dir) Failures() ([]Failure, error) {
	file, err := d.open(failuresFile, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	slots := readSlots(file)
	slices.SortFunc(slots, func(a, b numbered) int { return cmp.Compare(b.number, a.number) })
	var all []Failure
	for _, s := range slots {
		var f Failure
		if json.Unmarshal(s.text, &f) == nil {
			all = append(all, f)
		}
	}
	return all, nil
}

// numbered is a slot's content.
type numbered struct {
	number uint64
	text   []byte
}

// readSlots reads the slots that are whole.
func readSlots(file *os.File) []numbered {
	raw := make([]byte, maxFailures*slotSize)
	n, err := file.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	var all []numbered
	for slot := range slices.Chunk(raw[:n], slotSize) {
		hash, rest, _ := bytes.Cut(bytes.TrimRight(slot, " \n"), []byte(" "))
		number, text, ok := bytes.Cut(rest, []byte(" "))
		if !ok || string(hash) != hashOf(rest) {
			continue
		}
		if n, err := strconv.ParseUint(string(number), 10, 64); err == nil {
			all = append(all, numbered{n, text})
		}
	}
	return all
}

func hashOf(text []byte) string {
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	return fmt.Sprintf("%016x", sum.Sum64())
}

// slot is the failure as a line of its full length.
func (f Failure) slot(number uint64) []byte {
	const prefix = 16 + 1 + 20 + 1 // hash, number
	f.ID, f.Name, f.Stage = clip(f.ID, 255), clip(f.Name, 128), clip(f.Stage, 32)
	f.Devices = append([]string{}, f.Devices...)
	text, err := json.Marshal(f)
	for err == nil && len(text) > slotSize-prefix-1 {
		switch n := len(f.Devices); {
		case len(f.Reason) > 256:
			f.Reason = clip(f.Reason, len(f.Reason)/2)
		case n > 2:
			f.Devices = append(f.Devices[:n/2], "…")
		default: // a byte may take six in JSON
			f.Devices, f.ID, f.Name, f.Reason = []string{}, clip(f.ID, 64), clip(f.Name, 32), clip(f.Reason, 128)
		}
		text, err = json.Marshal(f)
	}
	rest := append(strconv.AppendUint(nil, number, 10), ' ')
	rest = append(rest, text...)
	line := append([]byte(hashOf(rest)+" "), rest...)
	line = append(line, bytes.Repeat([]byte{' '}, max(0, slotSize-len(line)-1))...)
	return append(line, '\n')
}

// clip shortens a text to at most n bytes, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
