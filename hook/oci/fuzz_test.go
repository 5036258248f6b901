package oci

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzState(f *testing.F) {
	for _, name := range []string{"runc", "crun", "youki"} {
		raw, err := os.ReadFile("testdata/state-" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadState(strings.NewReader(text))
		if err != nil {
			if s != nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v %q", s, err)
			}
			return
		}
		if s.Check() == nil && (s.Pid < 2 || strings.Contains(s.ID, "/") || s.Bundle[0] != '/') {
			t.Fatalf("checked: %+v", s)
		}
		doc, err := s.withPid(7)
		if err != nil {
			t.Fatal(err)
		}
		var again State
		if err := json.Unmarshal(doc, &again); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzConfig(f *testing.F) {
	f.Add(someConfig)
	f.Add(`{"mounts":[null],"linux":{"namespaces":[null]},"hooks":{"prestart":[null]},"root":{}}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		name := writeFile(t, text, dir, "config.json")
		c, err := ReadConfigFile(name)
		if err != nil {
			if c != nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v %q", c, err)
			}
			return
		}
		// What is decoded in parts is what the whole type would have had.
		var whole Config
		if err := json.Unmarshal([]byte(text), &whole); err == nil {
			have, _ := json.Marshal(c.Mounts)
			want, _ := json.Marshal(whole.Mounts)
			if string(have) != string(want) {
				t.Fatalf("mounts %s, want %s", have, want)
			}
		}
		root, err := RootPath("/b", c, &State{})
		if err == nil && !filepath.IsAbs(root) {
			t.Fatalf("root %q", root)
		}
	})
}

func FuzzIDMap(f *testing.F) {
	f.Add("0 100000 65536\n", uint32(5))
	f.Add("0 0 4294967295", uint32(1<<32-1))
	f.Fuzz(func(t *testing.T, text string, id uint32) {
		m, err := ParseIDMap(text)
		if err != nil {
			return
		}
		if host, ok := m.ToHost(id); ok && len(m) == 1 && uint64(host) != (m[0].outside+uint64(id)-m[0].inside)&(1<<32-1) {
			t.Fatalf("%v: %d is %d", m, id, host)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add("7 (a) Z 1 (b)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20\n")
	f.Add("7 (sh")
	f.Fuzz(func(t *testing.T, comm string) {
		// Whatever a process calls itself, its start time is the same.
		stat := "7 (" + comm + ") S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20\n"
		if have, err := startTime(stat); have != 4242 || err != nil {
			t.Fatalf("%q: %d %v", comm, have, err)
		}
		_, _ = startTime(comm)
	})
}
