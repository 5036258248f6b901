package cgroups

import (
	"strings"
	"testing"
)

func TestRule(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		text string // or, of an invalid one, a part of the error
		ok   bool
	}{
		{Rule{'c', 10, 229, "rwm"}, "c 10:229 rwm", true},
		{Rule{'c', 10, 229, "mrw"}, "c 10:229 rwm", true},
		{Rule{'b', 7, Any, "rr"}, "b 7:* r", true},
		{Rule{'c', Any, Any, "m"}, "c *:* m", true},
		{Rule{'a', Any, Any, "rwm"}, "type 'a'", false},
		{Rule{0, 1, 3, "rwm"}, "type", false},
		{Rule{'u', 1, 3, "rwm"}, "type", false},
		{Rule{'p', 1, 3, "rwm"}, "type", false},
		{Rule{'c', -2, 3, "rwm"}, "-2 is no device number", false},
		{Rule{'c', 1, 1 << 31, "rwm"}, "2147483648 is no device number", false},
		{Rule{'c', 1, 3, ""}, `access ""`, false},
		{Rule{'c', 1, 3, "rwx"}, `access "rwx"`, false},
		{Rule{'c', 1, 3, "none"}, `access "none"`, false},
	} {
		err := c.rule.Validate()
		switch {
		case c.ok && err != nil:
			t.Errorf("%+v: %v", c.rule, err)
		case c.ok && c.rule.String() != c.text:
			t.Errorf("%+v: %q, want %q", c.rule, c.rule, c.text)
		case !c.ok && (err == nil || !strings.Contains(err.Error(), c.text)):
			t.Errorf("%+v: error %v, want one with %q", c.rule, err, c.text)
		}
	}
}
