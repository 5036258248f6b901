// Package oci reads what an OCI runtime says about a container, and finds the container:
// its process, namespaces, ids, root file system and cgroups. It is the trust boundary:
// what comes from here is checked, and /proc/PID is opened once and used through that
// descriptor, so that a recycled pid cannot stand in for the container.
//
// It does not depend on state.status or ociVersion, which differ between runtimes, and
// trusts no path because it merely exists. It changes nothing, and knows nothing of CDI.
package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"strconv"
)

// maxDocument bounds a state or config document, in bytes; maxDrained what is read of a
// larger one.
const (
	maxDocument = 16 << 20
	maxDrained  = 1 << 30
)

// State is the container state that a runtime gives a hook on stdin (runtime-spec,
// runtime.md, "State").
type State struct {
	ID          string            `json:"id"`
	Pid         int               `json:"pid"`
	Bundle      string            `json:"bundle"`
	Annotations map[string]string `json:"annotations"`
	// Root is crun's own addition: root.path of the config, possibly relative.
	Root string `json:"root"`

	raw []byte
}

// ReadState reads the state to the end of r, also where it is of no use: a runtime that
// still writes would die of SIGPIPE.
func ReadState(r io.Reader) (*State, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if len(raw) > maxDocument {
		// Who writes more than this does not stop.
		if _, err := io.CopyN(io.Discard, r, maxDrained); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("state: %w", err)
		}
		return nil, fmt.Errorf("state: larger than %d bytes", maxDocument)
	}
	s := &State{raw: raw}
	if err := unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return s, nil
}

// CheckName tells whether the id can name a file.
func (s *State) CheckName() error {
	if s.ID == "" || s.ID == "." || s.ID == ".." || !isComponent(s.ID) {
		return fmt.Errorf("state: id %q is not one path component", s.ID)
	}
	return nil
}

// Check tells whether the state names a container that a hook can work on.
func (s *State) Check() error {
	if err := s.CheckName(); err != nil {
		return err
	}
	switch {
	case s.Pid <= 1:
		return fmt.Errorf("state: pid %d is not a container's process", s.Pid)
	case !path.IsAbs(s.Bundle):
		return fmt.Errorf("state: bundle %q is not an absolute path", s.Bundle)
	}
	return nil
}

func isComponent(name string) bool {
	if len(name) > 255 {
		return false
	}
	for _, c := range []byte(name) {
		if c == '/' || c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// JSON gives the document as it came.
func (s *State) JSON() []byte { return s.raw }

// withPid gives the document with another pid; everything else stays as it came.
func (s *State) withPid(pid int) ([]byte, error) {
	var doc map[string]json.RawMessage
	if err := unmarshal(s.raw, &doc); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	doc["pid"] = strconv.AppendInt(nil, int64(pid), 10)
	return json.Marshal(doc)
}

// jsonKind says in JSON's words what a Go type is decoded from.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	}
	return "an integer"
}

// unmarshal decodes exactly one JSON object and gives errors that say where they are.
func unmarshal(raw []byte, into any) error {
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	if len(trimmed) == 0 {
		return errors.New("empty document")
	}
	if trimmed[0] != '{' {
		return errors.New("not a JSON object")
	}
	err := json.Unmarshal(raw, into)
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		return fmt.Errorf("%s: a JSON %s where %s belongs", wrongType.Field, wrongType.Value, jsonKind(wrongType.Type))
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	}
	return err
}
