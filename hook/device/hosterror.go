package device

import (
	"errors"
	"fmt"
	"strings"
)

// HostError says that the host lacks device nodes that a spec relies on.
type HostError struct {
	Nodes []NodeError
}

// NodeError is a device node that cannot be made as the spec has it.
type NodeError struct {
	Path     string // in the container
	HostPath string
	Origin
	Err error // the library's
}

// Error returns one bounded, printable line with every node.
func (e *HostError) Error() string {
	var groups []string
	for i := 0; i < len(e.Nodes); {
		n := 1
		for i+n < len(e.Nodes) && e.Nodes[i].isLike(e.Nodes[i+n]) {
			n++
		}
		groups = append(groups, e.Nodes[i].text(e.Nodes[i+1:i+n]...))
		i += n
	}
	return oneLine(joinBounded(groups), maxLine)
}

// Unwrap returns the reasons.
func (e *HostError) Unwrap() []error {
	var errs []error
	for _, n := range e.Nodes {
		errs = append(errs, n)
	}
	return errs
}

// Error returns host path, reason, device and spec file.
func (e NodeError) Error() string { return e.text() }

// isLike reports whether the nodes share all that is said but their path.
func (e NodeError) isLike(o NodeError) bool {
	return e.Origin == o.Origin && e.reason() == o.reason()
}

func (e NodeError) text(more ...NodeError) string {
	paths := []string{shown(e.HostPath)}
	for _, n := range more[:min(len(more), maxItems)] {
		paths = append(paths, shown(n.HostPath))
	}
	if len(more) > maxItems {
		paths = append(paths, fmt.Sprintf("%d more", len(more)-maxItems))
	}
	return fmt.Sprintf("host device node %s: %s (device %s of spec %s)",
		joinWord(paths, " and "), oneLine(e.reason(), maxReason), shown(e.Device), shown(e.SpecPath))
}

// Unwrap returns the library's error.
func (e NodeError) Unwrap() error { return e.Err }

// reason drops the library's wrapping, which repeats the path.
func (e NodeError) reason() string {
	if inner := errors.Unwrap(e.Err); inner != nil {
		return inner.Error()
	}
	return strings.TrimPrefix(e.Err.Error(), "CDI device ")
}
