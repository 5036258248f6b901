package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// trap is something that an image has where the hook looks or writes. Its own folder in the image is /tN, which %s stands for.
type trap struct {
	name  string
	image func(b *bed.Bundle, at string)
	edit  string
	given bool
	// at is where in the image the thing must be then; empty: anywhere in it.
	at string
}

const (
	trapMount = "mounts: [{hostPath: " + brought + ", containerPath: %s/x/d, options: [bind]}]"
	trapFile  = "mounts: [{hostPath: " + brought + "/mark, containerPath: %s/x/f, options: [bind, ro]}]"
	trapOver  = "mounts: [{hostPath: " + brought + "/mark, containerPath: %s/x, options: [bind]}]"
	trapTree  = "mounts: [{hostPath: " + brought + ", containerPath: %s/x, options: [bind]}]"
	trapNode  = "deviceNodes: [{path: %s/x/n, hostPath: /dev/fuse}]"
	trapAt    = "deviceNodes: [{path: %s/x, hostPath: /dev/fuse}]"
	inCanary  = bed.CanaryDir + "/dir"
)

func link(to string) func(*bed.Bundle, string) {
	return func(b *bed.Bundle, at string) { b.Link(at+"/x", strings.ReplaceAll(to, "%s", at)) }
}

func object(mode uint32) func(*bed.Bundle, string) {
	return func(b *bed.Bundle, at string) { b.Node(at+"/x", mode|0o666, 1, 3) }
}

// chain is a way through n links.
func chain(n int) func(*bed.Bundle, string) {
	return func(b *bed.Bundle, at string) {
		b.Folder(at + "/end")
		to := "end"
		for i := range n {
			name := fmt.Sprint("l", i)
			if i == n-1 {
				name = "x"
			}
			b.Link(at+"/"+name, to)
			to = name
		}
	}
}

// parents are what may be where a folder of the path should be, each tried for a mount of a folder, of a file, and a node.
var parents = []trap{
	{name: "absolute link", image: link(inCanary), given: true, at: inCanary},
	{name: "relative link", image: link("../../../../../.." + inCanary), given: true, at: inCanary},
	{name: "link into a missing folder", image: link("/no/such/folder"), given: true, at: "/no/such/folder"},
	{name: "loop", image: func(b *bed.Bundle, at string) { b.Link(at+"/x", "y"); b.Link(at+"/y", "x") }},
	{name: "link to itself", image: link("x")},
	{name: "link up to the root", image: link("../../.."), given: true, at: "/"},
	{name: "35 links", image: chain(35), given: true},
	{name: "60 links", image: chain(60)},
	{name: "/proc/self/root", image: link("/proc/self/root" + inCanary)},
	{name: "/proc/1/root", image: link("/proc/1/root" + inCanary)},
	{name: "/proc/1/cwd", image: link("/proc/1/cwd")},
	{name: "/proc/thread-self/fd/3", image: link("/proc/thread-self/fd/3")},
	{name: "/dev/fd", image: link("/dev/fd/3")},
	{name: "/proc", image: link("/proc")},
	{name: "a setting", image: link("/proc/sys/kernel")},
	{name: "sysfs", image: link("/sys/kernel")},
	{name: "a read-only volume of the host", image: link("/readonly")},
	{name: "a file", image: func(b *bed.Bundle, at string) { b.File(at+"/x", "of the image") }},
	{name: "a FIFO", image: object(unix.S_IFIFO)},
	{name: "a socket", image: object(unix.S_IFSOCK)},
	{name: "a device", image: object(unix.S_IFCHR)},
	{name: "a link to a FIFO of the host", image: link(bed.CanaryDir + "/fifo"), given: true, at: bed.CanaryDir + "/fifo"},
	{name: "a name of two lines", image: func(b *bed.Bundle, at string) {
		b.Folder(at + "/a\nb \\040(deleted)")
		b.Link(at+"/x", "a\nb \\040(deleted)")
	}, given: true},
	{name: "two lines and not a folder", image: func(b *bed.Bundle, at string) { b.File(at+"/a\nb\x1b[2J", ""); b.Link(at+"/x", "a\nb\x1b[2J") }},
	{name: "a name that is too long", image: link(strings.Repeat("a", 300))},
	{name: "no permission", image: func(b *bed.Bundle, at string) { b.Folder(at + "/x"); b.Mode(at+"/x", 0) }, given: true},
}

// targets are what may be at the path itself.
var targets = []trap{
	{name: "a FIFO under a file", edit: trapOver, image: object(unix.S_IFIFO), given: true},
	{name: "a socket under a file", edit: trapOver, image: object(unix.S_IFSOCK), given: true},
	{name: "a device under a file", edit: trapOver, image: object(unix.S_IFCHR), given: true},
	{name: "a FIFO under a folder", edit: trapTree, image: object(unix.S_IFIFO)},
	{name: "a link to a file that is missing", edit: trapOver, image: link(inCanary + "/new"), given: true, at: inCanary + "/new"},
	{name: "a link to the root", edit: trapTree, image: link("/")},
	{name: "a link to a file of proc", edit: trapOver, image: link("/proc/sysrq-trigger")},
	{name: "a link through proc to the host", edit: trapOver, image: link("/proc/1/root" + inCanary + "/file")},
	{name: "a link to what is masked later", edit: trapOver, image: link("/proc/kcore")},
	{name: "a link under a node", edit: trapAt, image: link(bed.CanaryDir + "/node")},
	{name: "a dangling link under a node", edit: trapAt, image: link(inCanary + "/new")},
	{name: "a FIFO under a node", edit: trapAt, image: object(unix.S_IFIFO)},
	{name: "another device under a node", edit: trapAt, image: object(unix.S_IFCHR)},
	{name: "a folder under a node", edit: trapAt, image: func(b *bed.Bundle, at string) { b.Folder(at + "/x") }},
	{name: "a block device under a node", edit: trapAt, image: object(unix.S_IFBLK)},
}

// TestHostileImage asks for a device at each of these places of one image. This is what CVE-2024-0133 and CVE-2021-30465 need no race
// for: a link of the image that leads a mount point out of the root file system.
func TestHostileImage(t *testing.T) {
	var all []trap
	for _, p := range parents {
		for what, edit := range map[string]string{"a folder": trapMount, "a file": trapFile, "a node": trapNode} {
			p.edit = edit
			q := p
			q.name = p.name + ", for " + what
			all = append(all, q)
		}
	}
	all = append(all, targets...)
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		if !bed.Long() && (bed.Cgroup() == bed.V1 || strings.HasPrefix(rt.Name, "runc-1.1")) {
			return
		}
		springAll(t, rt, all)
	})
}

func springAll(t *testing.T, rt bed.Runtime, all []trap, images ...func(*bed.Bundle)) {
	bed.LeavesNothing(t)
	var edits strings.Builder
	at := func(i int) string { return fmt.Sprint("/t", i) }
	for i, p := range all {
		fmt.Fprintf(&edits, "- name: t%d\n  containerEdits:\n    %s\n", i, fmt.Sprintf(p.edit, at(i)))
	}
	g := race{
		edits: []string{"env: [A=1]", "deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]"},
		more:  edits.String(),
		image: func(b *bed.Bundle) {
			for i, p := range all {
				p.image(b, at(i))
			}
			b.ReadOnlyVolume(bed.CanaryDir+"/dir", "/readonly")
			for _, image := range images {
				image(b)
			}
		},
	}.enter(t, rt)
	refused := 0
	for i, p := range all {
		g.spring(fmt.Sprint("v.example/dev=t", i), p)
		if !p.given {
			refused++
		}
	}
	t.Logf("attacked: %d traps, %d refused, %d resolved in the root file system; lost: 0", len(all), refused, len(all)-refused)
	g.leave()
}

func (g *ring) spring(name string, p trap) {
	g.t.Helper()
	state := asMap(g.t, g.held.State)
	state["annotations"] = map[string]any{bed.AnnotationKey: name}
	g.last = bed.Run(g.t, marshal(g.t, state), nil, g.program...)
	what := fmt.Sprintf("%s: exit %d: %s", p.name, g.last.Code, g.last.Stderr)
	if given := g.last.Code == 0; given != p.given {
		g.t.Errorf("%s\ngiven: %v", what, given)
	}
	g.judge(what)
	made := g.b.Names()
	if p.at != "" && len(g.under(made, p.at)) == 0 {
		g.t.Errorf("%s\nnothing new at %s", what, p.at)
	}
	if !p.given && len(missing(made, g.names)) > 0 {
		g.t.Errorf("%s\nrefused, and left %v", what, missing(made, g.names))
	}
	if strings.ContainsAny(strings.TrimSuffix(g.last.Stderr, "\n"), "\n\x1b") {
		g.t.Errorf("%s\nnames of the image write what they like", what)
	}
	g.tidy()
}

// under are the new names at or below a place.
func (g *ring) under(names map[string]bool, place string) (out []string) {
	for _, name := range missing(names, g.names) {
		if strings.HasPrefix(name, filepath.Clean(place)) {
			out = append(out, name)
		}
	}
	return out
}

// TestCVE_2024_0133: an image's links made the toolkit create empty files on the host where it only wanted places to mount on. The same
// image, for a container of the host's root and for one of a user namespace.
func TestCVE_2024_0133(t *testing.T) {
	var all []trap
	for _, to := range []string{inCanary, "../../../../.." + inCanary, inCanary + "/missing/too", "/proc/1/root" + inCanary} {
		given := !strings.HasPrefix(to, "/proc")
		all = append(all,
			trap{name: to + ", for a file", edit: trapFile, image: link(to), given: given},
			trap{name: to + ", for a folder", edit: trapMount, image: link(to), given: given},
			trap{name: to + ", at the place itself", edit: trapOver, image: link(to + "/new"), given: given},
			trap{name: to + ", for a node", edit: trapNode, image: link(to), given: given})
	}
	for name, image := range map[string]func(*bed.Bundle){"root of the host": func(*bed.Bundle) {}, "user namespace": mapped} {
		t.Run(name, func(t *testing.T) {
			bed.Each(t, func(t *testing.T, rt bed.Runtime) { springAll(t, rt, all, image) })
		})
	}
}
