package cgroups

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCoveredV1(t *testing.T) {
	list, err := parseList("c *:* m\nb *:* m\nc 1:3 rwm\nc 136:* rw\nc 7:7 r\nc 7:* w\n")
	must(t, err)
	for text, want := range map[string]bool{
		"c 1:3 rwm": true, "c 1:3 r": true, "c 9:9 m": true, "b 1:3 rwm": false, "c 136:4 rw": true,
		"c 136:4 rwm": false, // by no single line
		"c 136:* w":   true, "c *:3 r": false, "c *:3 m": true, "c 7:7 rw": false,
	} {
		l, err := parseLine(text)
		must(t, err)
		if got := covered(list, Rule{l.kind, l.major, l.minor, l.access.String()}); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestParseListV1(t *testing.T) {
	for _, bad := range []string{"c", "c 1:3", "x 1:3 rwm\n", "c 1 rwm\n", "c 1:3 rwx\n", "c -1:3 r\n", "c 1:99999999999 r\n", "\n"} {
		if list, err := parseList(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, list)
		}
	}
}

func FuzzParseListV1(f *testing.F) {
	f.Add("a *:* rwm\n")
	f.Add("c 1:3 rwm\nb *:* m\n")
	f.Fuzz(func(t *testing.T, data string) {
		list, err := parseList(data)
		if err != nil {
			return
		}
		for _, l := range list {
			if l.kind != 'a' && l.access != 0 {
				// The kernel reads back what it wrote: so do we.
				r := Rule{l.kind, l.major, l.minor, l.access.String()}
				if again, err := parseLine(r.String()); err != nil || again != l {
					t.Errorf("%+v: %+v, %v", l, again, err)
				}
			}
		}
	})
}

func (b *bed) write(path, data string) {
	b.t.Helper()
	must(b.t, os.WriteFile(path, []byte(data), 0))
}

func (b *bed) listed(cgroup string) []string {
	b.t.Helper()
	data, err := os.ReadFile(cgroup + "/devices.list")
	must(b.t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (b *bed) restrictV1(cgroup string, rules ...string) {
	b.t.Helper()
	b.write(cgroup+"/devices.deny", "a")
	for _, r := range rules {
		b.write(cgroup+"/devices.allow", r)
	}
}

// restrictAbove puts a restricted parent between: one takes that only before it has
// children.
func (b *bed) restrictAbove(rules ...string) {
	b.t.Helper()
	b.parent = b.mkdir(b.parent + "/restricted")
	b.restrictV1(b.parent, rules...)
	b.cgroup = b.mkdir(b.parent + "/container")
}

func TestAllowV1(t *testing.T) {
	b := newBed(t, V1)
	b.restrictV1(b.cgroup, "c *:* m", "c 1:8 rwm", "c 1:11 w")
	before := b.listed(b.cgroup)
	b.expect("ok EPERM EPERM", random, kmsg, mem)

	c := b.open(b.cgroup)
	undo, err := c.Allow(append(kmsgRule, Rule{'c', 10, 229, "m"}, Rule{'b', 7, 0, "r"}), Options{})
	must(t, err)
	b.expect("ok ok EPERM", random, kmsg, mem)
	after := b.listed(b.cgroup)
	// What a line covers is not written again.
	if want := []string{"c *:* m", "c 1:8 rwm", "c 1:11 rwm", "b 7:0 r"}; !slices.Equal(after, want) {
		t.Errorf("devices.list is %q, want %q", after, want)
	}

	_, err = c.Allow(kmsgRule, Options{})
	must(t, err)
	if again := b.listed(b.cgroup); !slices.Equal(after, again) {
		t.Errorf("a second time changed %q to %q", after, again)
	}

	must(t, c.Close())
	must(t, undo())
	must(t, undo())
	if back := b.listed(b.cgroup); !slices.Equal(before, back) {
		t.Errorf("undo left %q, want %q", back, before)
	}
}

func TestParentDeniesV1(t *testing.T) {
	b := newBed(t, V1)
	b.restrictAbove("c 1:8 rwm", "c 1:11 rwm", "c 7:7 rwm")
	b.restrictV1(b.cgroup, "c 1:8 rwm")
	before := b.listed(b.cgroup)
	memRule := Rule{'c', 1, 1, "r"}

	undo, err := b.open(b.cgroup).Allow([]Rule{{'c', 7, 7, "rwm"}, memRule}, Options{})
	var denied *DeniedError
	if !errors.As(err, &denied) || denied.By != (Denial{b.parent, memRule, true}) || !errors.Is(err, unix.EPERM) {
		t.Errorf("error %v, want one that names %s and %s", err, b.parent, memRule)
	}
	expectError(t, err, "cgroup "+b.cgroup+": cgroup "+b.parent+" denies device c 1:1 r")
	must(t, undo())
	if after := b.listed(b.cgroup); !slices.Equal(before, after) {
		t.Errorf("left %q, want %q", after, before)
	}
}

// A cgroup that allows by default hides its exceptions. Ours removes one at most.
func TestDefaultAllowV1(t *testing.T) {
	b := newBed(t, V1)
	b.write(b.cgroup+"/devices.deny", "c 1:11 rwm")
	b.expect("ok EPERM", random, kmsg)
	undo, err := b.open(b.cgroup).Allow(append(kmsgRule, Rule{'c', 1, 8, "rwm"}), Options{})
	must(t, err)
	b.expect("ok ok", random, kmsg)
	must(t, undo())
	b.expect("ok", random) // never narrower
}

func TestHiddenDenialAboveV1(t *testing.T) {
	b := newBed(t, V1)
	b.write(b.parent+"/devices.deny", "c 1:11 rwm")
	_, err := b.open(b.cgroup).Allow(kmsgRule, Options{})
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "hides") {
		t.Errorf("error %v, want EPERM and that the list hides why", err)
	}
}

func TestDenyingV1(t *testing.T) {
	b := newBed(t, V1)
	rules := append(kmsgRule, Rule{'c', 1, 8, "r"})
	if denials, err := b.open(b.cgroup).Denying(rules); err != nil || len(denials) > 0 {
		t.Fatalf("%v, %v", denials, err)
	}
	b.restrictAbove("c 1:8 rwm")
	c := b.open(b.cgroup)
	denials, err := c.Denying(rules)
	must(t, err)
	if want := []Denial{{b.parent, kmsgRule[0], true}}; !slices.Equal(denials, want) {
		t.Errorf("%v, want %v", denials, want)
	}
	if allowed, sure, err := c.Allows(rules); allowed || !sure || err != nil {
		t.Errorf("Allows: %v, %v, %v", allowed, sure, err)
	}
	if allowed, sure, err := c.Allows(rules[1:]); !allowed || !sure || err != nil {
		t.Errorf("Allows: %v, %v, %v", allowed, sure, err)
	}
}

func TestUndoAfterTheCgroupIsGoneV1(t *testing.T) {
	b := newBed(t, V1)
	b.restrictV1(b.cgroup)
	undo, err := b.open(b.cgroup).Allow(kmsgRule, Options{})
	must(t, err)
	must(t, os.Remove(b.cgroup))
	must(t, undo())
}
