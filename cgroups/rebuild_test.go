package cgroups

import (
	"strings"
	"testing"
)

func allow(r Rule) Decision { return Decision{Allow: true, Rule: r} }
func deny(r Rule) Decision  { return Decision{Rule: r} }

var everything = Rule{'a', Any, Any, "rwm"}

// runtimeList is what runc and crun are asked for by a usual config and add themselves.
func runtimeList() []Decision {
	return []Decision{
		deny(everything),
		allow(Rule{'c', Any, Any, "m"}), allow(Rule{'b', Any, Any, "m"}),
		allow(Rule{'c', 1, 3, "rwm"}), allow(Rule{'c', 1, 5, "rwm"}), allow(Rule{'c', 1, 7, "rwm"}),
		allow(Rule{'c', 1, 8, "rwm"}), allow(Rule{'c', 1, 9, "rwm"}), allow(Rule{'c', 5, 0, "rwm"}),
		allow(Rule{'c', 5, 2, "rwm"}), allow(Rule{'c', 136, Any, "rwm"}),
	}
}

// What is rebuilt of a runtime's list means what the runtime made of it.
func TestRebuiltIsTheRuntimes(t *testing.T) {
	for _, c := range []struct {
		program string
		more    []Decision
	}{
		{"crun", nil},
		{"runc", []Decision{allow(Rule{'c', 10, 200, "rwm"})}},
	} {
		code, err := rebuilt(append(runtimeList(), c.more...))
		must(t, err)
		ours, theirs := &emulator{code: code}, &emulator{code: dump(t, c.program)}
		for q := range requests() {
			ours.steps, theirs.steps = maxSteps, maxSteps
			if got, want := ours.run(q), theirs.run(q); got != want {
				t.Errorf("%s: %+v: %v, want %v", c.program, q, got, want)
			}
		}
	}
}

func TestRebuiltLists(t *testing.T) {
	fuse, kvm := Rule{'c', 10, 229, "rwm"}, Rule{'c', 10, 232, "rwm"}
	part := func(r Rule, access string) Rule { r.Access = access; return r }
	wide := Rule{'c', 10, Any, "rwm"}
	for name, c := range map[string]struct {
		list      []Decision
		fuse, kvm verdict
		refused   string
	}{
		"nothing said":              {nil, denies, denies, ""},
		"allow all":                 {[]Decision{allow(everything)}, allows, allows, ""},
		"allow all but one":         {[]Decision{allow(everything), deny(fuse)}, denies, allows, ""},
		"allow all at last":         {[]Decision{deny(everything), allow(fuse), allow(everything)}, allows, allows, ""},
		"deny all at last":          {[]Decision{allow(fuse), deny(everything)}, denies, denies, ""},
		"allow and deny the same":   {[]Decision{allow(fuse), deny(fuse), allow(kvm)}, denies, allows, ""},
		"deny, then allow the same": {[]Decision{allow(everything), deny(fuse), allow(fuse)}, allows, allows, ""},
		"in two parts":              {[]Decision{allow(part(fuse, "r")), allow(part(fuse, "wm"))}, allows, denies, ""},
		"deny what is not allowed":  {[]Decision{allow(fuse), deny(kvm)}, allows, denies, ""},
		"part of access":            {[]Decision{allow(fuse), deny(part(fuse, "w"))}, 0, 0, `rule "deny c 10:229 w"`},
		"part of numbers":           {[]Decision{allow(wide), deny(fuse)}, 0, 0, `rule "deny c 10:229 rwm"`},
		"more numbers":              {[]Decision{allow(fuse), deny(wide)}, 0, 0, `rule "deny c 10:* rwm"`},
		"deny reading only":         {[]Decision{allow(everything), deny(part(fuse, "r"))}, 0, 0, `rule "deny c 10:229 r"`},
		"a part of all":             {[]Decision{allow(Rule{'a', 10, Any, "rwm"})}, 0, 0, "type a"},
		"no access":                 {[]Decision{allow(part(fuse, ""))}, 0, 0, "access"},
		"no such device":            {[]Decision{allow(Rule{'c', 1 << 33, 0, "rwm"}), allow(fuse)}, allows, denies, ""},
	} {
		code, err := rebuilt(c.list)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: error %v, want one with %q", name, err, c.refused)
			}
			continue
		}
		must(t, err)
		if got := [2]verdict{judge(code, fuse), judge(code, kvm)}; got != [2]verdict{c.fuse, c.kvm} {
			t.Errorf("%s: %v, want %v", name, got, [2]verdict{c.fuse, c.kvm})
		}
	}
}
