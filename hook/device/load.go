package device

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// loadedSpec is a valid spec file. The path is ours: the library knows the
// file by its descriptor only.
type loadedSpec struct {
	*cdi.Spec
	path     string
	priority int
}

// load parses and validates an opened spec file by the library. It reads the
// file through its descriptor: the path may mean something else by now, and
// a FIFO there would block for ever.
func load(raw rawSpec) (spec *loadedSpec, err error) {
	fdPath := "/proc/self/fd/" + strconv.Itoa(raw.fd)
	// Up to its version 1.1.2 the library panics on a null in a list, in a
	// check that comes before the one for nulls.
	defer func() {
		if p := recover(); p != nil {
			spec, err = nil, panicReason(raw.data, p)
		}
	}()
	parsed, err := cdi.ReadSpec(fdPath, raw.priority)
	if err != nil {
		return nil, withForm(raw.data, withoutPath(err, fdPath))
	}
	return &loadedSpec{Spec: parsed, path: raw.path, priority: raw.priority}, nil
}

// withoutPath drops the descriptor's path from an error of the library; the
// file's own path stands beside it wherever it is shown.
func withoutPath(err error, fdPath string) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return fmt.Errorf("%s through /proc/self/fd: %w", pathErr.Op, pathErr.Err)
	}
	for strings.Contains(err.Error(), fdPath) {
		inner := errors.Unwrap(err)
		if inner == nil {
			return errors.New(strings.ReplaceAll(err.Error(), " "+strconv.Quote(fdPath), ""))
		}
		err = inner
	}
	return err
}

// withForm says so where a spec has the form of the first proposals: its
// fields are unknown today, which alone would send the reader looking for
// spelling errors.
func withForm(data []byte, err error) error {
	if field := DraftField(data); field != "" {
		return fmt.Errorf("in the form of the first CDI proposals (%s), which needs converting: %w", field, err)
	}
	return err
}

// DraftField is the first field in a spec's text that only the first CDI proposals have;
// empty where there is none.
func DraftField(data []byte) string {
	for _, field := range []string{"cdiDevices", "containerSpec"} {
		if bytes.Contains(data, []byte(field)) {
			return field
		}
	}
	return ""
}

// panicReason explains a panic of the library.
func panicReason(data []byte, p any) error {
	raw, err := cdi.ParseSpec(data)
	if err == nil && raw != nil {
		if null := findNull(raw); null != "" {
			return errors.New(null)
		}
	}
	return fmt.Errorf("library panic: %v", p)
}

// findNull names the first null in a list of edits.
func findNull(raw *specs.Spec) string {
	if null := nullIn(&raw.ContainerEdits); null != "" {
		return null
	}
	for i := range raw.Devices {
		if null := nullIn(&raw.Devices[i].ContainerEdits); null != "" {
			return fmt.Sprintf("device %s: %s", shown(raw.Devices[i].Name), null)
		}
	}
	return ""
}

func nullIn(edits *specs.ContainerEdits) string {
	switch {
	case hasNil(edits.DeviceNodes):
		return "null device node in deviceNodes"
	case hasNil(edits.Mounts):
		return "null mount in mounts"
	case hasNil(edits.Hooks):
		return "null hook in hooks"
	case hasNil(edits.NetDevices):
		return "null device in netDevices"
	}
	return ""
}

func hasNil[T any](list []*T) bool {
	for _, item := range list {
		if item == nil {
			return true
		}
	}
	return false
}
