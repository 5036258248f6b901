package filter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// object is a JSON object of the config, and the changes to it. All that is not
// changed is written as it was read, white space included.
type object struct {
	path    string // of the config, as in linux.resources
	raw     []byte
	members []member // those read, then those added
	read    int
}

// member is a key and its value: the one read, or another.
type member struct {
	key        string
	start, end int     // of the value in raw; of a member that was read
	value      []byte  // the new value
	child      *object // the value as an object, where it was asked for
}

// parseObject finds the members of an object in valid JSON.
func parseObject(path string, raw []byte) (*object, error) {
	o := &object{path: path, raw: raw}
	if raw[0] != '{' {
		return nil, wrongType(path, raw, "an object")
	}
	seen := map[string]bool{}
	for i := skipSpace(raw, 1); raw[i] != '}'; {
		end := skipValue(raw, i)
		key, err := parseKey(raw[i:end])
		if err != nil {
			return nil, fmt.Errorf("config: key of %s: %w", o.name(), err)
		}
		if seen[key] {
			return nil, fmt.Errorf("config: %s: named twice", join(path, key))
		}
		seen[key] = true
		m := member{key: key, start: skipSpace(raw, skipSpace(raw, end)+1)}
		m.end = skipValue(raw, m.start)
		o.members = append(o.members, m)
		if i = skipSpace(raw, m.end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	o.read = len(o.members)
	return o, nil
}

func parseKey(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var key string
	err := json.Unmarshal(raw, &key)
	return key, err
}

// name is what errors call the object.
func (o *object) name() string {
	if o.path == "" {
		return "the config"
	}
	return o.path
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (o *object) find(key string) *member {
	for i := range o.members {
		if o.members[i].key == key {
			return &o.members[i]
		}
	}
	return nil
}

// get returns a value as it was read. An absent one and null are nil. A key in
// another case is refused: runtimes differ in whether it counts.
func (o *object) get(key string) ([]byte, error) {
	m := o.find(key)
	if m == nil {
		for i := range o.members {
			if other := o.members[i].key; strings.EqualFold(other, key) {
				return nil, fmt.Errorf("config: %q in place of %q", join(o.path, other), key)
			}
		}
	}
	if m == nil || m.end == 0 || o.raw[m.start] == 'n' {
		return nil, nil
	}
	return o.raw[m.start:m.end], nil
}

// set gives a key a new value.
func (o *object) set(key string, value []byte) {
	m := o.find(key)
	if m == nil {
		o.members = append(o.members, member{key: key})
		m = &o.members[len(o.members)-1]
	}
	m.value = value
}

// child returns the object that is a member's value. An absent one, and null,
// is an empty object that is written only if something is set in it.
func (o *object) child(key string) (*object, error) {
	m := o.find(key)
	if m != nil && m.child != nil {
		return m.child, nil
	}
	raw, err := o.get(key)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		raw = []byte("{}")
	}
	child, err := parseObject(join(o.path, key), raw)
	if err != nil {
		return nil, err
	}
	if m == nil {
		o.members = append(o.members, member{key: key})
		m = &o.members[len(o.members)-1]
	}
	m.child = child
	return child, nil
}

// list returns the elements of a member that is an array. An absent one, and
// null, has none.
func (o *object) list(key string) ([][]byte, error) {
	raw, err := o.get(key)
	if raw == nil || err != nil {
		return nil, err
	}
	if raw[0] != '[' {
		return nil, wrongType(join(o.path, key), raw, "an array")
	}
	return elements(raw), nil
}

func (m *member) changed() bool {
	return m.value != nil || m.child != nil && m.child.changed()
}

func (o *object) changed() bool {
	for i := range o.members {
		if o.members[i].changed() {
			return true
		}
	}
	return false
}

// appendTo writes the object with its changes: new values in the place of old
// ones, new members after the last one.
func (o *object) appendTo(out []byte) []byte {
	at, last := 0, 1
	for i := range o.members[:o.read] {
		m := &o.members[i]
		last = m.end
		if m.changed() {
			out = append(out, o.raw[at:m.start]...)
			out = m.appendTo(out)
			at = m.end
		}
	}
	out = append(out, o.raw[at:last]...)
	isFirst := o.read == 0
	for i := range o.members[o.read:] {
		m := &o.members[o.read+i]
		if !m.changed() {
			continue
		}
		if !isFirst {
			out = append(out, ',')
		}
		isFirst = false
		out = append(append(out, encode(m.key)...), ':')
		out = m.appendTo(out)
	}
	return append(out, o.raw[last:]...)
}

func (m *member) appendTo(out []byte) []byte {
	if m.value != nil {
		return append(out, m.value...)
	}
	return m.child.appendTo(out)
}
