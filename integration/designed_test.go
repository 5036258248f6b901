package integration

import (
	"regexp"
	"slices"
	"strings"

	"oci-cdi-hook/integration/bed"
)

// lateInCrun are mounts that crun makes before createContainer hooks and runc after them.
var lateInCrun = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/keys", "/proc/kcore", "/proc/sys", "/proc/sysrq-trigger", "/proc/timer_list", "/sys/firmware"}

// asDesigned turns what a native container's vendor hooks see into what they are to see directly, where the two differ by design: we
// run all of them at createRuntime, with the bundle for a working folder.
func asDesigned(rt bed.Runtime, native []string) []string {
	out := slices.Clone(native)
	for i, line := range out {
		f := strings.SplitN(line, " ", 4)
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

// randomName ends the name of a file that nvidia-cdi-hook leaves.
var randomName = regexp.MustCompile(`[0-9]+\.conf`)

// mountPoints hides how each runtime makes what it mounts over, on the rootfs below, where nobody looks while the container runs: a file
// is 0644 for runc 1.5 and for us, 0755 for runc 1.1, 0700 for crun; crun's folders are sticky.
func mountPoints(tree []string) []string {
	out := slices.Clone(tree)
	for i, line := range out {
		f := strings.SplitN(line, " ", 4)
		switch {
		case f[0] != "rootfs":
		case strings.HasPrefix(f[1], "/etc/ld.so.conf.d/"):
			out[i] = randomName.ReplaceAllString(line, "N.conf")
		case strings.HasSuffix(line, " 0 bytes"):
			out[i] = strings.Join([]string{f[0], f[1], "-", f[3]}, " ")
		case strings.HasPrefix(f[2], "dt"):
			out[i] = strings.Join([]string{f[0], f[1], "d" + f[2][2:], f[3]}, " ")
		}
	}
	return out
}
