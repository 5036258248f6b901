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
	var nodes []string
	for _, n := range e.Nodes {
		nodes = append(nodes, n.Error())
	}
	return oneLine(joinBounded(nodes), maxLine)
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
func (e NodeError) Error() string {
	return fmt.Sprintf("host device node %s: %s (device %s of spec %s)",
		shown(e.HostPath), oneLine(e.reason(), maxReason), shown(e.Device), shown(e.SpecPath))
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
