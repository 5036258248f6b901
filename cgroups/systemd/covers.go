package systemd

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/cgroups"
)

// ErrInexpressible says that DeviceAllow= has no form for a rule.
var ErrInexpressible = errors.New("systemd has no form for it")

const (
	charNode, blockNode   = "/dev/char/", "/dev/block/"
	charGroup, blockGroup = "char-", "block-"
)

// deviceAllow is the path of the rule's DeviceAllow=. systemd reads the numbers out of
// /dev/char/M:N itself, whether or not there is such a node.
func deviceAllow(r cgroups.Rule) (string, error) {
	node, group := charNode, charGroup
	if r.Type == 'b' {
		node, group = blockNode, blockGroup
	}
	switch {
	case r.Major == cgroups.Any && r.Minor == cgroups.Any:
		return group + "*", nil
	case r.Major == cgroups.Any:
		return "", fmt.Errorf("%s: %w", r, ErrInexpressible)
	case r.Minor == cgroups.Any:
		return group + strconv.FormatInt(r.Major, 10), nil
	}
	return fmt.Sprintf("%s%d:%d", node, r.Major, r.Minor), nil
}

// standard is what every DevicePolicy but strict opens as well.
var standard = [...]cgroups.Rule{
	{Type: 'c', Major: 1, Minor: 3, Access: "rwm"}, {Type: 'c', Major: 1, Minor: 5, Access: "rwm"},
	{Type: 'c', Major: 1, Minor: 7, Access: "rwm"}, {Type: 'c', Major: 1, Minor: 8, Access: "rwm"},
	{Type: 'c', Major: 1, Minor: 9, Access: "rwm"}, {Type: 'c', Major: 5, Minor: 0, Access: "rwm"},
	{Type: 'c', Major: 5, Minor: 2, Access: "rwm"}, {Type: 'c', Major: 136, Minor: cgroups.Any, Access: "rw"},
}

// lists tells whether one of the unit's rules covers all of r: systemd's programs, as the
// kernel's v1 lists, join no two.
func (s *State) lists(r cgroups.Rule) bool {
	if s.Policy != policyStrict {
		for _, d := range standard {
			if within(r, d.Type, d.Major, d.Minor, d.Access) {
				return true
			}
		}
	}
	groups := sync.OnceValue(readGroups)
	for _, l := range s.Allow {
		if l.covers(r, groups) {
			return true
		}
	}
	return false
}

func within(r cgroups.Rule, kind byte, major, minor int64, access string) bool {
	return r.Type == kind && (major == cgroups.Any || r.Major == major) && (minor == cgroups.Any || r.Minor == minor) &&
		strings.Trim(r.Access, access) == ""
}

func (l Rule) covers(r cgroups.Rule, groups func() []group) bool {
	for kind, prefix := range map[byte]string{'c': charNode, 'b': blockNode} {
		if numbers, ok := strings.CutPrefix(l.Path, prefix); ok {
			if major, minor, ok := parseNumbers(numbers); ok {
				return within(r, kind, major, minor, l.Access)
			}
		}
	}
	for kind, prefix := range map[byte]string{'c': charGroup, 'b': blockGroup} {
		if name, ok := strings.CutPrefix(l.Path, prefix); ok {
			return l.groupCovers(r, kind, name, groups)
		}
	}
	var st unix.Stat_t
	if unix.Stat(l.Path, &st) != nil {
		return false
	}
	kind := byte('c')
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		kind = 'b'
	case unix.S_IFCHR:
	default:
		return false
	}
	return within(r, kind, int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev)), l.Access)
}

func parseNumbers(text string) (major, minor int64, ok bool) {
	a, b, _ := strings.Cut(text, ":")
	x, err1 := strconv.ParseUint(a, 10, 32)
	y, err2 := strconv.ParseUint(b, 10, 32)
	return int64(x), int64(y), err1 == nil && err2 == nil
}

// groupCovers takes the name as systemd does: all, a major number, or a pattern for the
// names of /proc/devices.
func (l Rule) groupCovers(r cgroups.Rule, kind byte, name string, groups func() []group) bool {
	if name == "*" {
		return within(r, kind, cgroups.Any, cgroups.Any, l.Access)
	}
	if major, err := strconv.ParseUint(name, 10, 32); err == nil {
		return within(r, kind, int64(major), cgroups.Any, l.Access)
	}
	for _, g := range groups() {
		if matched, _ := path.Match(name, g.name); matched && g.kind == kind && within(r, kind, g.major, cgroups.Any, l.Access) {
			return true
		}
	}
	return false
}

// group is a line of /proc/devices.
type group struct {
	kind  byte
	major int64
	name  string
}

func readGroups() []group {
	data, _ := os.ReadFile("/proc/devices") // without it no name is known
	return parseGroups(string(data))
}

func parseGroups(data string) (all []group) {
	kind := byte('c')
	for line := range strings.Lines(data) {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "Block"):
			kind = 'b'
		case len(f) == 2:
			if major, err := strconv.ParseUint(f[0], 10, 32); err == nil {
				all = append(all, group{kind, int64(major), f[1]})
			}
		}
	}
	return all
}
