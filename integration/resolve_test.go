package integration

import (
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
)

func printing(name, value string) string {
	return "cdiVersion: 0.6.0\nkind: v.example/dev\ndevices:\n- {name: " + name + ", containerEdits: {env: [SRC=" + value + "]}}\n"
}

// TestDirectories lists devices of several folders; in each the later one wins.
func TestDirectories(t *testing.T) {
	const low, high = bed.WorkDir + "/low", bed.WorkDir + "/high"
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	for path, text := range map[string]string{
		low + "/a.yaml": printing("x", "low") + "- {name: y, containerEdits: {env: [SRC=low]}}\n", high + "/b.yaml": printing("x", "high"),
		low + "/c.yaml": printing("twice", "c"), low + "/d.json": printing("twice", "d"), high + "/e.yaml": printing("once", "e"),
	} {
		h.File(path, text, 0o644)
	}
	list := readList(t, "--spec-dir", "/no/such", "--spec-dir", low, "--spec-dir", high)
	if len(list.Errors) != 0 {
		t.Errorf("a missing folder is no error: %+v", list.Errors)
	}
	for name, spec := range map[string]string{"v.example/dev=x": high + "/b.yaml", "v.example/dev=y": low + "/a.yaml", "v.example/dev=once": high + "/e.yaml"} {
		found := false
		for _, d := range list.Devices {
			found = found || d.Name == name && d.Spec == spec
		}
		if !found {
			t.Errorf("%s of %s is not listed: %+v", name, spec, list.Devices)
		}
	}
	if slices.Contains(list.names(), "v.example/dev=twice") {
		t.Error("a device of two files in one folder is listed")
	}
	if len(list.Shadowed) == 0 || len(list.Conflicts) == 0 {
		t.Errorf("shadowed %v, conflicts %v", list.Shadowed, list.Conflicts)
	}
}

// TestConflict asks for a device that two files of one folder have.
func TestConflict(t *testing.T) {
	row := func(more string) row {
		return row{
			spec: device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]"), refused: bed.SpecDir + "/spec.yaml",
			host: func(h *bed.Host) { h.File(bed.SpecDir+"/other.json", more, 0o644) },
		}
	}
	bed.Each(t, row(printing("a", "other")).compare)
}

// TestMalformedThroughARuntime has runtimes report what the hook says of a request.
func TestMalformedThroughARuntime(t *testing.T) {
	var rows []row
	for _, value := range []string{"v.example/dev=a, v.example/dev=a", "v.example/dev=a,", "/dev/null", "v.example/dev:a"} {
		rows = append(rows, row{
			name: value, spec: device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]"), devices: strings.Split(value, ","), refused: bed.AnnotationKey,
		})
	}
	compareAll(t, rows)
}
