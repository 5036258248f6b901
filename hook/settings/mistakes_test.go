package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oci-cdi-hook/hook/policy"
)

func TestMistakes(t *testing.T) {
	tests := []struct{ name, input, want string }{
		{"unknown key", "cgroup = \"auto\"\n\nalow = 1\n", ":3: alow: unknown key, known here are spec-dirs, "},
		{"unknown key in another case", "Cgroup = \"auto\"\n", ":1: Cgroup: unknown key"},
		{"unknown quoted key", "\"a b\" = 1\n", ":1: \"a b\": unknown key"},
		{"empty key", "cgroup = \"auto\"\n\"\" = 1\n", ":2: \"\": unknown key"},
		{"key that is written with escapes", "\n\"al\\u006Fw\" = 1\n", ":2: alow: unknown key"},
		{"unknown table", "\n[mount]\nsources = []\n", ":2: mount: unknown key"},
		{"unknown key of a table", "[mounts]\nsources = []\nsource = []\n", ":3: mounts.source: unknown key, known here are sources"},
		{"unknown key of the first rule", "[[allow]]\ndevices = [\"v.example/x=y\"]\nnamespace = [\"a\"]\n[[allow]]\ndevices = [\"v.example/x=y\"]\n",
			":3: [[allow]] 1: namespace: unknown key, known here are devices, namespaces, origin"},
		{"unknown key of the second rule", "[[deny]]\ndevices = [\"v.example/x=y\"]\n# namespace\n[[deny]]\ndevices = [\n\"v.example/x=y\"]\nnamespace = [\"a\"]\n",
			":7: [[deny]] 2: namespace: unknown key"},
		{"key of the top below a table", "[mounts]\nsources = []\nlog = \"auto\"\n", ":3: mounts.log: unknown key"},

		{"string for a list", "spec-dirs = \"/etc/cdi\"\n", ":1: spec-dirs: a string where an array of strings belongs"},
		{"number in a list", "spec-dirs = [\"/etc/cdi\", 1]\n", ":1: spec-dirs: an integer in an array of strings"},
		{"tables for a list", "spec-dirs = [{a = 1}]\n", ":1: spec-dirs: a table in an array of strings"},
		{"array of tables for a list", "[[spec-dirs]]\na = 1\n", ":1: spec-dirs: a table in an array of strings"},
		{"list for a string", "\nlog = [\"auto\"]\n", ":2: log: an array where a string belongs"},
		{"boolean", "unsupported = true\n", ":1: unsupported: a boolean where a string belongs"},
		{"float", "unsupported = 1.5\n", ":1: unsupported: a float where a string belongs"},
		{"date", "log = 2020-01-01\n", ":1: log: a date or time where a string belongs"},
		{"one table for many", "[allow]\ndevices = [\"v.example/x=y\"]\n", ":1: allow: a table where tables belong: write [[allow]]"},
		{"strings for tables", "deny = [\"v.example/x=y\"]\n", ":1: deny: an array where tables belong: write [[deny]]"},
		{"mixed array for tables", "deny = [{devices = [\"v.example/x=y\"]}, 1]\n", ":1: deny: an array where tables belong: write [[deny]]"},
		{"tables for one", "[[mounts]]\nsources = []\n", ":1: mounts: an array where a table belongs: write [mounts]"},

		{"enum", "cgroup = \"Auto\"\n", ":1: cgroup: \"Auto\": none of auto, require, skip"},
		{"enum of another key", "systemd = \"require\"\n", ":1: systemd: \"require\": none of auto, skip"},
		{"enum", "unsupported = \"ignore\"\n", ":1: unsupported: \"ignore\": none of warn, fail"},
		{"enum", "trusted-specs = \"\"\n", ":1: trusted-specs: \"\": none of require, warn"},
		{"relative directory", "spec-dirs = [\n  \"/etc/cdi\",\n  \"cdi\",\n]\n", ":1: spec-dirs: \"cdi\": not an absolute path"},
		{"unclean directory", "spec-dirs = [\"/etc/cdi/\"]\n", ":1: spec-dirs: \"/etc/cdi/\": write \"/etc/cdi\""},
		{"no directories", "spec-dirs = []\n", ":1: spec-dirs: empty array"},
		{"unclean source", "[mounts]\nsources = [\"/usr/../root\"]\n", ":2: mounts.sources: \"/usr/../root\": write \"/root\""},
		{"prefix without slash", "annotation-prefixes = [\"cdi.k8s.io\"]\n", ":1: annotation-prefixes: \"cdi.k8s.io\": not of the form"},
		{"empty prefix", "annotation-prefixes = [\"\"]\n", ":1: annotation-prefixes: \"\": would match every annotation"},
		{"no prefixes", "annotation-prefixes = []\n", ":1: annotation-prefixes: empty array"},
		{"variable", "ignore-env = [\"A=b\", \"void\"]\n", ":1: ignore-env: \"void\": not of the form NAME=value"},
		{"log", "log = \"stderr\"\n", ":1: log: \"stderr\": neither \"auto\" nor a file"},

		{"broken glob", "[[allow]]\ndevices = [\"v.example/x=[\"]\n", ":2: [[allow]] 1: devices: \"v.example/x=[\": broken glob"},
		{"glob of vendors", "[[deny]]\ndevices = [\"*\"]\n", ":2: [[deny]] 1: devices: \"*\": not of the form"},
		{"broken glob of namespaces", "[[allow]]\nnamespaces = [\"a[\"]\ndevices = [\"v.example/x=y\"]\n", ":2: [[allow]] 1: namespaces: \"a[\": broken glob"},
		{"no devices", "[[allow]]\ndevices = [\"v.example/x=y\"]\n\n[[allow]]\nnamespaces = [\"a\"]\n", ":4: [[allow]] 2: no devices"},
		{"empty devices", "[[allow]]\ndevices = []\n", ":2: [[allow]] 1: devices: empty array"},
		{"empty namespaces", "[[allow]]\ndevices = [\"v.example/x=y\"]\nnamespaces = []\n", ":3: [[allow]] 1: namespaces: empty array"},
		{"origin", "[[deny]]\ndevices = [\"v.example/x=y\"]\norigin = \"node\"\n", ":3: [[deny]] 1: origin: \"node\": neither \"pod\" nor \"container\""},
		{"rule that matches nothing", "[[allow]]\ndevices = [\"v.example/x=y\"]\norigin = \"pod\"\n", ":1: [[allow]] 1: without namespaces it is about containers that are no pods"},
		{"second rule inline", "deny = [\n  {devices = [\"v.example/x=y\"]},\n  {devices = [\"x\"]},\n]\n", ":2: [[deny]] 2: devices: \"x\": not of the form"},

		{"no TOML", "cgroup auto\n", ":1: expected"},
		{"unterminated", "\n\nlog = \"auto\n", ":3: basic strings cannot have new lines"},
		{"twice", "log = \"auto\"\nlog = \"auto\"\n", ":2: \"log\": key log is already defined"},
		{"control character", "log = \"a\x01\"\n", ":1: basic strings cannot have control characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"config.toml", "conf.d/a.toml"} {
				file := write(t, map[string]string{"config.toml": "", name: tt.input})
				s, err := load(t, file)
				if err == nil || s != nil {
					t.Fatalf("%+v, %v", s, err)
				}
				full := filepath.Join(filepath.Dir(file), name)
				if !strings.HasPrefix(err.Error(), full+tt.want) {
					t.Errorf("%v\nwant %s%s", err, full, tt.want)
				}
				if strings.ContainsAny(err.Error(), "\n\r") {
					t.Errorf("more than a line: %q", err)
				}
			}
		})
	}
}

func TestEveryMistakeIsNamed(t *testing.T) {
	file := write(t, map[string]string{"config.toml": "zzz = 1\nlog = 2\n[[deny]]\nwhat = 3\ncgroup = 4\n"})
	_, err := load(t, file)
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{":1: zzz: ", ":2: log: ", ":4: [[deny]] 1: what: ", ":5: [[deny]] 1: cgroup: "}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], file+want[i]) {
			t.Errorf("%s, want %s", lines[i], want[i])
		}
	}
}

func TestManyMistakes(t *testing.T) {
	var input strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&input, "[[allow]]\ndevice = [\"v.example/x=%d\"]\n", i)
	}
	_, err := load(t, write(t, map[string]string{"config.toml": input.String()}))
	if err == nil || strings.Count(err.Error(), "\n") != maxMistakes-1 {
		t.Errorf("%v", err)
	}
}

func TestNoFile(t *testing.T) {
	big := write(t, map[string]string{"config.toml": strings.Repeat("#\n", maxFile/2) + "#"})
	if _, err := load(t, big); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
	dir := write(t, map[string]string{"config.toml/x": ""})
	if _, err := load(t, dir); err == nil {
		t.Error("a directory was read")
	}
	file := write(t, map[string]string{"config.toml": "", "conf.d": ""})
	if _, err := load(t, file); err == nil {
		t.Error("conf.d is a file")
	}
	dangling := write(t, map[string]string{"config.toml": "", "conf.d/a.toml": ""})
	if err := os.Symlink("nowhere", filepath.Join(filepath.Dir(dangling), "conf.d/b.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, dangling); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("dangling link: %v", err)
	}
}

// FuzzDecode: whatever is in a file, either it is refused with a line, or what comes out is
// valid, and the rules are those that the library sees.
func FuzzDecode(f *testing.F) {
	example, err := os.ReadFile("example.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add("allow = [{devices = [\"v.example/x=*\"], namespaces = [\"a\"]}]\n\"\" = 1")
	f.Add("[[deny]]\ndevices = ['v.example/x=[']\n[deny.x]\n")
	f.Add("mounts.sources = []\nmounts.x.y = 1\n[[allow.devices]]\n")
	f.Fuzz(func(t *testing.T, input string) {
		s := Defaults()
		if err := s.decode("/f", input); err != nil {
			if !strings.HasPrefix(err.Error(), "/f:") {
				t.Errorf("no place: %q", err)
			}
			return
		}
		for _, dir := range append(s.SpecDirs, s.Policy.Sources...) {
			if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
				t.Errorf("directory %q", dir)
			}
		}
		for _, prefix := range s.AnnotationPrefixes {
			if len(prefix) < 2 || !strings.HasSuffix(prefix, "/") {
				t.Errorf("prefix %q", prefix)
			}
		}
		for _, r := range append(s.Policy.Allow, s.Policy.Deny...) {
			if len(r.Devices) == 0 || r.Namespaces != nil && len(r.Namespaces) == 0 {
				t.Errorf("rule %+v", r)
			}
			for _, pattern := range r.Devices {
				if err := policy.CheckDevice(pattern); err != nil {
					t.Errorf("%q: %v", pattern, err)
				}
			}
		}
	})
}
