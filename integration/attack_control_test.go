package integration

import (
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// TestAttacksHit has a careless program in the hook's place, which makes folders and mounts by path as the faulty ones did: the attacks
// must show on the host, or the tests of the hook would prove nothing.
func TestAttacksHit(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		r := race{image: func(b *bed.Bundle) { b.Folder("/opt/x"); b.Link("/opt/y", bed.CanaryDir+"/dir") }, a: "/opt/x", b: "/opt/y", edits: []string{mountOf(brought, "/opt/x", "options: [bind]")}}
		g := r.enter(t, rt)
		target := filepath.Join(g.b.Rootfs, "/opt/x")
		script := `[ ! -L "$0" ] && mkdir -p "$0/made/by/path" && : >"$0/made/file"`
		hits := 0
		for k := 1; k <= 40 && hits < 3; k++ {
			swapped := false
			bed.Step(t, "", func(m bed.Moment) {
				if m.Inside == k && !swapped {
					swapped = true
					g.swap()
				}
			}, "/usr/bin/nsenter", "--mount=/proc/"+strconv.Itoa(g.held.State.Pid)+"/ns/mnt", bed.ToolBusybox, "sh", "-c", script, target)
			if swapped {
				g.swap()
			}
			if len(g.canary.Touched()) > 0 {
				hits++
				g.canary.Clean()
			}
			g.tidy()
		}
		if hits == 0 {
			t.Error("a careless program came through unharmed")
		}
		t.Logf("a careless program was led out of the rootfs in %d rounds", hits)
		g.leave()
	})
}

// TestCanary does to the canary each thing that it is to tell of.
func TestCanary(t *testing.T) {
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	c := h.Canary()
	at := func(name string) string { return filepath.Join(bed.CanaryDir, name) }
	for what, do := range map[string]func() error{
		"a folder": func() error { return unix.Mkdir(at("new"), 0o755) },
		"a mode":   func() error { return unix.Chmod(at("file"), 0o644) },
		"opened": func() error {
			fd, err := unix.Open(at("fifo"), unix.O_RDONLY|unix.O_NONBLOCK, 0)
			unix.Close(fd)
			return err
		},
		"a mount": func() error { return unix.Mount("none", at("dir"), "tmpfs", 0, "") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if len(c.Touched()) == 0 {
			t.Errorf("%s was not noticed", what)
		}
	}
	if err := unix.Unmount(at("dir"), 0); err != nil {
		t.Fatal(err)
	}
	if len(c.Touched()) == 0 || len(c.Touched()) > 0 {
		t.Error("the end of the mount was not noticed, or noticed twice")
	}
}
