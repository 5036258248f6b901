package settings

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// list takes an array of strings that each pass the check.
func list(into *[]string, least int, check func(string) error) func(any) error {
	return func(value any) error {
		values, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s where an array of strings belongs", kind(value))
		}
		items := []string{}
		for _, v := range values {
			item, ok := v.(string)
			if !ok {
				return fmt.Errorf("%s in an array of strings", kind(v))
			}
			if err := check(item); err != nil {
				return fmt.Errorf("%q: %w", item, err)
			}
			items = append(items, item)
		}
		if len(items) < least {
			return errors.New("empty array")
		}
		*into = items
		return nil
	}
}

// text takes a string that passes the check.
func text(into *string, check func(string) error) func(any) error {
	return func(value any) error {
		s, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s where a string belongs", kind(value))
		}
		if err := check(s); err != nil {
			return fmt.Errorf("%q: %w", s, err)
		}
		*into = s
		return nil
	}
}

func word(into *string, words ...string) func(any) error {
	return text(into, func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("none of %s", strings.Join(words, ", "))
		}
		return nil
	})
}

func checkPath(name string) error {
	switch {
	case !path.IsAbs(name):
		return errors.New("not an absolute path")
	case path.Clean(name) != name:
		return fmt.Errorf("write %q", path.Clean(name))
	case strings.Contains(name, "\x00"):
		return errors.New("has a NUL")
	}
	return nil
}

func checkPrefix(prefix string) error {
	switch {
	case prefix == "":
		return errors.New("would match every annotation")
	case !strings.HasSuffix(prefix, "/") || prefix == "/":
		return errors.New(`not of the form "domain/"`)
	}
	return nil
}

func checkVariable(variable string) error {
	if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
		return errors.New("not of the form NAME=value")
	}
	return nil
}

func checkLog(log string) error {
	if log == Auto {
		return nil
	}
	if err := checkPath(log); err != nil {
		return fmt.Errorf("neither %q nor a file: %w", Auto, err)
	}
	return nil
}

// kind names a TOML type.
func kind(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case time.Time, toml.LocalDate, toml.LocalTime, toml.LocalDateTime:
		return "a date or time"
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return fmt.Sprintf("a %T", value)
}
