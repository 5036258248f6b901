package bed

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// StandIns makes what a spec speaks of and the test has not made itself: nodes that are not fully described, files to mount, vendor
// hooks.
func (h *Host) StandIns(spec *cdi.Spec) {
	h.t.Helper()
	edits := []cdi.ContainerEdits{spec.ContainerEdits}
	for _, d := range spec.Devices {
		edits = append(edits, d.ContainerEdits)
	}
	for _, e := range edits {
		for _, n := range e.DeviceNodes {
			h.node(n)
		}
		for _, m := range e.Mounts {
			h.File(m.HostPath, "stand-in of "+m.HostPath, 0o644)
		}
		for _, hook := range e.Hooks {
			h.VendorHook(hook.Path)
		}
	}
}

func (h *Host) node(n *cdi.DeviceNode) {
	h.t.Helper()
	path := n.HostPath
	if path == "" {
		path = n.Path
	}
	if _, err := os.Lstat(path); err == nil {
		return
	}
	if n.Major == 0 {
		h.AnyNode(path, 0o660)
		return
	}
	kind := uint32(unix.S_IFCHR)
	if n.Type == "b" {
		kind = unix.S_IFBLK
	}
	h.Node(path, kind|0o660, uint32(n.Major), uint32(n.Minor), 0, 0)
}

// Library makes a shared object of nothing but a name.
func (h *Host) Library(path, soname string) {
	h.t.Helper()
	h.compile(path, "int nothing;\n", "-shared", "-nostdlib", "-Wl,-soname,"+soname)
}

// SharedObject makes one of C.
func (h *Host) SharedObject(path, code string) {
	h.t.Helper()
	h.compile(path, code, "-shared", "-fPIC")
}

// Program makes one of C that is linked dynamically.
func (h *Host) Program(path, code string) {
	h.t.Helper()
	h.compile(path, code)
}

func (h *Host) compile(path, code string, flags ...string) {
	h.t.Helper()
	h.Dir(filepath.Dir(path))
	c := exec.Command("gcc", append(flags, "-x", "c", "-o", path, "-")...)
	c.Stdin = strings.NewReader(code)
	h.must(output(c))
	h.must(os.Chmod(path, 0o755))
	h.undo(path)
}
