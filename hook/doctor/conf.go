package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// defaultHooksDir is what podman and CRI-O have built in; distributions may build podman
// with /etc/containers/oci/hooks.d beside it, from its version 5.
const defaultHooksDir = "/usr/share/containers/oci/hooks.d"

// defaultSpecDirs are those of the CDI library.
func defaultSpecDirs() []string { return []string{"/etc/cdi", "/var/run/cdi"} }

// engineConf is what an engine's configuration says that concerns a hook.
type engineConf struct {
	engine    string
	hooksDirs []string
	specDirs  []string
	// from are the files that said something about either.
	from []string
}

// podman reads containers.conf as podman does: the distribution's, the administrator's,
// then its drop-ins, then for a rootless user that user's own (containers.conf(5)).
func (h Host) podman() (engineConf, error) {
	c := engineConf{engine: "podman", hooksDirs: []string{defaultHooksDir}, specDirs: defaultSpecDirs()}
	names := []string{"/usr/share/containers/containers.conf", "/etc/containers/containers.conf"}
	names = append(names, h.dropIns("/etc/containers/containers.conf.d", ".conf")...)
	if h.Home != "" {
		// podman before 5.6 reads no built-in directory in a rootless engine
		c.hooksDirs = nil
		own := filepath.Join(h.Home, ".config/containers/containers.conf")
		names = append(append(names, own), h.dropIns(own+".d", ".conf")...)
	}
	return c, h.read(&c, names, func(doc map[string]any) map[string]any { return table(doc, "engine") })
}

// crio reads crio.conf and its drop-ins (crio.conf(5), crio.conf.d(5)).
func (h Host) crio() (engineConf, error) {
	c := engineConf{engine: "crio", hooksDirs: []string{defaultHooksDir}, specDirs: defaultSpecDirs()}
	names := append([]string{"/etc/crio/crio.conf"}, h.dropIns("/etc/crio/crio.conf.d", "")...)
	return c, h.read(&c, names, func(doc map[string]any) map[string]any { return table(table(doc, "crio"), "runtime") })
}

// dropIns are the files of a directory, in the order of their names.
func (h Host) dropIns(dir, ending string) []string {
	var names []string
	entries, err := os.ReadDir(h.at(dir))
	if err != nil {
		return nil // it may be missing; what cannot be read, engines skip too
	}
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ending) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}

// maxConf bounds a file, in bytes.
const maxConf = 1 << 20

func (h Host) read(c *engineConf, names []string, section func(map[string]any) map[string]any) error {
	var errs []error
	for _, name := range names {
		raw, err := readRegular(h.at(name), maxConf)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var doc map[string]any
		if err == nil {
			err = toml.Unmarshal(raw, &doc)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		said := section(doc)
		hooks, specs := c.set(&c.hooksDirs, said["hooks_dir"]), c.set(&c.specDirs, said["cdi_spec_dirs"])
		if hooks || specs {
			c.from = append(c.from, name)
		}
	}
	return errors.Join(errs...)
}

// set takes a list over; {append = true} in it adds to what was there (containers.conf(5)).
func (c *engineConf) set(to *[]string, value any) bool {
	list, ok := value.([]any)
	if !ok {
		return false
	}
	var dirs []string
	for _, item := range list {
		switch v := item.(type) {
		case string:
			dirs = append(dirs, v)
		case map[string]any:
			if v["append"] == true {
				dirs = append(append([]string{}, *to...), dirs...)
			}
		}
	}
	*to = dirs
	return true
}

func table(doc map[string]any, key string) map[string]any {
	t, _ := doc[key].(map[string]any)
	return t
}
