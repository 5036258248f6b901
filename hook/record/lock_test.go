package record

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const lockerEnv = "OCI_CDI_HOOK_LOCKER"

// In a process that a test starts, TestMain holds the lock of container a until its stdin
// ends.
func TestMain(m *testing.M) {
	if dir := os.Getenv(lockerEnv); dir != "" {
		os.Exit(hold(dir))
	}
	os.Exit(m.Run())
}

func hold(dir string) int {
	d, err := OpenDir(dir)
	if err != nil {
		return 1
	}
	if _, err := d.Lock(context.Background(), "a", "/b"); err != nil {
		return 1
	}
	fmt.Fprintln(os.Stdout, "locked")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

// locker holds the lock of container a in another process, until it is called.
func locker(t *testing.T, dir string) (release func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{lockerEnv + "=" + dir}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("%q %v", line, err)
	}
	release = sync.OnceFunc(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}

func TestLockExcludes(t *testing.T) {
	d, name := openDir(t)
	const workers, rounds = 8, 50
	inside, most := 0, 0
	var counting sync.Mutex
	count := func(by int) {
		counting.Lock()
		defer counting.Unlock()
		inside += by
		most = max(most, inside)
	}
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for range rounds {
				e, err := d.Lock(t.Context(), "a", "/b")
				if err != nil {
					t.Error(err)
					return
				}
				count(1)
				// Some leave a record, and so the lock file; others take both away.
				if i%2 == 0 {
					err = e.Write(&Record{})
				} else {
					err = e.Remove()
				}
				count(-1)
				if err := errors.Join(err, e.Unlock()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d held the lock at once", most)
	}
	if left := files(t, name); len(left) > 2 {
		t.Errorf("left %q", left)
	}
}

func TestLockExcludesProcesses(t *testing.T) {
	d, name := openDir(t)
	release := locker(t, name)
	if _, err := d.lockName(nameFor("a", "/b"), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	// Others are not held up.
	if err := lock(t, d, "other", "/b").Unlock(); err != nil {
		t.Error(err)
	}
	release()
	// Its holder died without a word: the kernel has given the lock back.
	if err := lock(t, d, "a", "/b").Unlock(); err != nil {
		t.Error(err)
	}
	if left := files(t, name); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestSweep(t *testing.T) {
	d, name := openDir(t)
	live := put(t, d, "live", "/b")
	put(t, d, "gone", "/b")
	refused := put(t, d, "refused", "/b")
	busy := put(t, d, "a", "/b")
	locker(t, name)
	if err := os.WriteFile(filepath.Join(name, "orphan.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(name, "orphan2.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	self := lock(t, d, "self", "/b")
	no := errors.New("no")
	var before []string
	err := self.Sweep(func(r *Record) bool { return r.ID != "live" }, func(r *Record) error {
		before = append(before, r.ID)
		// The lock is held meanwhile.
		if _, err := d.lockName(nameFor(r.ID, r.Bundle), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, ErrLocked) {
			t.Errorf("%s is not locked: %v", r.ID, err)
		}
		if r.ID == "refused" {
			return no
		}
		return nil
	})
	if !errors.Is(err, no) {
		t.Errorf("error of before: %v", err)
	}
	if !slices.Equal(before, []string{"gone", "refused"}) {
		t.Errorf("swept %q", before)
	}
	if err := self.Unlock(); err != nil {
		t.Error(err)
	}
	var want []string
	for _, stem := range []string{busy, live, refused} {
		want = append(want, stem+".json", stem+".lock")
	}
	slices.Sort(want)
	if have := files(t, name); !slices.Equal(have, want) {
		t.Errorf("left %q, want %q", have, want)
	}
}

// Whatever a start leaves behind, later starts find it.
func TestNothingGrows(t *testing.T) {
	d, name := openDir(t)
	const rounds = 500
	highest := 0
	for i := range rounds {
		self := lock(t, d, fmt.Sprintf("c%d", i), "/b")
		err := self.Sweep(func(*Record) bool { return true }, func(*Record) error { return nil })
		if err := errors.Join(err, self.Write(&Record{}), self.Unlock()); err != nil {
			t.Fatal(err)
		}
		highest = max(highest, len(files(t, name)))
	}
	if highest > 4 {
		t.Errorf("up to %d files at once", highest)
	}
}

// One start looks at a few records, not at the thousands of a host.
func TestSweepIsBounded(t *testing.T) {
	d, _ := openDir(t)
	for i := range 3 * sweepAtOnce {
		put(t, d, fmt.Sprintf("c%d", i), "/b")
	}
	self := lock(t, d, "self", "/b")
	defer func() { _ = self.Unlock() }()
	looked := map[string]bool{}
	if err := self.Sweep(func(r *Record) bool { looked[r.ID] = true; return false }, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(looked); n > sweepAtOnce || n < sweepAtOnce-1 {
		t.Errorf("looked at %d", n)
	}
}

func TestUnlockKeepsTheLockOfARecord(t *testing.T) {
	d, name := openDir(t)
	stem := put(t, d, "a", "/b")
	if have := strings.Join(files(t, name), " "); have != stem+".json "+stem+".lock" {
		t.Errorf("files %s", have)
	}
}

// TestLockWaitsNoLongerThanItMay holds a lock and asks for it with a context that ends.
func TestLockWaitsNoLongerThanItMay(t *testing.T) {
	d, _ := openDir(t)
	e, err := d.Lock(t.Context(), "a", "/b")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Unlock() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("deadline")
	cancel(why)
	if _, err := d.Lock(ctx, "a", "/b"); !errors.Is(err, ErrLocked) || !errors.Is(err, why) {
		t.Errorf("Lock: %v", err)
	}
}
