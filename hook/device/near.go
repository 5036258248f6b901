package device

import (
	"slices"
	"strings"
)

const (
	maxNear     = 3  // names suggested
	maxNearName = 80 // bytes of a name that is compared
)

// near returns the known names that are most likely meant by name. Both are
// qualified names of one kind.
func near(name string, known []string) []string {
	if len(known) <= maxNear {
		return known
	}
	_, wanted, _ := strings.Cut(name, "=")
	if len(wanted) > maxNearName {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var candidates []candidate
	for _, k := range known {
		_, device, _ := strings.Cut(k, "=")
		if len(device) > maxNearName {
			continue
		}
		d := distance(wanted, device)
		if d <= 1+len(wanted)/3 || isTail(wanted, device) {
			candidates = append(candidates, candidate{k, d})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range candidates[:min(len(candidates), maxNear)] {
		names = append(names, c.name)
	}
	return names
}

// isTail reports whether one name is the other with something put before it,
// as in 0 for gpu0.
func isTail(a, b string) bool {
	return strings.HasSuffix(a, b) || strings.HasSuffix(b, a)
}

// distance is the Levenshtein distance of two names without regard to case.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
