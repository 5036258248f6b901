package integration

import (
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"oci-cdi-hook/integration/report"
)

// requireSame compares line by line and allows exactly the differences in want.
func requireSame(t *testing.T, what string, a, b, want []string) {
	t.Helper()
	got := report.Diff(a, b)
	if d := report.Diff(want, got); len(d) > 0 {
		t.Errorf("%s: unexpected difference (+) or an expected one missing (-):\n%s", what, strings.Join(d, "\n"))
	}
}

func requireRefusal(t *testing.T, o outcome, word string) {
	t.Helper()
	if !o.refused {
		t.Errorf("the container started:\n%s", strings.Join(o.lines, "\n"))
	}
	if !strings.Contains(o.reason, word) {
		t.Errorf("the reason lacks %q: %s", word, o.reason)
	}
}

// pathsOf finds the container paths of a spec, also of one that the library refuses.
func pathsOf(text string) []string {
	type edits struct {
		DeviceNodes []struct{ Path string } `yaml:"deviceNodes"`
		Mounts      []struct {
			ContainerPath string `yaml:"containerPath"`
		} `yaml:"mounts"`
	}
	var doc struct {
		Edits   edits `yaml:"containerEdits"`
		Devices []struct {
			Edits edits `yaml:"containerEdits"`
		} `yaml:"devices"`
	}
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	all := []edits{doc.Edits}
	for _, d := range doc.Devices {
		all = append(all, d.Edits)
	}
	var out []string
	add := func(p string) {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, e := range all {
		for _, n := range e.DeviceNodes {
			add(n.Path)
		}
		for _, m := range e.Mounts {
			add(m.ContainerPath)
		}
	}
	return out
}

// alike are the lines that speak of the same thing.
func alike(lines []string, want string) []string {
	f := strings.SplitN(want, " ", 3)
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, f[0]+" "+f[1]) })
}
