package bed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Install puts the hook and its hooks.d file where make install puts them, in the bed's own /usr, and returns the hooks.d folder.
func (h *Host) Install(hook string) string {
	h.t.Helper()
	const dir = "/usr/share/containers/oci/hooks.d"
	files, err := filepath.Glob("../oci-hooks.d/*.json")
	if err != nil || len(files) == 0 {
		h.t.Fatalf("no hooks.d file: %v", err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		h.must(err)
		var doc struct{ Hook struct{ Path string } }
		h.must(json.Unmarshal(raw, &doc))
		h.program(hook, doc.Hook.Path)
		h.File(filepath.Join(dir, filepath.Base(f)), string(raw), 0o644)
	}
	return dir
}

func (h *Host) program(from, to string) {
	h.t.Helper()
	if _, err := os.Lstat(to); err == nil {
		return
	}
	h.Dir(filepath.Dir(to))
	h.must(copyFile(from, to, 0o755))
	h.undo(to)
}

// WorkDir is gone after the test, with all that is in it.
const WorkDir = work

// PodmanEnv keeps podman away from the machine's own settings, and from a limit of processes, which needs a controller.
func PodmanEnv(t *testing.T) []string {
	t.Helper()
	conf := work + "/containers.conf"
	if err := os.WriteFile(conf, []byte("[containers]\npids_limit = 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"CONTAINERS_CONF=" + conf, "REGISTRY_AUTH_FILE=/dev/null", "LC_ALL=C"}
}

// PodmanLimits are flags that keep limits at ours: podman's own are higher, which takes CAP_SYS_RESOURCE.
func PodmanLimits(t *testing.T) []string {
	t.Helper()
	var flags []string
	for name, kind := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC} {
		var l unix.Rlimit
		if err := unix.Getrlimit(kind, &l); err != nil {
			t.Fatal(err)
		}
		limit := min(l.Max, 16384) // podman lowers its own nproc to 32768 first
		flags = append(flags, "--ulimit", fmt.Sprintf("%s=%d:%d", name, limit, limit))
	}
	return flags
}

// DropRecords takes away the state folder of a hook that was given none, and complains of more than one record: each start sweeps what
// is left of containers that are gone.
func DropRecords(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) > 1 {
		t.Errorf("records of containers that are gone: %v", names)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// RemoveCgroups takes away cgroups that an engine leaves: conmon's ends a little after its container.
func RemoveCgroups(t *testing.T, name string) {
	t.Helper()
	WaitFor(t, "the end of "+name, func() bool {
		left := snapshot{}
		if err := left.addCgroups(); err != nil {
			t.Fatal(err)
		}
		paths := make([]string, 0, len(left))
		for line := range left {
			if path := strings.TrimPrefix(line, "cgroup "); strings.Contains(path, name) {
				paths = append(paths, path)
			}
		}
		slices.Sort(paths)
		slices.Reverse(paths) // inner ones first
		for _, p := range paths {
			os.Remove(p)
		}
		return len(paths) == 0
	})
}
