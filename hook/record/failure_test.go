package record

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func addFailure(t *testing.T, d *Dir, f Failure) {
	t.Helper()
	if err := d.AddFailure(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func failures(t *testing.T, d *Dir) []Failure {
	t.Helper()
	all, err := d.Failures()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFailures(t *testing.T) {
	d, name := openDir(t)
	if all := failures(t, d); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	f := Failure{
		Time: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC), ID: "c1", Name: "n", Stage: "createRuntime",
		Devices: []string{"v.example/dev=a"}, Reason: "no \"such\"\ndevice <é>", ExitCode: 3,
	}
	addFailure(t, d, f)
	have, want := fmt.Sprintf("%+v", failures(t, d)), fmt.Sprintf("%+v", []Failure{f})
	if have != want {
		t.Errorf("%s, want %s", have, want)
	}
	st, err := os.Stat(filepath.Join(name, failuresFile))
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	// It is no container's.
	if err := d.All(func(name string, _ *Record, _ error) { t.Errorf("a record %q", name) }); err != nil {
		t.Error(err)
	}
}

func TestFailuresAreBounded(t *testing.T) {
	d, name := openDir(t)
	long := strings.Repeat("\x01é<", 5000)
	for i := range 3*maxFailures + 5 {
		f := Failure{ID: fmt.Sprint(i), Reason: "r", Devices: []string{"d"}}
		switch i % 4 {
		case 1:
			f.Reason = long
		case 2:
			f.Devices = slices.Repeat([]string{long[:300]}, 500)
		case 3:
			f.Name, f.Stage, f.ID = long, long, f.ID+" "+long
		}
		addFailure(t, d, f)
	}
	all := failures(t, d)
	if len(all) != maxFailures {
		t.Fatalf("%d failures", len(all))
	}
	for i, f := range all {
		if want := fmt.Sprint(3*maxFailures + 4 - i); strings.Fields(f.ID)[0] != want {
			t.Errorf("place %d: %.20q, want %s", i, f.ID, want)
		}
	}
	if st, err := os.Stat(filepath.Join(name, failuresFile)); err != nil || st.Size() > maxFailures*slotSize {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
	if left := files(t, name); len(left) != 1 {
		t.Errorf("%q", left)
	}
}

// A write that was cut short costs what it wrote over, and no more.
func TestFailuresTorn(t *testing.T) {
	d, name := openDir(t)
	for i := range maxFailures {
		addFailure(t, d, Failure{ID: fmt.Sprint(i), Reason: "old reason of some length"})
	}
	file := filepath.Join(name, failuresFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	next := Failure{ID: "new", Reason: "a new reason, and one that is longer"}.slot(maxFailures + 1)
	at := (maxFailures + 1) % maxFailures * slotSize
	for _, cut := range []int{1, 17, 20, 40, 60, 80, 100} {
		torn := append(slices.Clone(whole[:at]), next[:cut]...)
		torn = append(torn, whole[at+cut:]...)
		if err := os.WriteFile(file, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if n := len(failures(t, d)); n != maxFailures-1 {
			t.Errorf("cut at %d: %d failures", cut, n)
		}
		addFailure(t, d, Failure{ID: "after"})
		if all := failures(t, d); len(all) < maxFailures-1 || all[0].ID != "after" {
			t.Errorf("cut at %d: %d failures, the last %+v", cut, len(all), all[0])
		}
	}
	for what, content := range map[string]string{
		"empty": "", "text": "what is this\n", "zeroes": strings.Repeat("\x00", 5000), "short": string(whole[:len(whole)-30]),
		"large": strings.Repeat("x ", 1<<20),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		addFailure(t, d, Failure{ID: "after"})
		if all := failures(t, d); len(all) == 0 || all[0].ID != "after" {
			t.Errorf("%s: %+v", what, all)
		}
	}
}

func TestFailuresOfManyAtOnce(t *testing.T) {
	d, _ := openDir(t)
	var all sync.WaitGroup
	for i := range maxFailures {
		all.Go(func() { addFailure(t, d, Failure{ID: fmt.Sprint(i)}) })
	}
	all.Wait()
	ids := map[string]bool{}
	for _, f := range failures(t, d) {
		ids[f.ID] = true
	}
	if len(ids) != maxFailures {
		t.Errorf("%d of %d are there", len(ids), maxFailures)
	}
}

// Who does not let go of the lock does not stop a container's start, and what is no file
// is left alone.
func TestFailuresDoNotHang(t *testing.T) {
	d, name := openDir(t)
	addFailure(t, d, Failure{ID: "first"})
	held, err := os.Open(filepath.Join(name, failuresFile))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := flock(held, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.AddFailure(ctx, Failure{ID: "second"}); err != nil {
		t.Error(err)
	}
	if all := failures(t, d); len(all) != 2 {
		t.Errorf("%+v", all)
	}
	if err := os.Remove(held.Name()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(held.Name(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.AddFailure(t.Context(), Failure{}); err == nil {
		t.Error("a FIFO took a failure")
	}
}

func FuzzFailureSlot(f *testing.F) {
	f.Add("c1", "n", "createRuntime", "a,b", "reason")
	f.Fuzz(func(t *testing.T, id, name, stage, devices, reason string) {
		slot := Failure{ID: id, Name: name, Stage: stage, Devices: strings.Split(devices, ","), Reason: reason}.slot(1 << 60)
		if len(slot) != slotSize || strings.Count(string(slot), "\n") != 1 {
			t.Fatalf("%d bytes: %q", len(slot), slot)
		}
		text := strings.TrimSpace(string(slot))
		if i := strings.IndexByte(text, '{'); i < 0 || !json.Valid([]byte(text[i:])) {
			t.Errorf("%q", text)
		}
	})
}
