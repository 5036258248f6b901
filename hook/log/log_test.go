package log

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	for _, e := range []Entry{
		{Level: Warning, Message: "left out\nsomething", Fields: map[string]string{FieldContainer: "c1", FieldStage: "createRuntime", FieldName: ""}},
		{Level: Error, Message: "no"},
	} {
		if err := Send(name, e); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	want := []string{` warning: left out; something CONTAINER_ID="c1" OCI_STAGE="createRuntime"`, " error: no"}
	if len(lines) != len(want) {
		t.Fatalf("%q", lines)
	}
	for i := range want {
		if !strings.HasSuffix(lines[i], want[i]) {
			t.Errorf("line %q, want it to end in %q", lines[i], want[i])
		}
	}
}

func TestFileRefusals(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, "relative", dir, filepath.Join(dir, "none", "log")} {
		if err := Send(name, Entry{Level: Error, Message: "x"}); err == nil {
			t.Errorf("%s was written to", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("a link was followed")
	}
}

func TestLevels(t *testing.T) {
	for name, want := range map[string]Level{"error": Error, "warning": Warning, "info": Info, "debug": Debug} {
		if l, err := ParseLevel(name); err != nil || l != want || l.String() != name {
			t.Errorf("%s: %v %v", name, l, err)
		}
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("an unknown level was accepted")
	}
}
