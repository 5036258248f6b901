package integration

import (
	"slices"
	"strings"

	"oci-cdi-hook/integration/bed"
)

// lateInCrun are mounts that crun makes before createContainer hooks and runc after them.
var lateInCrun = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/keys", "/proc/kcore", "/proc/sys", "/proc/sysrq-trigger", "/proc/timer_list", "/sys/firmware"}

// mountPoint is the mode of a file made to be mounted over, as runc 1.5 makes it; runc 1.1 makes it 0755 and crun 0700.
const mountPoint = "-rw-r--r--"

// asDesigned turns what a native container's vendor hooks see into what they are to see directly, where the two differ by design: we
// run all of them at createRuntime, with the bundle for a working folder.
func asDesigned(rt bed.Runtime, native []string) []string {
	out := slices.Clone(native)
	for i, line := range out {
		f := strings.SplitN(line, " ", 4)
		if f[0] == "rootfs" && strings.HasSuffix(line, " 0 bytes") {
			out[i] = strings.Join([]string{f[0], f[1], mountPoint, f[3]}, " ")
		}
		if f[0] != "hook" {
			continue
		}
		switch {
		case f[2] == "dir":
			out[i] = strings.TrimSuffix(line, "/rootfs")
		case strings.HasPrefix(f[3], "mounts ") && rt.IsCrun():
			out[i] = strings.Join(slices.DeleteFunc(strings.Split(line, " "), func(s string) bool { return slices.Contains(lateInCrun, s) }), " ")
		}
	}
	return out
}
