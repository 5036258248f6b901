package mounts

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMountIdentityWithoutStatx compares what serves before kernel 5.8 with statx(2).
func TestMountIdentityWithoutStatx(t *testing.T) {
	for _, name := range []string{"/", "/proc", "/proc/self", "/etc", "/dev"} {
		f, err := os.OpenFile(name, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want, err := mountIDOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := mountIDFromFdinfo(f); err != nil || have != want {
			t.Errorf("%s: fdinfo says mount %d (%v), statx %d", name, have, err, want)
		}
		wantRoot, err := isMountRoot(f)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := isMountRootByTable(f); err != nil || have != wantRoot {
			t.Errorf("%s: mountinfo says mount root %v (%v), statx %v", name, have, err, wantRoot)
		}
	}
}

func TestRootThatIsTheHosts(t *testing.T) {
	b := newBed(t)
	b.do(func() error {
		for name, want := range map[string]bool{"root": true, "host": false} {
			dir, err := os.OpenFile(b.path(name), unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			r, err := NewRoot(dir, func() ([]byte, error) { return b.host, nil })
			if err != nil {
				return err
			}
			defer r.Close()
			if own, err := r.HasOwnMount(); err != nil || own != want {
				t.Errorf("%s: a mount of its own %v (%v), want %v", name, own, err, want)
			}
		}
		return nil
	})
}
