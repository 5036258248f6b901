package cgroups

import "github.com/moby/sys/mountinfo"

// mountTable is a mountinfo, in its order. The order says little: since 6.8 it is that of
// creation, and a root that was moved into place comes after what is mounted in it.
type mountTable []*mountinfo.Info

// at is the visible mount at a path.
func (t mountTable) at(path string) *mountinfo.Info {
	for _, m := range t {
		if m.Mountpoint == path && t.visible(m) {
			return m
		}
	}
	return nil
}

// visible says that a mount's own path leads to it.
func (t mountTable) visible(m *mountinfo.Info) bool {
	for _, over := range t {
		if over.Parent == m.ID && over.ID != m.ID && over.Mountpoint == m.Mountpoint {
			return false
		}
	}
	for range t { // no deeper than there are mounts, whatever the parents say
		if m.Parent == m.ID { // the first root of all
			return true
		}
		if t.hasCover(m) {
			return false
		}
		if m = t.parent(m); m == nil {
			return true
		}
	}
	return true
}

// hasCover finds a mount on the same parent whose place is on the way to m's.
func (t mountTable) hasCover(m *mountinfo.Info) bool {
	after := false
	for _, other := range t {
		if other == m {
			after = true
			continue
		}
		same := other.Mountpoint == m.Mountpoint
		if other.Parent == m.Parent && beneath(m.Mountpoint, other.Mountpoint) && (!same || after) {
			return true
		}
	}
	return false
}

func (t mountTable) parent(m *mountinfo.Info) *mountinfo.Info {
	for _, p := range t {
		if p.ID == m.Parent && p != m {
			return p
		}
	}
	return nil
}
