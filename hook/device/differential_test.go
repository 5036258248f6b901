package device

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// libraryCache scans the directories by the library, or reports that the
// library panics on them.
func libraryCache(dirs ...string) (cache *cdi.Cache, ok bool) {
	defer func() {
		if recover() != nil {
			cache, ok = nil, false
		}
	}()
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(dirs...))
	return cache, err == nil
}

// compareWithLibrary checks that the same names resolve to the same files as
// by the library, and that they mean the same edits.
func compareWithLibrary(t *testing.T, cache *cdi.Cache, r Registry, extra ...string) {
	t.Helper()
	listed := cache.ListDevices()
	wantEqual(t, "listed devices", namesOf(r.List().Devices), listed)
	names := slices.Compact(slices.Sorted(slices.Values(append(extra, listed...))))
	var good []string
	for _, name := range names {
		res, err := r.Resolve([]string{name})
		dev := cache.GetDevice(name)
		switch {
		case (err == nil) != (dev != nil):
			t.Errorf("%s: %v, library: %v", name, err, dev)
		case err != nil:
			checkLine(t, err.Error())
		case res.Edits[0].SpecPath != dev.GetSpec().GetPath():
			t.Errorf("%s: from %s, library: %s", name, res.Edits[0].SpecPath, dev.GetSpec().GetPath())
		}
		if dev != nil {
			good = append(good, name)
		}
	}
	for _, name := range good {
		compareNative(t, cache, r, []string{name}, false)
		compareNative(t, cache, r, []string{name}, true)
	}
	compareNative(t, cache, r, good, true)
	slices.Reverse(good)
	compareNative(t, cache, r, good, false)
}

// compareNative compares what distinct names give with what the library
// writes into a config.
func compareNative(t *testing.T, cache *cdi.Cache, r Registry, names []string, mapped bool) {
	t.Helper()
	config := &oci.Spec{Process: &oci.Process{User: oci.User{UID: 1000, GID: 1001}}, Linux: &oci.Linux{}}
	if mapped {
		config.Linux.Namespaces = []oci.LinuxNamespace{{Type: oci.UserNamespace}}
		config.Linux.UIDMappings = []oci.LinuxIDMapping{{HostID: 100000, Size: 65536}}
		config.Linux.GIDMappings = config.Linux.UIDMappings
	}
	_, wantErr := cache.InjectDevices(config, names...)
	res, err := r.Resolve(names)
	if err != nil {
		t.Fatalf("%q: %v", names, err)
	}
	native, err := res.Native(Container{UID: 1000, GID: 1001, IDMapped: mapped})
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, library: %v", names, err, wantErr)
	}
	if err != nil {
		checkLine(t, err.Error())
		return
	}
	wantEqual(t, fmt.Sprintf("%q", names), nativeLines(native), configLines(config))
}

func nativeLines(n *Native) []string {
	var lines []string
	for _, node := range n.Nodes {
		lines = append(lines, fmt.Sprintf("node %q %s %d:%d %o %d:%d", node.Path, node.Type, node.Major, node.Minor, node.Mode, node.UID, node.GID))
	}
	lines = append(lines, texts(n.Rules)...)
	for _, m := range n.Mounts {
		lines = append(lines, fmt.Sprintf("mount %q %q %q %q", m.Source, m.Destination, m.Type, m.Options))
	}
	for _, stage := range hookStages {
		for _, h := range n.Hooks {
			if h.Stage == stage {
				lines = append(lines, hookLine(stage, h.Path, h.Args, h.Env, h.Timeout))
			}
		}
	}
	for _, e := range n.Env {
		lines = append(lines, "env "+e.Entry)
	}
	for _, g := range n.GIDs {
		lines = append(lines, fmt.Sprint("gid ", g.GID))
	}
	for _, d := range n.NetDevices {
		lines = append(lines, fmt.Sprintf("net %q %q", d.HostName, d.Name))
	}
	if n.IntelRdt != nil {
		text, _ := json.Marshal(n.IntelRdt.LinuxIntelRdt)
		lines = append(lines, string(text))
	}
	return lines
}

var hookStages = []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}

func hookLine(stage, path string, args, env []string, timeout *int) string {
	line := fmt.Sprintf("hook %s %q %q %q", stage, path, args, env)
	if timeout != nil {
		line += fmt.Sprint(" ", *timeout)
	}
	return line
}

func configLines(c *oci.Spec) []string {
	var lines []string
	for _, d := range c.Linux.Devices {
		n := (&application{}).node(d)
		lines = append(lines, fmt.Sprintf("node %q %s %d:%d %o %d:%d", d.Path, d.Type, d.Major, d.Minor, n.Mode, n.UID, n.GID))
	}
	lines = append(lines, configRules(c)...)
	for _, m := range c.Mounts {
		lines = append(lines, fmt.Sprintf("mount %q %q %q %q", m.Source, m.Destination, m.Type, m.Options))
	}
	if h := c.Hooks; h != nil {
		//nolint:staticcheck // prestart is deprecated and still in use
		for i, hooks := range [][]oci.Hook{h.Prestart, h.CreateRuntime, h.CreateContainer, h.StartContainer, h.Poststart, h.Poststop} {
			for _, hook := range hooks {
				lines = append(lines, hookLine(hookStages[i], hook.Path, hook.Args, hook.Env, hook.Timeout))
			}
		}
	}
	for _, e := range c.Process.Env {
		lines = append(lines, "env "+e)
	}
	for _, g := range c.Process.User.AdditionalGids {
		lines = append(lines, fmt.Sprint("gid ", g))
	}
	for _, host := range slices.Sorted(mapKeys(c.Linux.NetDevices)) {
		lines = append(lines, fmt.Sprintf("net %q %q", host, c.Linux.NetDevices[host].Name))
	}
	if c.Linux.IntelRdt != nil {
		text, _ := json.Marshal(c.Linux.IntelRdt)
		lines = append(lines, string(text))
	}
	return lines
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// configRules sums up the library's rules: one for each device.
func configRules(c *oci.Spec) []string {
	if c.Linux.Resources == nil {
		return nil
	}
	var order []string
	access := map[string]string{}
	for _, rule := range c.Linux.Resources.Devices {
		if rule.Access == "" {
			continue
		}
		key := fmt.Sprintf("%s %d:%d ", rule.Type, *rule.Major, *rule.Minor)
		if _, ok := access[key]; !ok {
			order = append(order, key)
		}
		for _, letter := range "rwm" {
			if strings.ContainsRune(rule.Access, letter) && !strings.ContainsRune(access[key], letter) {
				access[key] += string(letter)
			}
		}
	}
	var lines []string
	for _, key := range order {
		letters := access[key]
		sorted := ""
		for _, letter := range "rwm" {
			if strings.ContainsRune(letters, letter) {
				sorted += string(letter)
			}
		}
		lines = append(lines, key+sorted)
	}
	return lines
}

func TestLikeTheLibrary(t *testing.T) {
	tests := map[string][]map[string]string{
		"one":        {{"a.yaml": specFor("1", "a", "b")}},
		"shadow":     {{"a.yaml": specFor("1", "a", "b")}, {"b.json": specFor("2", "a")}},
		"conflict":   {{"a.yaml": specFor("1", "a", "b"), "b.json": specFor("2", "a")}},
		"voided":     {{"a.yaml": specFor("1", "a", "b"), "b.json": specFor("2", "a")}, {"c.yaml": specFor("3", "a")}},
		"above":      {{"a.yaml": specFor("1", "a")}, {"b.json": specFor("2", "a"), "c.yaml": specFor("3", "a")}},
		"three dirs": {{"a.yaml": specFor("1", "a")}, {"a.yaml": specFor("2", "a")}, {"a.yaml": specFor("3", "a")}},
		"three ways": {{"a.yaml": specFor("1", "a"), "b.yaml": specFor("2", "a"), "c.yaml": specFor("3", "a")}},
		"bad beside": {{"a.yaml": specFor("1", "a"), "b.yaml": "{", "c.yaml": specWith("0.6.0", "{additionalGids: [1]}"), "d.yml": specFor("1", "a")}},
		"disguised":  {{"a.yaml": strings.Replace(specFor("1", "a"), "v.example/dev", `"v.example\x2fdev"`, 1), "b.yaml": strings.Replace(specFor("1", "b"), "v.example/dev", "!!binary di5leGFtcGxlL2Rldg==", 1)}},
		"mounts": {{"a.yaml": specWith("0.6.0", "{mounts: [{hostPath: /1, containerPath: /b/c, options: [rbind]}, {hostPath: /2, containerPath: /b}, {hostPath: /3, containerPath: /b/c/, type: bind}, {hostPath: /4, containerPath: /b/c}]}"),
			"b.yaml": strings.Replace(specWith("0.6.0", "{mounts: [{hostPath: /5, containerPath: /b}, {hostPath: /6, containerPath: /z/../q/r}]}"), "name: a", "name: b", 1)}},
		"fixtures": {},
	}
	for name, contents := range tests {
		t.Run(name, func(t *testing.T) {
			var dirs []string
			for _, files := range contents {
				dirs = append(dirs, writeSpecs(t, files))
			}
			if len(dirs) == 0 {
				dirs = []string{"testdata/fixtures"}
			}
			cache, ok := libraryCache(dirs...)
			if !ok {
				t.Fatal("the library panics")
			}
			compareWithLibrary(t, cache, Registry{Dirs: dirs}, "v.example/dev=a", "v.example/dev=b", "v.example/dev=none", "w.example/dev=a")
		})
	}
}

// FuzzResolve compares whole directories with the library. The last argument
// is one more request, where it is a qualified name.
func FuzzResolve(f *testing.F) {
	full := specWith("1.1.0", "{deviceNodes: [{path: /dev/null, permissions: r}, {path: /dev/zero, hostPath: /dev/null, gid: 4}], mounts: [{hostPath: /1, containerPath: /b/c, options: [rbind]}], "+
		"hooks: [{hookName: createRuntime, path: /x, args: [x], env: [A=1], timeout: 1}], env: [A=1, B=2], additionalGids: [0, 4], netDevices: [{hostInterfaceName: a, name: b}], intelRdt: {closID: x}}")
	f.Add(specFor("1", "a", "b"), specFor("2", "a"), specFor("3", "c"), "v.example/dev=a")
	f.Add(full, specFor("2", "b"), strings.Replace(full, "name: a", "name: c", 1), "v.example/dev=c")
	f.Add(strings.Replace(full, "v.example/dev", `"v.example\x2fdev"`, 1), "kind: v.example/dev", "{", "v.example/dev=a")
	f.Fuzz(func(t *testing.T, low1, low2, high, name string) {
		low := writeSpecs(t, map[string]string{"1.yaml": low1, "2.json": low2})
		r := Registry{Dirs: []string{low, writeSpecs(t, map[string]string{"3.yaml": high}), filepath.Join(low, "none")}}
		_, err := r.Resolve([]string{name})
		if err != nil {
			checkLine(t, err.Error())
		}
		cache, ok := libraryCache(r.Dirs...)
		if !ok {
			r.List()
			return
		}
		extra := []string{"v.example/dev=a"}
		if parser.IsQualifiedName(name) {
			extra = append(extra, name)
		}
		compareWithLibrary(t, cache, r, extra...)
	})
}
