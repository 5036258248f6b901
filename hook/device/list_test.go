package device

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

func TestList(t *testing.T) {
	etc := writeSpecs(t, map[string]string{"a.yaml": specFor("etc", "x", "y"), "b.yaml": specFor("etc", "c"), "c.yaml": specFor("etc", "c"), "bad.json": "{\n"})
	run := writeSpecs(t, map[string]string{"d.yaml": specFor("run", "x")})
	r := Registry{Dirs: []string{etc, run}}
	got, err := json.Marshal(r.List())
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	quote := func(dir, file string) string {
		text, _ := json.Marshal(filepath.Join(dir, file))
		return string(text)
	}
	want.WriteString(`{"devices":[` +
		`{"name":"v.example/dev=x","spec":` + quote(run, "d.yaml") + `,"priority":1},` +
		`{"name":"v.example/dev=y","spec":` + quote(etc, "a.yaml") + `,"priority":0}],` +
		`"shadowed":[{"name":"v.example/dev=x","spec":` + quote(etc, "a.yaml") + `,"priority":0,"by":` + quote(run, "d.yaml") + `}],` +
		`"conflicts":[{"name":"v.example/dev=c","priority":0,"specs":[` + quote(etc, "b.yaml") + `,` + quote(etc, "c.yaml") + `]}],` +
		`"errors":[{"path":` + quote(etc, "bad.json") + `,"error":`)
	if !bytes.HasPrefix(got, want.Bytes()) {
		t.Errorf("got  %s\nwant %s...", got, want.Bytes())
	}
	for range 20 {
		again, _ := json.Marshal(r.List())
		if !bytes.Equal(got, again) {
			t.Fatalf("not deterministic:\n%s\n%s", got, again)
		}
	}
}

func TestListNothing(t *testing.T) {
	got, err := json.Marshal(Registry{Dirs: []string{"/no/such"}}.List())
	if want := `{"devices":[],"shadowed":[],"conflicts":[],"errors":[]}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
