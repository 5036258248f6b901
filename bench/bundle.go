package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// bundle writes a container of one idle program with one createRuntime hook.
func (w *world) bundle(id string, annotations map[string]string, hook oci.Hook) (string, error) {
	config := w.config(id)
	config.Annotations = annotations
	config.Hooks = &oci.Hooks{CreateRuntime: []oci.Hook{hook}}
	return w.write(id, config)
}

func (w *world) config(id string) *oci.Spec {
	deny := oci.LinuxDeviceCgroup{Access: "rwm"}
	return &oci.Spec{
		Version: "1.0.2",
		Process: &oci.Process{Args: []string{"/nothing"}, Cwd: "/"},
		Root:    &oci.Root{Path: "rootfs"},
		Mounts:  []oci.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}, {Destination: "/dev", Type: "tmpfs", Source: "tmpfs"}},
		Linux: &oci.Linux{
			CgroupsPath: "/" + id,
			Namespaces:  []oci.LinuxNamespace{{Type: oci.MountNamespace}, {Type: oci.PIDNamespace}, {Type: oci.IPCNamespace}, {Type: oci.UTSNamespace}},
			Resources:   &oci.LinuxResources{Devices: []oci.LinuxDeviceCgroup{deny}},
		},
	}
}

// write makes the bundle with an empty rootfs, but for the program.
func (w *world) write(id string, config *oci.Spec) (string, error) {
	dir := w.path("bundles", id)
	for _, d := range []string{"proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(dir, "rootfs", d), 0o755); err != nil {
			return "", err
		}
	}
	// the program that a container runs where it is started: it reads an empty stdin and ends
	if err := os.Link(w.path("floor"), filepath.Join(dir, "rootfs", "nothing")); err != nil {
		return "", err
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	return dir, writeFile(filepath.Join(dir, "config.json"), string(raw), 0o644)
}
