package report

import (
	"fmt"
	"strings"
)

// ParseMountinfo reads the kernel's table and takes out what no two runs share: mount ids become the parent's mount point, peer
// group numbers become words, numbers of filesystems without a block device are dropped.
func ParseMountinfo(text string) ([]Mount, error) {
	var out []Mount
	points := map[string]string{}
	var parents []string
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		m, id, parent, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		points[id] = m.Point
		out, parents = append(out, m), append(parents, parent)
	}
	for i, p := range parents {
		out[i].Parent = "-"
		if at, known := points[p]; known {
			out[i].Parent = at
		}
	}
	return out, nil
}

func parseLine(line string) (m Mount, id, parent string, err error) {
	head, tail, found := strings.Cut(line, " - ")
	f, g := strings.Fields(head), strings.Fields(tail)
	if !found || len(f) < 6 || len(g) < 2 {
		return m, "", "", fmt.Errorf("mountinfo line %q: too few fields", line)
	}
	m = Mount{Root: f[3], Point: f[4], Options: f[5], Propagation: propagation(f[6:]), Type: g[0], Source: g[1]}
	if len(g) > 2 {
		m.Super = g[2]
	}
	return m, f[0], f[1], nil
}

func propagation(fields []string) string {
	var words []string
	for _, f := range fields {
		switch name, _, _ := strings.Cut(f, ":"); name {
		case "shared":
			words = append(words, "shared")
		case "master":
			words = append(words, "slave")
		case "unbindable":
			words = append(words, "unbindable")
		}
	}
	if words == nil {
		return "private"
	}
	return strings.Join(words, "+")
}
