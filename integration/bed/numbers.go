package bed

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/report"
)

// AllNumbers are the device numbers that mean something to this kernel or to the tests: every major with the first minors, and every
// minor of the misc major.
func AllNumbers(t *testing.T) *report.Sweep {
	t.Helper()
	s := &report.Sweep{}
	seen := map[string]map[uint32]bool{"major": {}, "minor": {}}
	add := func(kind string, list *[]uint32, n uint32) {
		if !seen[kind][n] {
			seen[kind][n] = true
			*list = append(*list, n)
		}
	}
	for _, line := range lines(t, "/proc/devices") {
		var major uint32
		if _, err := fmt.Sscanf(line, "%d", &major); err == nil {
			add("major", &s.Majors, major)
		}
	}
	for _, major := range []uint32{195, 226, 234, 503, 504, 505} { // of vendors
		add("major", &s.Majors, major)
	}
	for minor := range uint32(16) {
		add("minor", &s.Minors, minor)
	}
	for _, minor := range []uint32{64, 128, 129, 255, unix.Minor(unix.Mkdev(0, 256))} {
		add("minor", &s.Minors, minor)
	}
	for _, line := range lines(t, "/proc/misc") {
		var minor uint32
		if _, err := fmt.Sscanf(line, "%d", &minor); err == nil {
			add("minor", &s.Minors, minor)
		}
	}
	return s
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}
