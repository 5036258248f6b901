package nsthread

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func mountNamespace(t *testing.T) string {
	t.Helper()
	link, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: entering a mount namespace")
	}
}

func TestThreadIsApart(t *testing.T) {
	needRoot(t)
	before := mountNamespace(t)
	th, err := Start(func() error { return unix.Unshare(unix.CLONE_NEWNS) })
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	var inside [2]string
	for i := range inside {
		if err := th.Do(func() (err error) {
			inside[i], err = os.Readlink("/proc/thread-self/ns/mnt")
			if unix.Gettid() == os.Getpid() {
				t.Error("the main thread was taken into the namespace")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if inside[0] == before || inside[0] != inside[1] {
		t.Errorf("thread ran in %v, test in %s", inside, before)
	}
	if after := mountNamespace(t); after != before {
		t.Errorf("the test itself moved from %s to %s", before, after)
	}
}

func TestJoin(t *testing.T) {
	needRoot(t)
	first, err := Start(func() error { return unix.Unshare(unix.CLONE_NEWNS) })
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var ns *os.File
	var want string
	if err := first.Do(func() (err error) {
		if want, err = os.Readlink("/proc/thread-self/ns/mnt"); err != nil {
			return err
		}
		ns, err = os.Open("/proc/thread-self/ns/mnt")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer ns.Close()

	second, err := Start(Join(Namespace{ns, unix.CLONE_NEWNS}))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := second.Do(func() error {
		if got := mountNamespace(t); got != want {
			t.Errorf("joined %s, want %s", got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Join(Namespace{ns, unix.CLONE_NEWPID})); !errors.Is(err, unix.EINVAL) {
		t.Errorf("joined a mount namespace as a pid namespace: %v", err)
	}
}

func TestErrors(t *testing.T) {
	want := errors.New("no")
	if _, err := Start(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Start = %v, want %v", err, want)
	}
	th, err := Start(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := th.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Do = %v, want %v", err, want)
	}
	th.Close()
	th.Close()
	if err := th.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Do after Close = %v, want %v", err, ErrClosed)
	}
}
