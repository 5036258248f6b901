// Package report is what a probe saw inside a container, and how two such views are compared.
//
// It runs nothing and reads nothing: the probe fills a Report, the tests print it as lines and compare the lines, so that
// an expected difference can be written down exactly.
package report

import (
	"fmt"
	"sort"
	"strings"
)

// Ask is what a test wants to know; it travels as the probe's only argument.
type Ask struct {
	Paths []string `json:"paths,omitempty"`
	// Sweep asks for the access to every combination of these numbers.
	Sweep *Sweep `json:"sweep,omitempty"`
	// Writable are paths, or folders, to try to write to.
	Writable []string `json:"writable,omitempty"`
	// Remounting are mounts to take each flag away from, before the paths of Writable are tried.
	Remounting []string `json:"remounting,omitempty"`
	// Unmounting are mounts to take away.
	Unmounting []string `json:"unmounting,omitempty"`
	// Mounting are folders to mount a tmpfs on.
	Mounting []string `json:"mounting,omitempty"`
}

// Sweep names device numbers, character and block alike.
type Sweep struct {
	Majors []uint32 `json:"majors"`
	Minors []uint32 `json:"minors"`
}

// Object is one path as seen inside.
type Object struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"` // c, b, -, d, l, s, p or the errno of lstat
	Rdev    string `json:"rdev,omitempty"`
	Mode    string `json:"mode,omitempty"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Target  string `json:"target,omitempty"`  // of a link
	Open    string `json:"open,omitempty"`    // ok, or the errno of open for reading
	Access  string `json:"access,omitempty"`  // of a node: r and w as the cgroup and the mode allow
	Content string `json:"content,omitempty"` // of a file its start, of a directory its names
}

// Mount is one line of mountinfo without what differs between two runs of the same thing.
type Mount struct {
	Point       string `json:"point"`
	Parent      string `json:"parent"`
	Root        string `json:"root"`
	Options     string `json:"options"`
	Propagation string `json:"propagation"`
	Type        string `json:"type"`
	Source      string `json:"source"`
	Super       string `json:"super"`
}

// Report is the whole view from inside.
type Report struct {
	Objects  []Object `json:"objects"`
	Mounts   []Mount  `json:"mounts"` // in the kernel's order, which is that of their making
	Env      []string `json:"env"`
	Groups   []int    `json:"groups"`
	Allowed  []string `json:"allowed,omitempty"` // what the sweep found: "c 1:3 rwm"
	Writable []string `json:"writable,omitempty"`
}

// Lines prints the report one fact a line. Mounts are sorted by mount point (stacked ones keep their order), since natively all of
// a config's mounts are interleaved; the order of those at targets is printed apart.
func (r Report) Lines(targets []string) []string {
	var out []string
	for _, o := range r.Objects {
		out = append(out, o.String())
	}
	mounts := append([]Mount(nil), r.Mounts...)
	sort.SliceStable(mounts, func(i, j int) bool { return mounts[i].Point < mounts[j].Point })
	for _, m := range mounts {
		out = append(out, m.String())
	}
	for _, m := range r.Mounts {
		if contains(targets, m.Point) {
			out = append(out, "order "+m.Point)
		}
	}
	for _, e := range r.Env {
		out = append(out, "env "+e)
	}
	for _, g := range r.Groups {
		out = append(out, fmt.Sprintf("group %d", g))
	}
	for _, a := range r.Allowed {
		out = append(out, "allowed "+a)
	}
	for _, w := range r.Writable {
		out = append(out, "write "+w)
	}
	return out
}

func (o Object) String() string {
	s := fmt.Sprintf("path %s %s", o.Path, o.Kind)
	if o.Mode == "" {
		return s
	}
	if o.Rdev != "" {
		s += " " + o.Rdev
	}
	s += fmt.Sprintf(" %s %d:%d", o.Mode, o.UID, o.GID)
	for _, f := range []struct{ name, value string }{{"->", o.Target}, {"open", o.Open}, {"access", o.Access}, {"has", o.Content}} {
		if f.value != "" {
			s += fmt.Sprintf(" %s=%s", f.name, f.value)
		}
	}
	return s
}

func (m Mount) String() string {
	return fmt.Sprintf("mount %s on=%s root=%s %s %s %s %s %s", m.Point, m.Parent, m.Root, m.Options, m.Propagation, m.Type, m.Source, m.Super)
}

// Diff is the shortest list of lines to take away ("-line") and to add ("+line") that makes b of a.
func Diff(a, b []string) []string {
	// longest common subsequence, the plain table: reports have a few hundred lines
	n, m := len(a), len(b)
	l := make([][]int, n+1)
	for i := range l {
		l[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[i] == b[j] {
				l[i][j] = l[i+1][j+1] + 1
			} else {
				l[i][j] = max(l[i+1][j], l[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && a[i] == b[j]:
			i, j = i+1, j+1
		case j == m || (i < n && l[i+1][j] >= l[i][j+1]):
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if strings.TrimSuffix(x, "/") == s {
			return true
		}
	}
	return false
}
