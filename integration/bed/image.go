package bed

import (
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// The image of a bundle: what is in its rootfs beside the probe.

func (b *Bundle) inside(path string) string {
	b.t.Helper()
	p := filepath.Join(b.Rootfs, path)
	b.must(os.MkdirAll(filepath.Dir(p), 0o755))
	return p
}

func (b *Bundle) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// File puts a file into the image.
func (b *Bundle) File(path, content string) {
	b.t.Helper()
	b.must(os.WriteFile(b.inside(path), []byte(content), 0o644))
}

// Folder puts a folder into the image.
func (b *Bundle) Folder(path string) {
	b.t.Helper()
	b.must(os.MkdirAll(b.inside(path), 0o755))
}

// Link puts a symbolic link into the image.
func (b *Bundle) Link(path, to string) {
	b.t.Helper()
	b.must(os.Symlink(to, b.inside(path)))
}

// Node puts a device node into the image.
func (b *Bundle) Node(path string, mode, major, minor uint32) {
	b.t.Helper()
	b.must(makeNode(b.inside(path), mode, mkdev(major, minor)))
}

// BindFolder has config.json mount a folder of the host.
func (b *Bundle) BindFolder(from, to string) {
	b.Config.Mounts = append(b.Config.Mounts, specs.Mount{Destination: to, Type: "bind", Source: from, Options: []string{"rbind", "rw"}})
}

// Mode changes the mode of something in the image.
func (b *Bundle) Mode(path string, mode os.FileMode) {
	b.t.Helper()
	b.must(os.Chmod(filepath.Join(b.Rootfs, path), mode))
}

// ReadOnlyVolume has config.json mount a folder of the host that the container may not change.
func (b *Bundle) ReadOnlyVolume(from, to string) {
	b.Config.Mounts = append(b.Config.Mounts, specs.Mount{Destination: to, Type: "bind", Source: from, Options: []string{"bind", "ro", "rprivate"}})
}

// Copy puts a file of the host into the image.
func (b *Bundle) Copy(from, path string) {
	b.t.Helper()
	b.must(copyFile(from, b.inside(path), 0o755))
}
