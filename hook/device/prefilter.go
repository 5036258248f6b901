package device

import "bytes"

// mayName reports whether a spec file with these bytes could be of the given
// kind. False means that the library, if it accepts the file at all, reads
// another kind from it.
//
// A valid kind is ASCII without white space, and YAML (which the library also
// reads JSON as) copies such text into a scalar byte by byte; line folding,
// quotes, anchors, aliases and merge keys add or repeat, but never join two
// pieces without a space or a line break between. What can spell a kind
// without its bytes is a double-quoted escape, which needs a backslash; a
// !!binary tag, also one renamed by a %TAG line, which needs an exclamation
// mark; and UTF-16, in which every ASCII character has a NUL byte.
func mayName(data []byte, kind string) bool {
	return mayDisguise(data) || bytes.Contains(data, []byte(kind))
}

// mayNameAny reports whether mayName holds for one of the kinds.
func mayNameAny(data []byte, kinds []string) bool {
	for _, kind := range kinds {
		if bytes.Contains(data, []byte(kind)) {
			return true
		}
	}
	return mayDisguise(data)
}

// mayDisguise reports whether the bytes could mean text that they do not
// contain.
func mayDisguise(data []byte) bool {
	return bytes.IndexByte(data, '\\') >= 0 ||
		bytes.IndexByte(data, '!') >= 0 ||
		bytes.IndexByte(data, 0) >= 0
}
