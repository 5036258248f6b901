package oci

import (
	"fmt"
	"strconv"
	"strings"
)

// IDMap translates between a container's ids and those of the reader's user namespace,
// as /proc/PID/uid_map and gid_map show it (user_namespaces(7)).
type IDMap []idRange

type idRange struct{ inside, outside, size uint64 }

// ParseIDMap reads a uid_map or gid_map.
func ParseIDMap(text string) (IDMap, error) {
	var m IDMap
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("id map line %q has not three fields", strings.TrimSpace(line))
		}
		var n [3]uint64
		for i, f := range fields {
			v, err := strconv.ParseUint(f, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("id map: %w", err)
			}
			n[i] = v
		}
		m = append(m, idRange{inside: n[0], outside: n[1], size: n[2]})
	}
	return m, nil
}

// ToHost translates a container's id; false if it is not mapped.
func (m IDMap) ToHost(id uint32) (uint32, bool) {
	for _, r := range m {
		if v := uint64(id); v >= r.inside && v-r.inside < r.size {
			return uint32(r.outside + v - r.inside), true
		}
	}
	return 0, false
}

// covers tells whether a host id is mapped.
func (m IDMap) covers(id uint32) bool {
	for _, r := range m {
		if v := uint64(id); v >= r.outside && v-r.outside < r.size {
			return true
		}
	}
	return false
}
