package trust

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// Error says which component of a path is not trusted, why, and what would mend it.
type Error struct {
	Path      string // as asked
	Component string // without links
	UID       uint32
	Mode      uint32 // type and permissions, as in stat(2)
	Problem   string
	Fix       string // a shell command
}

// Error returns one line.
func (e *Error) Error() string {
	text := shown(e.Path) + ": not trusted: "
	if e.Component != e.Path {
		text += shown(e.Component) + " is "
	}
	return text + e.Problem + "; to mend it: " + e.Fix
}

// flaw is an Error of any path that leads through the component.
type flaw Error

func (f *flaw) of(name string) error {
	e := Error(*f)
	e.Path = name
	if e.Component != name && !strings.HasPrefix(name, strings.TrimSuffix(e.Component, "/")+"/") {
		e.Fix = "let no link on the way to " + shown(name) + " lead there"
	}
	return &e
}

const writableByOthers = unix.S_IWGRP | unix.S_IWOTH

// judge tells what is wrong with a component, nil if nothing is.
func (c *Checker) judge(e *entry) (*flaw, error) {
	f := &flaw{Component: e.path(), UID: e.st.Uid, Mode: e.st.Mode}
	foreign, err := c.foreign(e)
	if err != nil {
		return nil, err
	}
	if foreign {
		f.Problem = fmt.Sprintf("owned by uid %d, not by root (mode %04o)", e.st.Uid, e.st.Mode&0o7777)
		f.Fix = "chown -h root " + quoted(f.Component)
		return f, nil
	}
	if e.kind() == unix.S_IFLNK || e.isSticky() || e.st.Mode&writableByOthers == 0 {
		return nil, nil // links have no mode
	}
	who, drop := writers(&e.st)
	f.Problem = fmt.Sprintf("writable by %s (mode %04o, owner uid %d)", who, e.st.Mode&0o7777, e.st.Uid)
	f.Fix = "chmod " + drop + " " + quoted(f.Component)
	return f, nil
}

func writers(st *unix.Stat_t) (who, drop string) {
	switch st.Mode & writableByOthers {
	case unix.S_IWGRP:
		return fmt.Sprintf("group %d", st.Gid), "g-w"
	case unix.S_IWOTH:
		return "everybody", "o-w"
	}
	return "everybody", "go-w"
}

// foreign tells whether a component's owner is neither root nor we.
func (c *Checker) foreign(e *entry) (bool, error) {
	if e.st.Uid == 0 || int(e.st.Uid) == os.Geteuid() {
		return false, nil
	}
	if c.ids == nil {
		ids, err := readIdentity()
		if err != nil {
			return false, err
		}
		c.ids = ids
	}
	if !c.ids.userNamespace || e.st.Uid != c.ids.overflowUID {
		return true, nil
	}
	return e.writable()
}

// identity is what owners look like here.
type identity struct {
	userNamespace bool
	overflowUID   uint32
}

func readIdentity() (*identity, error) {
	raw, err := os.ReadFile("/proc/sys/fs/overflowuid")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("/proc/sys/fs/overflowuid: %w", err)
	}
	uidMap, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil, err
	}
	return &identity{userNamespace: !mapsAll(string(uidMap)), overflowUID: uint32(uid)}, nil
}

// mapsAll tells whether a uid_map is that of the initial user namespace, or as good.
func mapsAll(uidMap string) bool {
	fields := strings.Fields(uidMap)
	return len(fields) == 3 && fields[0] == "0" && fields[1] == "0" && fields[2] == "4294967295"
}

// shown returns a path as it is where that is harmless.
func shown(name string) string {
	for _, r := range name {
		if r == unicode.ReplacementChar || r == '"' || !unicode.IsPrint(r) || unicode.IsSpace(r) {
			return strconv.Quote(name)
		}
	}
	return name
}

// quoted returns a path as a shell takes it: unprintable ones are left to be looked up.
func quoted(name string) string {
	if shown(name) != name {
		return shown(name)
	}
	if strings.ContainsFunc(name, isShellSpecial) {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

func isShellSpecial(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+:@%=,", r)
}
