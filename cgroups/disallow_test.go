package cgroups

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

var memRule = []Rule{{Type: 'c', Major: 1, Minor: 1, Access: "rwm"}}

func TestDisallowV2(t *testing.T) {
	for name, flags := range map[string]uint32{"no flags": 0, "multi": unix.BPF_F_ALLOW_MULTI} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, V2)
			b.attach(b.cgroup, load(t, runcDefault()), flags)
			c := b.open(b.cgroup)
			var err error
			for _, rules := range [][]Rule{kmsgRule, memRule, {{'c', 1, 8, "rwm"}, {'c', 10, Any, "rw"}, {'b', Any, 3, "r"}, {'b', Any, Any, "m"}}} {
				_, err = c.Allow(rules, Options{})
				must(t, err)
			}
			b.expect("ok ok", random, kmsg)
			wantAllowed(t, c, memRule[0], true)
			must(t, c.Disallow(kmsgRule, nil, Options{}))
			b.expect("ok EPERM", random, kmsg)
			wantAllowed(t, c, memRule[0], true)
			// random is the runtime's own too.
			must(t, c.Disallow([]Rule{{'c', 1, 8, "rwm"}, {'c', 10, Any, "rw"}, {'b', Any, 3, "r"}, {'b', Any, Any, "m"}}, nil, Options{}))
			b.expect("ok EPERM", random, kmsg)
			wantAllowed(t, c, memRule[0], true)
			// Somebody else needs to read it.
			must(t, c.Disallow(memRule, []Rule{{'c', 1, 1, "r"}}, Options{}))
			wantAllowed(t, c, Rule{'c', 1, 1, "r"}, true)
			wantAllowed(t, c, Rule{'c', 1, 1, "w"}, false)
			before := b.ids(b.cgroup)
			must(t, c.Disallow(kmsgRule, nil, Options{}))
			if after := b.ids(b.cgroup); !slices.Equal(before, after) {
				t.Errorf("nothing to take away changed programs %v to %v", before, after)
			}
			must(t, c.Disallow(memRule, nil, Options{}))
			ids := b.ids(b.cgroup)
			info, err := inspectID(syscalls{}, ids[0])
			must(t, err)
			code, err := reloadable(info.code)
			must(t, err)
			if want := assembled(t, runcDefault()); len(ids) != 1 || !slices.Equal(code, want) {
				t.Errorf("programs %v: %v\nwant\n%v", ids, code, want)
			}
		})
	}
}

// wantAllowed asks the programs: this kernel may have no /dev/mem to open.
func wantAllowed(t *testing.T, c *Cgroup, r Rule, want bool) {
	t.Helper()
	allowed, sure, err := c.Allows([]Rule{r})
	if err != nil || !sure || allowed != want {
		t.Errorf("%s: allowed %v, sure %v, %v; want %v", r, allowed, sure, err, want)
	}
}

// The programs of others stay as they are, whatever they allow.
func TestDisallowLeavesOthers(t *testing.T) {
	b := newBed(t, V2)
	b.attach(b.cgroup, load(t, runcLike(kmsgRule[0])), unix.BPF_F_ALLOW_MULTI)
	before := b.ids(b.cgroup)
	must(t, b.open(b.cgroup).Disallow(kmsgRule, nil, Options{}))
	if after := b.ids(b.cgroup); !slices.Equal(before, after) {
		t.Errorf("programs %v became %v", before, after)
	}
	b.expect("ok", kmsg)
}

func TestBehind(t *testing.T) {
	base := assembled(t, runcDefault())
	rules, rest := behind(base)
	if len(rules) > 0 || !slices.Equal(rest, base) {
		t.Errorf("runc's program was taken for ours: %v", rules)
	}
	for _, all := range [][]Rule{
		nil, kmsgRule, {{'b', 8, Any, "r"}, {'c', Any, 3, "rw"}, {'c', Any, Any, "m"}, {'c', 1, 2, "rwm"}},
	} {
		rules, rest := behind(inFront(all, inFront(memRule, base)))
		if want := append(slices.Clone(all), memRule...); !slices.Equal(rules, want) || !slices.Equal(rest, base) {
			t.Errorf("%v: read back %v", want, rules)
		}
	}
	for n := range base {
		behind(append([]insn{mark()}, base[:n]...)) // cut short: no panic
	}
}

func TestDisallowV1(t *testing.T) {
	b := newBed(t, V1)
	b.restrictV1(b.cgroup, "c 1:8 rwm", "c 1:11 r")
	c := b.open(b.cgroup)
	before := b.listed(b.cgroup)
	_, err := c.Allow([]Rule{{'c', 1, 11, "rwm"}, {'c', 1, 1, "rwm"}, {'c', 1, 8, "rw"}}, Options{})
	must(t, err)
	config := []Rule{{'c', 1, 8, "rwm"}, {'c', 1, 11, "r"}}
	must(t, c.Disallow([]Rule{{'c', 1, 11, "rwm"}, {'c', 1, 1, "rwm"}, {'c', 1, 8, "rw"}}, config, Options{}))
	after := b.listed(b.cgroup)
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		t.Errorf("list %q, want %q", after, before)
	}
	must(t, c.Disallow(memRule, nil, Options{}))
}

func TestDisallowAfterTheCgroupIsGone(t *testing.T) {
	for _, v := range []Version{V1, V2} {
		b := newBed(t, v)
		c := b.open(b.cgroup)
		must(t, os.Remove(b.cgroup))
		if err := c.Disallow(kmsgRule, nil, Options{}); err != nil {
			t.Errorf("%s: %v", v, err)
		}
		must(t, os.Mkdir(b.cgroup, 0o755))
	}
}
