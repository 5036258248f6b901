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
