package integration

import (
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

const everything = "deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}, {path: /opt/node, hostPath: /dev/loop-control}]"

// whole is a row with an edit of each kind that direct mode does.
func whole() row {
	return row{
		spec: device(everything, "mounts:\n"+mountItem("/opt/t/f", "/opt/f", "options: [bind, ro]")+mountItem("/opt/t/g", "/usr/lib/g", "options: [rbind]"),
			hooksOf(vendor("createRuntime", "outer"), vendor("createContainer", "inner"))),
		sweep: true,
	}
}

// TestTwiceIsOnce registers the hook in every way that makes a runtime call it more than once.
func TestTwiceIsOnce(t *testing.T) {
	r := whole()
	ways := map[string]mode{
		"listed twice": func(b *bed.Bundle, names []string) error {
			b.Annotate(names...)
			b.Register()
			b.Register()
			return nil
		},
		"at both stages": func(b *bed.Bundle, names []string) error {
			b.Annotate(names...)
			b.RegisterPrestart()
			b.Register()
			return nil
		},
		"beside the native way": func(b *bed.Bundle, names []string) error {
			b.Annotate(names...)
			b.Register()
			return b.InjectNatively(names...)
		},
	}
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		targets := r.prepare(t)
		once, native := r.run(t, rt, directly, targets), r.run(t, rt, natively, targets)
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				more := r.run(t, rt, way, targets)
				r.requireStarted(t, more)
				like := once
				if strings.HasPrefix(name, "beside") {
					like = native
				}
				requireSame(t, "once and twice", like.lines, more.lines, nil)
			})
		}
	})
}

// TestSameStateTwice feeds one state by hand, while the container waits, and looks after each time.
func TestSameStateTwice(t *testing.T) {
	r := whole()
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		r.prepare(t)
		b := bed.NewBundle(t)
		b.Annotate("v.example/dev=a")
		b.Ask(report.Ask{Paths: []string{"/dev/one", "/opt/node", "/opt/f", "/usr/lib/g"}})
		held := b.Hold(rt)
		state := func() string { return with(nil)(t, asMap(t, held.State)) }
		command := slices.Concat([]string{bed.Hook(t)}, bed.HookArgs("createRuntime"))
		before := held.View()
		for n := range 3 {
			if res := bed.Run(t, state(), nil, command...); res.Code != 0 || res.Stderr != "" {
				t.Errorf("run %d: exit %d: %s", n, res.Code, res.Stderr)
			}
			if n == 0 {
				if len(report.Diff(before, held.View())) == 0 {
					t.Error("the first run changed nothing")
				}
				before = held.View()
				continue
			}
			requireSame(t, "after one run and after more", before, held.View(), nil)
		}
		if n := len(bed.Traces(t)); n != 2 {
			t.Errorf("%d vendor hooks ran instead of 2", n)
		}
		if n := len(bed.Records(t)); n != 1 {
			t.Errorf("%d records instead of one", n)
		}
		rep := bed.ReadReport(t, held.Release().Stdout).Lines(nil)
		for _, want := range []string{"path /dev/one c 10:229 0600 0:0 open=ok access=rw", `path /opt/f - 0644 0:0 has="stand-in of /opt/t/f"`} {
			if !slices.Contains(rep, want) {
				t.Errorf("there is no line %q in\n%s", want, strings.Join(rep, "\n"))
			}
		}
	})
}
