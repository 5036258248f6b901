package filter

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"oci-cdi-hook/hook/device"
)

// bindOptions are those of a node's bind: no more may come of it than of a
// node. nodev is what it must not have. No idmap: the kernel maps ids on few
// of the filesystems that /dev may be.
var bindOptions = []string{"bind", "rprivate", "nosuid", "noexec"}

// findBinds finds the nodes that must be bound. In a user namespace runtimes
// bind the host's node of the same path for every entry of linux.devices, which
// has no field for another one.
func (a *application) findBinds() error {
	if !a.bindNodes {
		return nil
	}
	for _, n := range a.native.Nodes {
		if filepath.Clean(n.HostPath) == filepath.Clean(n.Path) {
			continue
		}
		if err := checkHostNode(n); err != nil {
			return err
		}
		a.binds = append(a.binds, oci.Mount{Destination: n.Path, Type: "bind", Source: n.HostPath, Options: slices.Clone(bindOptions)})
	}
	return nil
}

// checkHostNode checks that the host's node is what the spec says: natively the
// numbers of the spec count, and a bind has those of the host.
func checkHostNode(n device.Node) error {
	var st unix.Stat_t
	if err := unix.Stat(n.HostPath, &st); err != nil {
		return nodeError(n, &os.PathError{Op: "stat", Path: n.HostPath, Err: err})
	}
	typ, major, minor := nodeType(st.Mode), int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	want := n.Type
	if want == "u" {
		want = "c"
	}
	if typ != want || typ != "p" && (major != n.Major || minor != n.Minor) {
		return nodeError(n, fmt.Errorf("the host's is %s %d:%d, the spec says %s %d:%d, and in a user namespace the host's is all there is",
			typ, major, minor, n.Type, n.Major, n.Minor))
	}
	return nil
}

func nodeError(n device.Node, err error) error {
	return fmt.Errorf("host device node %q for %q: %w (device %s of spec %s)", n.HostPath, n.Path, err, n.Device, n.SpecPath)
}

func nodeType(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFBLK:
		return "b"
	case unix.S_IFCHR:
		return "c"
	case unix.S_IFIFO:
		return "p"
	}
	return "no device"
}

// dropBoundDevices drops what the library has added for nodes that are bound.
func (a *application) dropBoundDevices() {
	a.spec.Linux.Devices = slices.DeleteFunc(a.spec.Linux.Devices, func(d oci.LinuxDevice) bool {
		return slices.ContainsFunc(a.binds, func(b oci.Mount) bool { return b.Destination == d.Path })
	})
}

// addBinds adds the binds as the library adds mounts.
func (a *application) addBinds() {
	for _, b := range a.binds {
		isOther := func(m oci.Mount) bool { return m.Destination == b.Destination }
		if i := slices.IndexFunc(a.spec.Mounts, isOther); i >= 0 {
			a.spec.Mounts = slices.Delete(a.spec.Mounts, i, i+1)
		}
		a.spec.Mounts = append(a.spec.Mounts, b)
	}
}
