package specfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/moby/sys/devices"
	"github.com/opencontainers/cgroups/devices/config"
	"golang.org/x/sys/unix"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"oci-cdi-hook/hook/device"
)

// Drift tells where the host is not as a valid spec has it: nodes that are missing or
// other devices now, sources and hooks that are gone. Devices of skip, by their names in
// the spec, are left out, and with all of them what the spec says for all. What this user
// may not look at is unknown and comes back by itself.
func Drift(s *specs.Spec, skip []string) (differs, unknown []Remark) {
	d := drift{remarks: []Remark{}, seen: map[string]bool{}}
	used := false
	for i, dev := range s.Devices {
		if slices.Contains(skip, dev.Name) {
			continue
		}
		used = true
		d.edits(fmt.Sprintf("devices[%d] (%s)", i, dev.Name), &s.Devices[i].ContainerEdits)
	}
	if used {
		d.edits("containerEdits", &s.ContainerEdits)
	}
	return d.remarks, d.unknown
}

type drift struct {
	remarks, unknown []Remark
	seen             map[string]bool // one remark is enough for what several devices name
}

func (d *drift) say(list *[]Remark, where, text string) {
	if !d.seen[text] {
		d.seen[text] = true
		*list = append(*list, Remark{Where: where, Text: device.OneLine(text)})
	}
}

func (d *drift) differs(where, format string, args ...any) {
	d.say(&d.remarks, where, fmt.Sprintf(format, args...))
}

// missing says what was looked for and not found. That a place may not be looked at is not
// that nothing is there.
func (d *drift) missing(where, what, name string, err error) {
	if errors.Is(err, fs.ErrPermission) {
		d.say(&d.unknown, where, fmt.Sprintf("%s %s: unknown, this user may not look there", what, name))
		return
	}
	var e unix.Errno
	if errors.As(err, &e) {
		err = e
	}
	d.differs(where, "%s %s: %v", what, name, err)
}

func (d *drift) edits(where string, e *specs.ContainerEdits) {
	for _, n := range e.DeviceNodes {
		d.node(where, n)
	}
	for _, m := range e.Mounts {
		if isBind(m) {
			d.source(where, m.HostPath)
		}
	}
	for _, h := range e.Hooks {
		d.hook(where, h.Path)
	}
}

func isBind(m *specs.Mount) bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

func (d *drift) source(where, name string) {
	if _, err := os.Stat(name); err != nil {
		d.missing(where, "mount source", name, err)
	}
}

func (d *drift) hook(where, name string) {
	if !path.IsAbs(name) {
		return
	}
	st, err := os.Stat(name)
	switch {
	case err != nil:
		d.missing(where, "hook", name, err)
	case st.IsDir() || st.Mode()&0o111 == 0:
		d.differs(where, "hook %s: not executable", name)
	}
}

func (d *drift) node(where string, n *specs.DeviceNode) {
	name := n.HostPath
	if name == "" {
		name = n.Path
	}
	host, err := devices.DeviceFromPath(name, "")
	if err != nil {
		if n.Type == "" || !errors.Is(err, devices.ErrNotADevice) {
			d.missing(where, "node", name, err)
		}
		return // a link will do where the spec has the numbers
	}
	kind := n.Type
	if kind == "u" {
		kind = "c"
	}
	if kind != "" && kind != string(host.Type) {
		d.differs(where, "node %s: type %s in the spec, %c on the host", name, n.Type, host.Type)
	}
	if kind != "" && kind != "p" && (n.Major != host.Major || n.Minor != host.Minor) {
		d.differs(where, "node %s: spec %d:%d, host %d:%d", name, n.Major, n.Minor, host.Major, host.Minor)
	}
	d.owner(where, name, n, host)
}

// owner compares what the spec says of owner and mode: they are most likely a copy of the
// host's at the time when it was generated.
func (d *drift) owner(where, name string, n *specs.DeviceNode, host *config.Device) {
	if n.UID != nil && *n.UID != host.Uid {
		d.differs(where, "node %s: spec uid %d, host uid %d", name, *n.UID, host.Uid)
	}
	if n.GID != nil && *n.GID != host.Gid {
		d.differs(where, "node %s: spec gid %d, host gid %d", name, *n.GID, host.Gid)
	}
	if n.FileMode != nil && n.FileMode.Perm() != host.FileMode.Perm() {
		d.differs(where, "node %s: spec mode %04o, host mode %04o", name, n.FileMode.Perm(), host.FileMode.Perm())
	}
}
