package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// The functions below walk JSON that is known to be valid, from an index inside
// of it, and need no error therefore.

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
		i++
	}
	return i
}

// skipValue returns the index after the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	for i < len(b) && bytes.IndexByte([]byte(",]} \t\r\n"), b[i]) < 0 {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipNested(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if i++; depth == 0 {
			return i
		}
	}
}

// elements returns the elements of an array.
func elements(raw []byte) [][]byte {
	var list [][]byte
	for i := skipSpace(raw, 1); raw[i] != ']'; {
		end := skipValue(raw, i)
		list = append(list, raw[i:end])
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return list
}

// array is the reverse of elements.
func array(list [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(list, []byte{','})...), ']')
}

// encode returns JSON on one line that leaves <, > and & as they are.
func encode(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// Strings, numbers and structs of them, all of this package's choice.
	_ = e.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode reads a value of the config, and names the field that has a wrong type.
func decode(path string, raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field != "" {
			path = join(path, wrong.Field)
		}
		return fmt.Errorf("config: %s: %s instead of %s", path, wrong.Value, kindName(wrong.Type))
	}
	if err != nil {
		return fmt.Errorf("config: %s: %w", path, err)
	}
	return nil
}

// decodeAll reads the elements of an array.
func decodeAll[T any](path string, list [][]byte) ([]T, error) {
	all := make([]T, len(list))
	for i, raw := range list {
		if err := decode(fmt.Sprintf("%s[%d]", path, i), raw, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "an object"
	}
	return "a number (" + t.Kind().String() + ")"
}

func wrongType(path string, raw []byte, want string) error {
	have := "number"
	switch raw[0] {
	case '"':
		have = "string"
	case '{':
		have = "object"
	case '[':
		have = "array"
	case 't', 'f':
		have = "bool"
	case 'n':
		have = "null"
	}
	if path == "" {
		return fmt.Errorf("config: %s instead of %s", have, want)
	}
	return fmt.Errorf("config: %s: %s instead of %s", path, have, want)
}
