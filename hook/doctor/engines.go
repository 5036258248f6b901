package doctor

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Host is where to look.
type Host struct {
	// Root is put before every path that is read; empty for the host itself.
	Root string
	// Path is the list of directories with programs, as of PATH.
	Path string
	// Home is the home directory of a user whose engine is rootless; empty for root.
	Home string
	// Prefixes are the annotation prefixes that ask for devices.
	Prefixes []string
	// SpecDirs are the hook's.
	SpecDirs []string
}

func (h Host) at(name string) string { return filepath.Join(h.Root, name) }

// Programs that may be on a host, and what they are to this one.
const (
	engine  = "engine"
	runtime = "runtime"
	helper  = "helper"
)

type program struct{ name, kind string }

func programs() []program {
	return []program{
		{"podman", engine}, {"crio", engine}, {"buildah", engine},
		{"crun", runtime}, {"runc", runtime}, {"youki", runtime},
		{"nsenter", helper}, {"criu", helper},
	}
}

// patience bounds how long a program may take to say its version.
const patience = 5 * time.Second

// Programs looks which engines and runtimes there are.
func (h Host) Programs(ctx context.Context) (found Findings, have map[string]bool) {
	have = map[string]bool{}
	for _, p := range programs() {
		path := h.find(p.name)
		if path == "" {
			continue
		}
		have[p.name] = true
		if p.kind == helper {
			continue
		}
		version, err := versionOf(ctx, path)
		if err != nil {
			found.Warn(p.kind, "see what it says by hand", "%s: --version: %v", path, err)
			continue
		}
		found.Ok(p.kind, "%s: %s", path, version)
	}
	h.remark(&found, have)
	return found, have
}

func (h Host) remark(found *Findings, have map[string]bool) {
	if !have["podman"] && !have["crio"] {
		found.Warn(engine, "with a plain runtime put the hook into config.json yourself", "neither podman nor crio is on PATH: nothing reads hooks.d")
	}
	if !have["nsenter"] {
		found.Warn(helper, "install util-linux", "no nsenter: vendors' createContainer hooks cannot run for containers with a user namespace")
	}
	if have["criu"] {
		found.Warn(helper, "do not checkpoint containers that were given devices", "criu is there: a container that this hook has given devices cannot be restored")
	}
	if have["buildah"] {
		found.Ok(engine, "buildah shows its hooks no annotations: nothing happens in builds")
	}
}

func (h Host) find(name string) string {
	for _, dir := range filepath.SplitList(h.Path) {
		path := h.at(filepath.Join(dir, name))
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 && filepath.IsAbs(dir) {
			return path
		}
	}
	return ""
}

// versionOf is the first line that a program says of its version.
func versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	first, _, _ := bytes.Cut(out, []byte("\n"))
	return strings.TrimSpace(string(first)), nil
}
