package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestVersion: the program, and the libraries as go.mod has them.
func TestVersion(t *testing.T) {
	const cdi = "tags.cncf.io/container-device-interface"
	raw, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(`\t(` + regexp.QuoteMeta(cdi) + ` v\S+)`).FindStringSubmatch(string(raw))
	if wanted == nil {
		t.Fatal("go.mod has no " + cdi)
	}
	r := runWith(t, "", "version")
	if !strings.HasPrefix(r.out, "oci-cdi-hook unknown (commit unknown)\ngo1.") || !strings.Contains(r.out, "\n"+wanted[1]+"\n") {
		t.Errorf("%+v, want %s in it", r, wanted[1])
	}
	var p program
	r = runWith(t, "", "version", "--json")
	if err := json.Unmarshal([]byte(r.out), &p); err != nil || r.code != exitDone {
		t.Fatalf("%+v %v", r, err)
	}
	for _, m := range p.Modules {
		if m.Path+" "+m.Version == wanted[1] {
			return
		}
	}
	t.Errorf("%+v is without %s", p, wanted[1])
}
