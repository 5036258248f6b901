package bed

import (
	"os"
	"path/filepath"
	"testing"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// WriteSpec puts a spec file into the spec folder.
func WriteSpec(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(SpecDir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// StandInsFor makes what the spec files that parse speak of.
func (h *Host) StandInsFor(paths ...string) {
	h.t.Helper()
	for _, p := range paths {
		if spec, err := cdi.ReadSpec(p, 0); err == nil {
			h.StandIns(spec.Spec)
		}
	}
}

// InjectNatively is the reference: the library's edits in config.json.
func (b *Bundle) InjectNatively(names ...string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(SpecDir), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	_, err = cache.InjectDevices(b.Config, names...)
	return err
}
