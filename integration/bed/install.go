package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Install runs the project's own installation in the bed's /usr and returns the folder of the direct entry; the hook under test takes the
// place of the one that was built. When the test ends all is uninstalled, and none of it may be left.
func (h *Host) Install(hook string) string {
	h.t.Helper()
	if st, err := os.Stat("../bin/oci-cdi-hook"); err != nil || !st.Mode().IsRegular() {
		h.t.Fatalf("make build first: it is what make install installs: %v", err)
	}
	h.Dir("/usr/libexec") // uninstalling leaves folders that are not ours alone
	h.Dir("/usr/libexec/oci/hooks.d")
	h.Dir("/usr/share/containers/oci/hooks.d")
	h.Dir("/usr/lib/systemd/system")
	h.Dir("/usr/share/bash-completion/completions")
	h.Dir("/usr/share/zsh/site-functions")
	h.Dir("/usr/share/fish/vendor_completions.d")
	before := snapshot{}
	h.must(before.addTree("/usr/libexec/oci"))
	h.must(before.addTree("/usr/share/containers"))
	if res := Run(h.t, "", nil, "../hack/install.sh", "/usr"); res.Refused() {
		h.t.Fatalf("install: %s", res.Stderr)
	}
	h.must(copyFile(hook, "/usr/libexec/oci/hooks.d/oci-cdi-hook", 0o755))
	h.t.Cleanup(func() {
		if res := Run(h.t, "", nil, "../hack/install.sh", "--remove", "/usr"); res.Refused() {
			h.t.Errorf("uninstall: %s", res.Stderr)
		}
		after := snapshot{}
		h.must(after.addTree("/usr/libexec/oci"))
		h.must(after.addTree("/usr/share/containers"))
		if left := before.diff(after); len(left) > 0 {
			h.t.Errorf("uninstall leaves %v", left)
		}
	})
	return "/usr/share/containers/oci/hooks.d"
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
