package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/policy"
	"oci-cdi-hook/hook/trust"
)

// write makes a configuration of files, by name, and returns the path of config.toml.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(full, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "config.toml")
}

func load(t testing.TB, file string) (*Settings, error) {
	t.Helper()
	c := &trust.Checker{}
	defer c.Close()
	return Load(file, c)
}

func mustLoad(t testing.TB, file string) *Settings {
	t.Helper()
	s, err := load(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExample(t *testing.T) {
	example, err := os.ReadFile("example.toml")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, map[string]string{"config.toml": string(example)})
	s := mustLoad(t, file)
	want := Defaults()
	want.Files = []string{file}
	want.Policy = policy.Policy{
		Allow: []policy.Rule{
			{Devices: []string{"nvidia.com/gpu=*"}, Namespaces: []string{"ml", "team-*"}, Where: file + ", allow 1"},
			{Devices: []string{"vendor.com/nic=*"}, Namespaces: []string{"*"}, Origin: policy.FromContainer, Where: file + ", allow 2"},
			{Devices: []string{"vendor.com/device=myDevice", "nvidia.com/gpu=*"}, Where: file + ", allow 3"},
		},
		Deny:    []policy.Rule{{Devices: []string{"management.nvidia.com/gpu=*"}, Where: file + ", deny 1"}},
		Sources: []string{},
		AddTo:   filepath.Join(filepath.Dir(file), "conf.d"),
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

// allKeys are the keys that a file can have.
func allKeys() []string {
	s := Defaults()
	all := []string{allowTable, denyTable, mountsTable}
	for _, keys := range [][]key{s.keys(), s.mountKeys(), ruleKeys(&policy.Rule{})} {
		for _, k := range keys {
			all = append(all, k.name)
		}
	}
	return all
}

func TestEveryKeyIsDocumented(t *testing.T) {
	example, err := os.ReadFile("example.toml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range allKeys() {
		if !strings.Contains(string(doc), name+"`") && !strings.Contains(string(doc), "["+name+"]") {
			t.Errorf("%s is not in docs/configuration.md", name)
		}
		if !strings.Contains(string(example), "\n"+name+" = ") && !strings.Contains(string(example), "["+name+"]") {
			t.Errorf("%s is not in example.toml", name)
		}
	}
	rows := 0
	for line := range strings.Lines(string(doc)) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			rows++
			if name, _, _ = strings.Cut(name, "`"); !slices.Contains(allKeys(), strings.TrimPrefix(name, "mounts.")) {
				t.Errorf("docs/configuration.md has the unknown key %s", name)
			}
		}
	}
	if rows < len(allKeys())-3 {
		t.Errorf("docs/configuration.md has rows for %d keys", rows)
	}
}

func TestDefaultPrefix(t *testing.T) {
	if DefaultPrefix != device.DefaultPrefix {
		t.Errorf("%q, not %q", DefaultPrefix, device.DefaultPrefix)
	}
}

func TestEveryValue(t *testing.T) {
	s := mustLoad(t, write(t, map[string]string{"config.toml": `
spec-dirs = ["/a", "/b/c"]
annotation-prefixes = ["x.example/", "cdi.k8s.io/"]
unsupported = "fail"
ignore-env = []
cgroup = "require"
systemd = "skip"
trusted-specs = "warn"
log = "/var/log/cdi.log"
mounts.sources = ["/usr", "/"]
deny = [{devices = ["v.example/x=*"], namespaces = ["n"], origin = "pod"}, {devices = ["v.example/y=*"]}]
`}))
	if !slices.Equal(s.SpecDirs, []string{"/a", "/b/c"}) || !slices.Equal(s.AnnotationPrefixes, []string{"x.example/", "cdi.k8s.io/"}) ||
		s.Unsupported != Fail || len(s.IgnoreEnv) != 0 || s.Cgroup != Require || s.Systemd != Skip || s.TrustedSpecs != Warn ||
		s.Log != "/var/log/cdi.log" || !slices.Equal(s.Policy.Sources, []string{"/usr", "/"}) || len(s.Policy.Deny) != 2 ||
		s.Policy.Deny[0].Origin != policy.FromPod || s.Policy.Deny[1].Devices[0] != "v.example/y=*" {
		t.Errorf("%+v", s)
	}
}

func TestLaterFiles(t *testing.T) {
	file := write(t, map[string]string{
		"config.toml":           "cgroup = \"skip\"\nspec-dirs = [\"/a\"]\nlog = \"/log\"\n[[allow]]\ndevices = [\"v.example/x=1\"]\n[mounts]\nsources = [\"/usr\"]\n",
		"conf.d/20.toml":        "cgroup = \"require\"\n[[allow]]\ndevices = [\"v.example/x=3\"]\n[[deny]]\ndevices = [\"v.example/x=4\"]\n",
		"conf.d/10.toml":        "cgroup = \"auto\"\nspec-dirs = [\"/b\", \"/c\"]\nallow = [{devices = [\"v.example/x=2\"]}]\nmounts.sources = []\n",
		"conf.d/30.toml.rpmnew": "not read",
		"conf.d/.40.toml":       "not read",
		"conf.d/README":         "not read",
	})
	s := mustLoad(t, file)
	var allowed []string
	for _, r := range s.Policy.Allow {
		allowed = append(allowed, r.Devices...)
	}
	if s.Cgroup != Require || !slices.Equal(s.SpecDirs, []string{"/b", "/c"}) || s.Log != "/log" || len(s.Policy.Sources) != 0 ||
		!slices.Equal(allowed, []string{"v.example/x=1", "v.example/x=2", "v.example/x=3"}) || len(s.Policy.Deny) != 1 {
		t.Errorf("%+v", s)
	}
	dir := filepath.Dir(file)
	if want := []string{file, dir + "/conf.d/10.toml", dir + "/conf.d/20.toml"}; !slices.Equal(s.Files, want) {
		t.Errorf("files %q, want %q", s.Files, want)
	}
	if want := dir + "/conf.d/20.toml, allow 1"; s.Policy.Allow[2].Where != want {
		t.Errorf("where %s, want %s", s.Policy.Allow[2].Where, want)
	}
}

func TestMissing(t *testing.T) {
	if _, err := load(t, filepath.Join(t.TempDir(), "config.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was named is missing: %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(DefaultFile)); err == nil {
		t.Skip("this machine has a configuration of its own")
	}
	s := mustLoad(t, "")
	want := Defaults()
	want.Policy.AddTo = "/etc/oci-cdi-hook/conf.d"
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v", s)
	}
}

// A link to nothing is not nothing: without the rules that were meant to be there, more
// would be allowed.
func TestDanglingLinks(t *testing.T) {
	for _, name := range []string{"config.toml", "conf.d"} {
		dir := t.TempDir()
		if name != "config.toml" {
			if err := os.WriteFile(filepath.Join(dir, "config.toml"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t, filepath.Join(dir, "config.toml")); err == nil {
			t.Errorf("a dangling %s was taken for none", name)
		}
	}
}

func TestDanglingFolder(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "oci-cdi-hook")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), folder); err != nil {
		t.Fatal(err)
	}
	if err := notDangling(folder); err == nil {
		t.Error("a dangling folder was taken for none")
	}
	if err := notDangling(filepath.Join(dir, "none")); err != nil {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestFilesMustBeRootsAlone(t *testing.T) {
	spoil := map[string]func(dir string) error{
		"file":              func(dir string) error { return os.Chmod(dir+"/config.toml", 0o664) },
		"folder":            func(dir string) error { return os.Chmod(dir, 0o777) },
		"conf.d":            func(dir string) error { return os.Chmod(dir+"/conf.d", 0o775) },
		"file in conf.d":    func(dir string) error { return os.Chmod(dir+"/conf.d/a.toml", 0o646) },
		"link out of there": func(dir string) error { return os.Symlink(dir+"/loose/x.toml", dir+"/conf.d/b.toml") },
	}
	if os.Geteuid() == 0 {
		spoil["owner"] = func(dir string) error { return os.Chown(dir+"/config.toml", 1234, 0) }
		spoil["owner of conf.d"] = func(dir string) error { return os.Chown(dir+"/conf.d", 1234, 0) }
	}
	for name, f := range spoil {
		t.Run(name, func(t *testing.T) {
			file := write(t, map[string]string{"config.toml": "", "conf.d/a.toml": "", "loose/x.toml": ""})
			if err := os.Chmod(filepath.Dir(file)+"/loose", 0o777); err != nil {
				t.Fatal(err)
			}
			mustLoad(t, file)
			if err := f(filepath.Dir(file)); err != nil {
				t.Fatal(err)
			}
			_, err := load(t, file)
			var untrusted *trust.Error
			if !errors.As(err, &untrusted) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestNeeded(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		want       bool
	}{
		{"cdi.k8s.io/x", "v.example/x=y", true},
		{"cdi.k8s.io/x", "malformed", true},
		{"own.example/x", "v.example/x=y", true},
		{"own.example/x", "bad,v.example/x=y", true},
		{"own.example/x", "bad, v.example/x=y ", true},
		{"own.example/x", "malformed", false},
		{"io.kubernetes.cri-o.Annotations", `{"a/b":"c=d"}`, false},
		{"io.kubernetes.cri-o.Volumes", `[{"container_path":"/a/b","host_path":"c=d"}]`, false},
		{"org.systemd.property.After", "['crio.service']", false},
		{"cdi.k8s.io", "x", false},
	} {
		if got := Needed(map[string]string{"a": "b", tt.key: tt.value}); got != tt.want {
			t.Errorf("%s=%s: %v", tt.key, tt.value, got)
		}
	}
	plain := map[string]string{"io.podman.annotations.label": "x", "org.example/y": "z=/", "p": "/usr/bin/x"}
	if n := testing.AllocsPerRun(100, func() { Needed(plain) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLoadExample(b *testing.B) {
	example, err := os.ReadFile("example.toml")
	if err != nil {
		b.Fatal(err)
	}
	file := write(b, map[string]string{"config.toml": string(example)})
	for b.Loop() {
		mustLoad(b, file)
	}
}
