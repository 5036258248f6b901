package device

import (
	"path/filepath"
	"testing"
)

// describe lists the edits of a resolution as "device spec-file[ spec]".
func describe(res *Resolution) []string {
	var lines []string
	for _, e := range res.Edits {
		line := e.Device + " " + filepath.Base(e.SpecPath)
		if e.SpecLevel {
			line += " spec"
		}
		lines = append(lines, line)
	}
	return lines
}

// sourceOf returns the SRC variable of a resolved device.
func sourceOf(t *testing.T, r Registry, name string) string {
	t.Helper()
	res := mustResolve(t, r, name)
	return res.Edits[len(res.Edits)-1].Edits.Env[0]
}

func TestResolveOrder(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"one.yaml": specFor("1", "a", "b", "c"), "two.yaml": specFor("2", "x", "y")})
	r := Registry{Dirs: []string{dir}}
	const k = "v.example/dev="
	tests := []struct {
		name, devices, edits []string
	}{
		{[]string{k + "a"}, []string{k + "a"}, []string{k + "a one.yaml spec", k + "a one.yaml"}},
		{[]string{k + "b", k + "x", k + "a"}, []string{k + "b", k + "x", k + "a"},
			[]string{k + "b one.yaml spec", k + "b one.yaml", k + "x two.yaml spec", k + "x two.yaml", k + "a one.yaml"}},
		{[]string{k + "a", k + "b", k + "a"}, []string{k + "a", k + "b"},
			[]string{k + "a one.yaml spec", k + "b one.yaml", k + "a one.yaml"}},
		{[]string{k + "a", k + "a", k + "a"}, []string{k + "a"}, []string{k + "a one.yaml spec", k + "a one.yaml"}},
		{[]string{k + "a", k + "x", k + "a", k + "y", k + "x"}, []string{k + "a", k + "x", k + "y"},
			[]string{k + "a one.yaml spec", k + "x two.yaml spec", k + "a one.yaml", k + "y two.yaml", k + "x two.yaml"}},
	}
	for _, tt := range tests {
		res := mustResolve(t, r, tt.name...)
		wantEqual(t, "devices", res.Devices, tt.devices)
		wantEqual(t, "edits", describe(res), tt.edits)
	}
}

func TestResolveNothing(t *testing.T) {
	res := mustResolve(t, Registry{Dirs: []string{"/no/such"}})
	if len(res.Devices)+len(res.Edits) != 0 {
		t.Errorf("got %v", res)
	}
}

func TestLaterDirectoryWins(t *testing.T) {
	etc := writeSpecs(t, map[string]string{"a.yaml": specFor("etc", "x", "only-etc")})
	run := writeSpecs(t, map[string]string{"b.yaml": specFor("run", "x")})
	r := Registry{Dirs: []string{etc, run}}
	for name, want := range map[string]string{"x": "SRC=run", "only-etc": "SRC=etc"} {
		if got := sourceOf(t, r, "v.example/dev="+name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := sourceOf(t, Registry{Dirs: []string{run, etc}}, "v.example/dev=x"); got != "SRC=etc" {
		t.Errorf("reversed: %s", got)
	}
}

func TestMissingDirectoryIsQuiet(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"a.yaml": specFor("run", "x")})
	r := Registry{Dirs: []string{"/no/such", dir}}
	mustResolve(t, r, "v.example/dev=x")
	if l := r.List(); len(l.Errors) != 0 || len(l.Devices) != 1 {
		t.Errorf("listing: %+v", l)
	}
}

func TestConflict(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"a.yaml": specFor("a", "x"), "b.json": specFor("b", "x"), "c.yaml": specFor("c", "z")})
	r := Registry{Dirs: []string{dir}}
	mustResolve(t, r, "v.example/dev=z")
	e := refused(t, r, "v.example/dev=x", "v.example/dev=z")
	wantIn(t, e.Error(), "conflicting device", "v.example/dev=x", filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.json"))
	wantNotIn(t, e.Error(), "c.yaml", "dev=z")
}

func TestConflictBelowVoidsTheDefinitionAbove(t *testing.T) {
	low := writeSpecs(t, map[string]string{"a.yaml": specFor("a", "x"), "b.yaml": specFor("b", "x")})
	high := writeSpecs(t, map[string]string{"c.yaml": specFor("c", "x")})
	r := Registry{Dirs: []string{low, high}}
	e := refused(t, r, "v.example/dev=x")
	wantIn(t, e.Error(), "conflicting device", "a.yaml", "b.yaml", "voids", filepath.Join(high, "c.yaml"))
	l := r.List()
	if len(l.Devices) != 0 || len(l.Conflicts) != 1 || len(l.Conflicts[0].Voided) != 1 {
		t.Errorf("listing: %+v", l)
	}
}

func TestUnresolvedNamesAll(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"a.yaml": specFor("a", "a")})
	e := refused(t, Registry{Dirs: []string{"/no/such", dir}}, "v.example/dev=zz", "v.example/dev=a", "w.example/dev=yy", "v.example/dev=zz")
	var names []string
	for _, item := range e.Items {
		names = append(names, item.Name)
	}
	wantEqual(t, "items", names, []string{"v.example/dev=zz", "w.example/dev=yy"})
	wantIn(t, e.Error(), "/no/such (missing)", dir, "did you mean v.example/dev=a?", "no usable spec of kind w.example/dev")
	if e.ExitCode() != 3 {
		t.Errorf("exit code %d", e.ExitCode())
	}
}

func TestUnresolvedTellsWhy(t *testing.T) {
	tests := []struct {
		name, file, spec string
		in               []string
	}{
		{"too old for additionalGids", "x.yaml", specWith("0.6.0", "{additionalGids: [44]}"), []string{"at least v0.7.0", "x.yaml"}},
		{"empty sibling", "x.yaml", "cdiVersion: 0.6.0\nkind: v.example/dev\ncontainerEdits: {env: [LD=x]}\ndevices: [{name: demo1}, {name: a, containerEdits: {env: [A=1]}}]",
			[]string{"empty device edits", "x.yaml", "demo1"}},
		{"null", "x.yaml", specWith("0.6.0", "{deviceNodes: [null]}"), []string{"null device node", "x.yaml"}},
		{"unknown field", "x.yaml", specWith("1.2.0", "{deviceCgroupRules: [{type: c}]}"), []string{"deviceCgroupRules", "x.yaml"}},
		{"broken", "x.json", `{"kind": "v.example/dev",`, []string{"x.json", "yaml"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other := "cdiVersion: 0.5.0\nkind: other.example/dev\ndevices: [{name: a, oops: 1}]\n"
			dir := writeSpecs(t, map[string]string{tt.file: tt.spec, "good.yaml": specFor("good", "good1"), "other.yaml": other})
			r := Registry{Dirs: []string{dir}}
			mustResolve(t, r, "v.example/dev=good1")
			e := refused(t, r, "v.example/dev=a")
			wantIn(t, e.Error(), tt.in...)
			wantNotIn(t, e.Error(), "/proc/self/fd", "other.yaml")
		})
	}
}

func TestDraftForm(t *testing.T) {
	r := Registry{Dirs: []string{"testdata/fixtures"}}
	e := refused(t, r, "vendor.com/device=myDevice")
	wantIn(t, e.Error(), "testdata/fixtures/draft-form.json", "form of the first CDI proposals", "cdiDevices")
	wantNotIn(t, e.Error(), "nvidia")
}

func TestSpecAppears(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"spec.123.tmp": specFor("tmp", "x")})
	r := Registry{Dirs: []string{dir}}
	e := refused(t, r, "v.example/dev=x")
	wantIn(t, e.Error(), "no usable spec of kind v.example/dev", "searched "+dir)
}

func TestNearNames(t *testing.T) {
	dir := writeSpecs(t, map[string]string{"a.yaml": specFor("a", "gpu0", "gpu1", "all", "GPU-0000-1111", "GPU-0000-2222", "zzzzzzzz")})
	r := Registry{Dirs: []string{dir}}
	for name, want := range map[string][]string{
		"gpu=0":         nil, // malformed, checked below
		"gpu":           {"v.example/dev=gpu0", "v.example/dev=gpu1"},
		"0":             {"v.example/dev=gpu0"},
		"gpu-all":       {"v.example/dev=all"},
		"al":            {"v.example/dev=all"},
		"GPU-0000-1112": {"v.example/dev=GPU-0000-1111", "v.example/dev=GPU-0000-2222"},
	} {
		e := refused(t, r, "v.example/dev="+name)
		wantEqual(t, name, e.Items[0].Near, want)
	}
	wantIn(t, refused(t, r, "v.example/dev=gpu=0").Error(), "not of the form vendor/class=name")
	wantIn(t, refused(t, r, "v.example/dev=qqqqqqqq").Error(), "not among the 6 devices of kind v.example/dev")
}

func TestResolveMalformedNames(t *testing.T) {
	r := Registry{Dirs: []string{t.TempDir()}}
	for _, name := range []string{"", "x", "/dev/null", "v.example/dev=", "a/b=c\n", "\\/!=x"} {
		_ = refused(t, r, name)
	}
}
