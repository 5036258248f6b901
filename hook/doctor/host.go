package doctor

import (
	"context"
	"slices"
	"strings"
)

// Engines looks at engines, their hooks and their spec directories.
func (h Host) Engines(ctx context.Context) Findings {
	found, have := h.Programs(ctx)
	for _, e := range []struct {
		name string
		conf func() (engineConf, error)
	}{{"podman", h.podman}, {"crio", h.crio}} {
		if !have[e.name] || e.name == "crio" && h.Home != "" {
			continue
		}
		c, err := e.conf()
		if err != nil {
			found.Fault(e.name, "mend the file", "%v", err)
		}
		h.hooksOf(c, &found)
		h.specDirsOf(c, &found)
	}
	return found
}

// specDirsOf compares where an engine looks for specs with where the hook does.
func (h Host) specDirsOf(c engineConf, found *Findings) {
	if slices.Equal(c.specDirs, h.SpecDirs) {
		return
	}
	found.Warn(c.engine+" specs", "set spec-dirs in the hook's configuration, or cdi_spec_dirs in the engine's, so that both mean the same devices",
		"%s looks in %s, the hook in %s", c.engine, strings.Join(c.specDirs, ", "), strings.Join(h.SpecDirs, ", "))
}
