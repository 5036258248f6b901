package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// specDir writes n specs of the fixture's shape, the first of its kind and the others of kinds of their own, and returns their folder.
func (w *world) specDir(name string, n int, hooks bool) (string, error) {
	return w.specDirAs(name, n, hooks, "json")
}

func (w *world) specDirAs(name string, n int, hooks bool, format string) (string, error) {
	spec := *w.base
	if !hooks {
		spec = withoutHooks(spec)
	}
	encode := map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal}[format]
	raw, err := encode(&spec)
	if err != nil {
		return "", err
	}
	dir := w.path(name)
	for i := range n {
		one := raw
		if i > 0 {
			one = bytes.Replace(raw, []byte(spec.Kind), fmt.Appendf(nil, "vendor%05d.example.com/gpu", i), 1)
		}
		if err := writeFile(filepath.Join(dir, fmt.Sprintf("spec%05d.%s", i, format)), string(one), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func withoutHooks(spec cdispec.Spec) cdispec.Spec {
	spec.ContainerEdits.Hooks = nil
	var devices []cdispec.Device
	for _, d := range spec.Devices {
		d.ContainerEdits.Hooks = nil
		devices = append(devices, d)
	}
	spec.Devices = devices
	return spec
}
