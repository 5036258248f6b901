package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// world is a folder with stand-ins for what a vendor's driver installs, and specs that name them. It expects a filesystem that takes device
// nodes, and removes nothing: bench.sh does.
type world struct {
	dir  string
	base *cdispec.Spec // the dGPU fixture, its host side moved below dir
}

const (
	device = "nvidia.com/gpu=0"
	gpus   = 8
)

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
	return w, w.addDevices()
}

// addDevices makes as many devices like the first as a large host has.
func (w *world) addDevices() error {
	first := w.base.Devices[0]
	w.base.Devices = w.base.Devices[:1]
	for i := 1; i < gpus; i++ {
		d := cdispec.Device{Name: strconv.Itoa(i), ContainerEdits: cdispec.ContainerEdits{Mounts: first.ContainerEdits.Mounts, Hooks: first.ContainerEdits.Hooks}}
		for _, n := range first.ContainerEdits.DeviceNodes {
			other := *n
			other.Path, other.HostPath = otherGPU(n.Path, i), otherGPU(n.HostPath, i)
			if err := w.node(other.HostPath, 195<<8|(32+i)); err != nil {
				return err
			}
			d.ContainerEdits.DeviceNodes = append(d.ContainerEdits.DeviceNodes, &other)
		}
		w.base.Devices = append(w.base.Devices, d)
	}
	return nil
}

func otherGPU(path string, i int) string {
	name := strings.TrimRight(path, "0123456789")
	n, _ := strconv.Atoi(path[len(name):])
	return name + strconv.Itoa(n+i)
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

func writeFile(path, content string, mode os.FileMode) error {
	if strings.HasSuffix(path, "/") {
		return &os.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), mode)
}
