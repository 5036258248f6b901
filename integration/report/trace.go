package report

import (
	"fmt"
	"strings"
)

// TraceFile is where the vendor hook stand-in writes, one JSON object a line. It lies in the test bed's own /run.
const TraceFile = "/run/bed/trace"

// HostNamespaces is a file with the namespaces of the test process, for the stand-in to compare with.
const HostNamespaces = "/run/bed/namespaces"

// NamespaceKinds are those that a hook can be in.
var NamespaceKinds = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

// Trace is what a vendor hook found when it ran.
type Trace struct {
	Args       []string          `json:"args"`
	Env        []string          `json:"env"`
	Dir        string            `json:"dir"`
	State      map[string]any    `json:"state"`
	StateError string            `json:"stateError,omitempty"`
	Container  []string          `json:"container"` // the namespaces that are not the host's
	Cgroups    map[string]string `json:"cgroups"`
	UID        int               `json:"uid"`
	GID        int               `json:"gid"`
	Umask      string            `json:"umask"`
	Caps       string            `json:"caps"`
	Rootfs     string            `json:"rootfs"` // names in the rootfs' dev, as the hook sees them
	Under      []string          `json:"under"`  // mount points under the rootfs, as the hook sees them
	Extra      []string          `json:"extra"`  // descriptors beyond the three
}

// Lines prints a trace one fact a line, n being its place in the file.
func (t Trace) Lines(n int) []string {
	var out []string
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf("hook %d ", n)+fmt.Sprintf(format, a...)) }
	add("args %q", t.Args)
	add("env %q", t.Env)
	add("dir %s", t.Dir)
	for _, k := range []string{"id", "status", "pid", "bundle", "root", "annotations"} {
		if v, there := t.State[k]; there {
			add("state %s=%v", k, v)
		}
	}
	if t.StateError != "" {
		add("state %s", t.StateError)
	}
	add("namespaces %s", strings.Join(t.Container, " "))
	add("ids %d:%d umask %s caps %s", t.UID, t.GID, t.Umask, t.Caps)
	add("cgroups %v", t.Cgroups)
	add("sees dev %s", t.Rootfs)
	add("sees mounts %s", strings.Join(t.Under, " "))
	return out
}
