package filter

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// standIns copies the specs of a directory and gives every node numbers, so
// that no host needs to have it. Each comes into a directory of its own, since
// they share names. Files that are no specs are left out.
func standIns(t testing.TB, dir string, change func(*specs.DeviceNode)) []string {
	t.Helper()
	var dirs []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		spec, err := cdi.ReadSpec(filepath.Join(dir, entry.Name()), 0)
		if err != nil {
			continue
		}
		all := []*cdi.ContainerEdits{{ContainerEdits: &spec.ContainerEdits}}
		for i := range spec.Devices {
			all = append(all, &cdi.ContainerEdits{ContainerEdits: &spec.Devices[i].ContainerEdits})
		}
		for _, edits := range all {
			for _, node := range edits.DeviceNodes {
				change(node)
			}
		}
		to := t.TempDir()
		if err := os.WriteFile(filepath.Join(to, entry.Name()+".json"), encode(spec.Spec), 0o644); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, to)
	}
	return dirs
}

func numbered(node *specs.DeviceNode) {
	if node.Type == "" {
		node.Type = "c"
	}
	node.Major, node.Minor = 240, int64(len(node.Path)%7)
}

// pathless is for user namespaces: there nodes of other paths are bound, see the
// tests of that.
func pathless(node *specs.DeviceNode) {
	numbered(node)
	node.HostPath = ""
}

// asDocumented makes of the library's config what the filter's should be.
func asDocumented(before, after *oci.Spec) {
	if after.Linux == nil || after.Linux.Resources == nil {
		return
	}
	rules := &after.Linux.Resources.Devices
	known := 0
	if before.Linux != nil && before.Linux.Resources != nil {
		known = len(before.Linux.Resources.Devices)
	}
	var kept []string
	i := 0
	*rules = slices.DeleteFunc(*rules, func(r oci.LinuxDeviceCgroup) bool {
		text := string(encode(r))
		i++
		if i <= known {
			return false
		}
		if r.Access == "" || slices.Contains(kept, text) {
			return true
		}
		kept = append(kept, text)
		return false
	})
	if len(*rules) == 0 {
		*rules = nil
	}
}

// normal writes a config as the OCI types have it.
func normal(t *testing.T, spec *oci.Spec) string {
	t.Helper()
	if spec.Linux != nil && spec.Linux.Resources != nil && string(encode(spec.Linux.Resources)) == "{}" {
		spec.Linux.Resources = nil
	}
	text, err := json.MarshalIndent(spec, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func compareWithLibrary(t *testing.T, cache *cdi.Cache, dirs []string, input string, names []string) {
	t.Helper()
	before, want := parse(t, input), parse(t, input)
	for _, spec := range []*oci.Spec{before, want} {
		if spec.Annotations == nil {
			spec.Annotations = map[string]string{}
		}
		spec.Annotations["cdi.k8s.io/test"] = strings.Join(names, ",")
	}
	if _, err := cache.InjectDevices(want, names...); err != nil {
		t.Fatalf("library: %v", err)
	}
	asDocumented(before, want)
	got := parse(t, filterOf(t, settings(dirs...), string(encode(before))))
	if text := normal(t, got); text != normal(t, want) {
		t.Errorf("%q:\n%s\nlibrary:\n%s", names, text, normal(t, want))
	}
}

// Every fixture, alone, all together and backwards, on several configs.
func TestLikeTheLibrary(t *testing.T) {
	real, err := os.ReadFile("testdata/podman.json")
	if err != nil {
		t.Fatal(err)
	}
	configs := map[string]string{
		"podman":  strings.Replace(string(real), "cdi.k8s.io/gpu", "other/gpu", 1),
		"minimal": `{"ociVersion":"1.0.2","process":{"user":{"uid":1000,"gid":1001},"cwd":"/"}}`,
		"mapped": `{"ociVersion":"1.2.0","linux":{"namespaces":[{"type":"user"}],"uidMappings":[{"containerID":0,"hostID":1,"size":70000}],` +
			`"gidMappings":[{"containerID":0,"hostID":1,"size":70000}]}}`,
		"used": `{"ociVersion":"1.0.2","process":{"env":["NVIDIA_VISIBLE_DEVICES=all","A=1"],"user":{"uid":0,"gid":7,"additionalGids":[44,1]},"cwd":"/"},` +
			`"mounts":[{"destination":"/usr/lib/x86_64-linux-gnu/libcuda.so.1"},{"destination":"/usr/bin/nvidia-smi","source":"/x"},{"destination":"/proc"}],` +
			`"hooks":{"createContainer":[{"path":"/own"}]},"linux":{"devices":[{"path":"/dev/nvidia0","type":"c","major":1,"minor":3},{"path":"/dev/mine","type":"c","major":1,"minor":3}],` +
			`"resources":{"devices":[{"allow":false,"access":"rwm"}]},"intelRdt":{"closID":"own"},"netDevices":{"eth0":{"name":"eth0"}}}}`,
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			change := numbered
			if name == "mapped" {
				change = pathless
			}
			dirs := standIns(t, fixtures, change)
			if len(dirs) < 7 {
				t.Fatalf("only %d fixtures", len(dirs))
			}
			for _, dir := range dirs {
				compareAll(t, config, dir)
			}
			compareAll(t, config, dirs...)
		})
	}
}

// compareAll compares devices alone and all together, backwards.
func compareAll(t *testing.T, config string, dirs ...string) {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(dirs...))
	if err != nil {
		t.Fatal(err)
	}
	names := cache.ListDevices()
	if len(names) == 0 {
		t.Fatalf("no devices in %q", dirs)
	}
	for _, one := range names {
		compareWithLibrary(t, cache, dirs, config, []string{one})
	}
	slices.Reverse(names)
	compareWithLibrary(t, cache, dirs, config, names)
}
