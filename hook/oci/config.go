package oci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Config is a container's config.json, already read by the runtime when a hook runs:
// changing it has no effect any more.
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
	c := new(Config)
	if err := unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// readRegular reads a regular file of bounded size and never waits for anything else
// that has its name.
func readRegular(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
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
