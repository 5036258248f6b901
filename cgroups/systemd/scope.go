package systemd

import (
	"path"
	"strings"
)

const scopeSuffix = ".scope"

// ScopeName gives the unit that a cgroup's name stands for, if it is that of a scope.
// systemd puts "_" before names that would look like a file of the kernel's.
func ScopeName(cgroup string) (unit string, ok bool) {
	name := strings.TrimPrefix(path.Base(cgroup), "_")
	if !strings.HasSuffix(name, scopeSuffix) || name == scopeSuffix {
		return "", false
	}
	return name, true
}
