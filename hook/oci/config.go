package oci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Config is a container's config.json as far as a hook looks at it, already read by the
// runtime: changing it has no effect any more.
type Config = specs.Spec

// ReadConfig reads the config.json of a bundle.
func ReadConfig(bundle string) (*Config, error) {
	return ReadConfigFile(path.Join(bundle, "config.json"))
}

// ReadConfigFile reads a config under any name.
func ReadConfigFile(name string) (*Config, error) {
	raw, err := readRegular(name, maxDocument)
	if err != nil {
		return nil, err
	}
	var p parts
	if err := unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p.config(), nil
}

// parts are what a hook looks at in a config. Decoding just these takes a fraction of the
// time: most of a config is seccomp rules and capabilities.
type parts struct {
	Root    *specs.Root `json:"root"`
	Process *struct {
		User specs.User `json:"user"`
		Env  []string   `json:"env"`
	} `json:"process"`
	Mounts      []specs.Mount     `json:"mounts"`
	Hooks       *specs.Hooks      `json:"hooks"`
	Annotations map[string]string `json:"annotations"`
	Linux       *struct {
		UIDMappings []specs.LinuxIDMapping `json:"uidMappings"`
		GIDMappings []specs.LinuxIDMapping `json:"gidMappings"`
		Namespaces  []specs.LinuxNamespace `json:"namespaces"`
		Devices     []struct {
			Path string `json:"path"`
		} `json:"devices"`
		Resources *struct {
			Devices []specs.LinuxDeviceCgroup `json:"devices"`
		} `json:"resources"`
		CgroupsPath string                          `json:"cgroupsPath"`
		MountLabel  string                          `json:"mountLabel"`
		IntelRdt    *specs.LinuxIntelRdt            `json:"intelRdt"`
		NetDevices  map[string]specs.LinuxNetDevice `json:"netDevices"`
	} `json:"linux"`
}

func (p *parts) config() *Config {
	c := &Config{Root: p.Root, Mounts: p.Mounts, Hooks: p.Hooks, Annotations: p.Annotations}
	if p.Process != nil {
		c.Process = &specs.Process{User: p.Process.User, Env: p.Process.Env}
	}
	if l := p.Linux; l != nil {
		c.Linux = &specs.Linux{
			UIDMappings: l.UIDMappings, GIDMappings: l.GIDMappings, Namespaces: l.Namespaces,
			CgroupsPath: l.CgroupsPath, MountLabel: l.MountLabel, IntelRdt: l.IntelRdt,
		}
		if len(l.NetDevices) > 0 {
			c.Linux.NetDevices = l.NetDevices
		}
		for _, d := range l.Devices {
			c.Linux.Devices = append(c.Linux.Devices, specs.LinuxDevice{Path: d.Path})
		}
		if l.Resources != nil {
			c.Linux.Resources = &specs.LinuxResources{Devices: l.Resources.Devices}
		}
	}
	return c
}

// readRegular reads a regular file of bounded size and never waits for anything else
// that has its name.
func readRegular(name string, limit int64) ([]byte, error) {
	f, err := openFile(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", limit)}
	}
	return raw, nil
}

// RootPath gives the path of the container's root file system in the runtime's mount
// namespace.
func RootPath(bundle string, c *Config, s *State) (string, error) {
	root := s.Root
	if c != nil {
		if c.Root == nil || c.Root.Path == "" {
			return "", fmt.Errorf("%s/config.json: no root.path", bundle)
		}
		root = c.Root.Path
	}
	if root == "" {
		return "", fmt.Errorf("state: no root, and %s/config.json cannot be read", bundle)
	}
	if !path.IsAbs(root) {
		root = path.Join(bundle, root)
	}
	return root, nil
}
