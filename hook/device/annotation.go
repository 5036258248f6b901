package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// DefaultPrefix is the prefix of annotation keys that ask for devices.
const DefaultPrefix = cdi.AnnotationPrefix

// containerMark begins, after the prefix, a key that addresses one container
// of a pod by its name. A key that a device plugin writes (PLUGIN_ID) has an
// underscore, which no container name of a pod can have.
const containerMark = "container."

// Requested returns the qualified device names that a container's annotations
// ask for: keys in sorted order, names in the order of the value. Repeated
// names are kept, since the last mention decides over overlapping edits, see
// [Registry.Resolve].
//
// A key "PREFIXcontainer.NAME" asks for the container of that name alone.
// Where the engine does not tell containers their name (container is empty),
// such a key counts: engines that do not tell set annotations on one
// container, so whoever wrote it meant the one that carries it.
//
// Any malformed value is a [*RequestError] that names every bad piece with
// its key; no names are returned then.
func Requested(annotations map[string]string, prefixes []string, container string) ([]string, error) {
	keys := requestKeys(annotations, prefixes, container)
	if len(keys) == 0 {
		return nil, nil
	}
	var (
		names []string
		bad   []RequestItem
	)
	for _, key := range keys {
		for unsafeName := range strings.SplitSeq(annotations[key], ",") {
			if _, _, _, err := parser.ParseQualifiedName(unsafeName); err != nil {
				bad = append(bad, RequestItem{Name: unsafeName, Key: key, Reason: malformed(unsafeName, err)})
				continue
			}
			names = append(names, unsafeName)
		}
	}
	if len(bad) > 0 {
		return nil, &RequestError{Items: bad}
	}
	return names, nil
}

// IsName tells whether a text is a qualified device name.
func IsName(text string) bool { return parser.IsQualifiedName(text) }

// requestKeys returns the sorted keys that ask something of this container.
// Nothing is allocated where there are none: most containers ask nothing.
func requestKeys(annotations map[string]string, prefixes []string, container string) []string {
	var keys []string
	for key := range annotations {
		if asks(key, prefixes, container) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func asks(key string, prefixes []string, container string) bool {
	for _, prefix := range prefixes {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		name, one := strings.CutPrefix(rest, containerMark)
		if !one || container == "" || name == container || strings.Contains(name, "_") {
			return true
		}
	}
	return false
}

// malformed returns why unsafeName is no qualified name, in one line.
func malformed(unsafeName string, err error) string {
	const form = "not of the form vendor/class=name"
	switch {
	case unsafeName == "":
		return form + ": empty"
	case strings.TrimSpace(unsafeName) != unsafeName:
		return form + ": white space around it"
	}
	// The library's text repeats the name at its beginning.
	if inner := errors.Unwrap(err); inner != nil {
		return form + ": " + oneLine(inner.Error(), maxReason)
	}
	reason := strings.TrimPrefix(err.Error(), fmt.Sprintf("unqualified device %q, ", unsafeName))
	return form + ": " + oneLine(reason, maxReason)
}
