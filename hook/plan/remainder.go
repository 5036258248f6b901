package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Remainder is what a plan leaves out and a user can set beside the annotation.
type Remainder struct {
	Env  []string // NAME=value
	GIDs []string
}

// RemainderOf collects it; what is known to be harmless is not in it.
func RemainderOf(p *Plan) Remainder {
	var r Remainder
	for _, u := range p.Unsupported {
		switch {
		case u.Quiet:
		case u.Edit == "env":
			r.Env = append(r.Env, u.Value)
		case u.Edit == "additionalGids":
			r.GIDs = append(r.GIDs, u.Value)
		}
	}
	return r
}

// Empty tells whether nothing can be set.
func (r Remainder) Empty() bool { return len(r.Env) == 0 && len(r.GIDs) == 0 }

// PodmanFlags gives flags of podman run, quoted for a shell.
func (r Remainder) PodmanFlags() []string {
	var flags []string
	for _, e := range r.Env {
		flags = append(flags, "--env", shellQuote(e))
	}
	for _, g := range r.GIDs {
		flags = append(flags, "--group-add", g)
	}
	return flags
}

func shellQuote(s string) string {
	if s != "" && strings.IndexFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_=./:,@%+-", c))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// PodYAML gives lines of a pod's spec.
func (r Remainder) PodYAML() []string {
	var lines []string
	lines = append(lines, "spec:")
	if len(r.GIDs) > 0 {
		lines = append(lines, "  securityContext:", "    supplementalGroups: ["+strings.Join(r.GIDs, ", ")+"]")
	}
	if len(r.Env) > 0 {
		lines = append(lines, "  containers:", "  - env:")
	}
	for _, e := range r.Env {
		name, value, _ := strings.Cut(e, "=")
		value = strings.ReplaceAll(value, "$", "$$") // the kubelet replaces $(NAME), and $$ by $
		lines = append(lines, fmt.Sprintf("    - {name: %s, value: %s}", strconv.Quote(name), strconv.Quote(value)))
	}
	return lines
}
