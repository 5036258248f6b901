package bed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Swapper is a second container, which runs and does nothing but exchange two names of a volume, without end.
type Swapper struct {
	t  *testing.T
	b  *Bundle
	rt Runtime
	a  string

	pid    int
	volume string
	names  map[string]bool // in the volume
}

// StartSwapper starts one; a and b are names in the volume.
func StartSwapper(t *testing.T, rt Runtime, volume, a, b string) *Swapper {
	t.Helper()
	s := &Swapper{t: t, b: NewBundleBeside(t), rt: rt, a: filepath.Join(volume, a), volume: volume, names: namesBelow(t, volume)}
	s.pid = s.b.attack(rt, volume, "swap", "/vol/"+a, "/vol/"+b)
	return s
}

// attack starts a hostile container with a volume at /vol, and returns the pid of its process.
func (b *Bundle) attack(rt Runtime, volume string, args ...string) int {
	b.t.Helper()
	b.Volume(volume, "/vol")
	b.Config.Process.Args = append([]string{"/probe"}, args...)
	b.Write()
	if res := b.Create(rt); res.Refused() {
		b.t.Fatalf("the second container: %s", res.Stderr)
	}
	b.Must(rt, "start", b.ID)
	var state specs.State
	b.must(json.Unmarshal([]byte(b.Must(rt, "state", b.ID).Stdout), &state))
	return state.Pid
}

// StartSnatcher starts a container that opens the programs of all processes that it can see, and notes in the volume what it got. It returns its
// pid namespace, for another container to join, and what ends it.
func StartSnatcher(t *testing.T, rt Runtime, volume string) (pids string, stop func()) {
	t.Helper()
	b := NewBundleBeside(t)
	pid := b.attack(rt, volume, "snatch", "/vol")
	return fmt.Sprintf("/proc/%d/ns/pid", pid), func() { b.Delete(rt) }
}

// Stop ends it.
func (s *Swapper) Stop() { s.b.Delete(s.rt) }

// Rest stops it, and lets it go on when what has to be quiet is done.
func (s *Swapper) Rest(meanwhile func()) {
	s.t.Helper()
	s.b.must(unix.Kill(s.pid, unix.SIGSTOP))
	WaitFor(s.t, "the rest of the attacker", func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
		s.b.must(err)
		return strings.Contains(string(raw), ") T ")
	})
	meanwhile()
	s.b.must(unix.Kill(s.pid, unix.SIGCONT))
}

// Sweep removes what has been made in the volume. The two names may stand for each other.
func (s *Swapper) Sweep() {
	s.t.Helper()
	for name := range namesBelow(s.t, s.volume) {
		first, rest, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
		known := s.names[name]
		for _, other := range []string{"x", "y"} {
			known = known || s.names["/"+other+"/"+rest]
		}
		if !known && first != "" && rest != "" {
			s.b.must(os.RemoveAll(filepath.Join(s.volume, name)))
		}
	}
}

// Now tells which of the two is at the first name; nobody can be sure of it for long.
func (s *Swapper) Now() string {
	s.t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(s.a, &st); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprint(st.Ino)
}

// Flip waits until the two have been exchanged at least once, and gives up after a while.
func (s *Swapper) Flip() bool {
	before := s.Now()
	for range 5000 {
		if s.Now() != before {
			return true
		}
	}
	return false
}

// Volume has config.json mount a folder of the host, apart from the host's mounts.
func (b *Bundle) Volume(from, to string) {
	b.Config.Mounts = append(b.Config.Mounts, specs.Mount{Destination: to, Type: "bind", Source: from, Options: []string{"rbind", "rprivate"}})
}
