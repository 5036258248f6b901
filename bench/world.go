package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// world is a folder with stand-ins for what a vendor's driver installs, and specs that name them. It expects a filesystem that takes device
// nodes, and removes nothing: bench.sh does.
type world struct {
	dir  string
	base *cdispec.Spec // the dGPU fixture, its host side moved below dir
}

const device = "nvidia.com/gpu=0"

func newWorld(dir, fixture string) (*world, error) {
	spec, err := cdi.ReadSpec(fixture, 0)
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, base: spec.Spec}
	edits := []*cdispec.ContainerEdits{&w.base.ContainerEdits}
	for i := range w.base.Devices {
		edits = append(edits, &w.base.Devices[i].ContainerEdits)
	}
	for _, e := range edits {
		if err := w.adopt(e); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// adopt makes a stand-in for each host path of the edits and points them there.
func (w *world) adopt(e *cdispec.ContainerEdits) error {
	for i, n := range e.DeviceNodes {
		n.HostPath = w.host(n.Path)
		// 195 is the vendor's own major number; no driver is needed for a node
		if err := w.node(n.HostPath, 195<<8|i); err != nil {
			return err
		}
	}
	for _, m := range e.Mounts {
		m.HostPath = w.host(m.HostPath)
		if err := writeFile(m.HostPath, "stand-in\n", 0o644); err != nil {
			return err
		}
	}
	for _, h := range e.Hooks {
		h.Path = w.path("floor")
	}
	return nil
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}
func (w *world) host(path string) string { return w.path("host", path) }

func (w *world) node(path string, rdev int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, rdev); err != nil && err != syscall.EEXIST {
		return &os.PathError{Op: "mknod", Path: path, Err: err}
	}
	return nil
}

// specDir writes n specs of the fixture's shape, the first of its kind and the others of kinds of their own, and returns their folder.
func (w *world) specDir(name string, n int, hooks bool) (string, error) {
	dir := w.path(name)
	for i := range n {
		spec := *w.base
		if !hooks {
			spec.ContainerEdits.Hooks = nil
			spec.Devices = nil
			for _, d := range w.base.Devices {
				d.ContainerEdits.Hooks = nil
				spec.Devices = append(spec.Devices, d)
			}
		}
		if i > 0 {
			spec.Kind = fmt.Sprintf("vendor%04d.example.com/gpu", i)
		}
		raw, err := json.Marshal(&spec)
		if err != nil {
			return "", err
		}
		if err := writeFile(filepath.Join(dir, fmt.Sprintf("spec%04d.json", i)), string(raw), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// bundle writes a container of one idle program with one createRuntime hook.
func (w *world) bundle(id string, annotations map[string]string, hook oci.Hook) (string, error) {
	dir := w.path("bundles", id)
	for _, d := range []string{"proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(dir, "rootfs", d), 0o755); err != nil {
			return "", err
		}
	}
	// Runtimes look for the program at create; it is never started.
	if err := os.Link(w.path("floor"), filepath.Join(dir, "rootfs", "nothing")); err != nil {
		return "", err
	}
	deny := oci.LinuxDeviceCgroup{Access: "rwm"}
	config := oci.Spec{
		Version:     "1.0.2",
		Process:     &oci.Process{Args: []string{"/nothing"}, Cwd: "/"},
		Root:        &oci.Root{Path: "rootfs"},
		Mounts:      []oci.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}, {Destination: "/dev", Type: "tmpfs", Source: "tmpfs"}},
		Annotations: annotations,
		Hooks:       &oci.Hooks{CreateRuntime: []oci.Hook{hook}},
		Linux: &oci.Linux{
			CgroupsPath: "/" + id,
			Namespaces:  []oci.LinuxNamespace{{Type: oci.MountNamespace}, {Type: oci.PIDNamespace}, {Type: oci.IPCNamespace}, {Type: oci.UTSNamespace}},
			Resources:   &oci.LinuxResources{Devices: []oci.LinuxDeviceCgroup{deny}},
		},
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	return dir, writeFile(filepath.Join(dir, "config.json"), string(raw), 0o644)
}

func writeFile(path, content string, mode os.FileMode) error {
	if strings.HasSuffix(path, "/") {
		return &os.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), mode)
}
