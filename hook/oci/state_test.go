package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStateOfEachRuntime(t *testing.T) {
	for runtime, root := range map[string]string{"runc": "", "crun": "rootfs", "youki": ""} {
		raw, err := os.ReadFile("testdata/state-" + runtime + ".json")
		if err != nil {
			t.Fatal(err)
		}
		s, err := ReadState(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", runtime, err)
		}
		if s.ID != "web-1" || s.Pid != 4711 || s.Bundle != "/run/b/web-1" || s.Root != root || s.Annotations["cdi.k8s.io/x"] != "v.example/dev=a" {
			t.Errorf("%s: %+v", runtime, s)
		}
		wantError(t, s.Check(), "")
		if !bytes.Equal(s.JSON(), raw) {
			t.Errorf("%s: the document is not as it came", runtime)
		}
	}
}

func TestReadState(t *testing.T) {
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for name, c := range map[string]struct{ state, want string }{
		"empty":              {"", "state: empty document"},
		"blank":              {" \n", "state: empty document"},
		"no object":          {"[]", "state: not a JSON object"},
		"null":               {"null", "state: not a JSON object"},
		"string":             {`"x"`, "state: not a JSON object"},
		"no JSON":            {"hello", "state: not a JSON object"},
		"NUL":                {"\x00", "state: not a JSON object"},
		"truncated":          {`{"id":"a","pid":4`, "state: not JSON at byte 17"},
		"in a string":        {`{"id":"a`, "state: not JSON at byte 8"},
		"two documents":      {`{"id":"a"}{"id":"b"}`, "state: not JSON at byte 11"},
		"pid a string":       {`{"id":"a","pid":"1"}`, "state: pid: a JSON string where an integer belongs"},
		"pid a fraction":     {`{"pid":2.5}`, "state: pid: a JSON number 2.5"},
		"pid too large":      {`{"pid":1e99}`, "state: pid: a JSON number 1e99"},
		"id a number":        {`{"id":7}`, "state: id: a JSON number where a string belongs"},
		"annotations a list": {`{"annotations":[]}`, "state: annotations: a JSON array"},
		"a value no string":  {`{"annotations":{"k":1}}`, "a JSON number where a string belongs"},
		"deep":               {`{"id":"a","x":` + deep + `}`, "state: not JSON"},
		"nulls":              {`{"id":null,"pid":null,"bundle":null,"annotations":null,"root":null}`, ""},
		"nothing known":      {`{"x":{"y":[1,2,3]}}`, ""},
		"no annotations":     {`{"id":"a","pid":2,"bundle":"/b"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ReadState(strings.NewReader(c.state))
			wantError(t, err, c.want)
			if (s == nil) != (err != nil) {
				t.Errorf("state %v beside error %v", s, err)
			}
		})
	}
}

func TestLastOfTwoEqualKeysCounts(t *testing.T) {
	s, err := ReadState(strings.NewReader(`{"pid":5,"id":"a","id":"b","pid":7}`))
	if err != nil || s.ID != "b" || s.Pid != 7 {
		t.Fatal(s, err)
	}
	doc, err := s.withPid(1)
	if err != nil || string(doc) != `{"id":"b","pid":1}` {
		t.Errorf("%s %v", doc, err)
	}
}

// endless gives blanks, and counts them, up to a limit.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	n := min(len(p), e.left)
	e.left -= n
	for i := range n {
		p[i] = ' '
	}
	if n == 0 {
		return 0, iotest.ErrTimeout
	}
	return n, nil
}

func TestStateIsReadToItsEnd(t *testing.T) {
	large := strings.NewReader(`{"id":"` + strings.Repeat("x", maxDocument+100) + `"}`)
	_, err := ReadState(large)
	wantError(t, err, "state: larger than 16777216 bytes")
	if large.Len() != 0 {
		t.Errorf("%d bytes were not read", large.Len())
	}
	_, err = ReadState(&endless{left: maxDocument * 2})
	if !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("an error while the rest was read: %v", err)
	}
	_, err = ReadState(iotest.ErrReader(iotest.ErrTimeout))
	if !errors.Is(err, iotest.ErrTimeout) {
		t.Error(err)
	}
	if s, err := ReadState(iotest.OneByteReader(strings.NewReader(`{"id":"a"}`))); err != nil || s.ID != "a" {
		t.Error(s, err)
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		state State
		want  string
	}{
		"good":          {State{ID: "a.b_c-1+x y", Pid: 2, Bundle: "/b"}, ""},
		"umlaut":        {State{ID: "ä", Pid: 2, Bundle: "/b"}, ""},
		"longest":       {State{ID: strings.Repeat("a", 255), Pid: 2, Bundle: "/b"}, ""},
		"three dots":    {State{ID: "...", Pid: 2, Bundle: "/b"}, ""},
		"no id":         {State{Pid: 2, Bundle: "/b"}, `state: id "" is not one path component`},
		"dot":           {State{ID: ".", Pid: 2, Bundle: "/b"}, `id "."`},
		"up":            {State{ID: "..", Pid: 2, Bundle: "/b"}, `id ".."`},
		"slash":         {State{ID: "a/b", Pid: 2, Bundle: "/b"}, `id "a/b"`},
		"newline":       {State{ID: "a\nb", Pid: 2, Bundle: "/b"}, `id "a\nb"`},
		"escape":        {State{ID: "\x1b[2J", Pid: 2, Bundle: "/b"}, `id "\x1b[2J"`},
		"NUL":           {State{ID: "a\x00", Pid: 2, Bundle: "/b"}, `id "a\x00"`},
		"delete":        {State{ID: "\x7f", Pid: 2, Bundle: "/b"}, `id "\x7f"`},
		"too long":      {State{ID: strings.Repeat("a", 300), Pid: 2, Bundle: "/b"}, "is not one path component"},
		"pid 0":         {State{ID: "a", Bundle: "/b"}, "state: pid 0 is not a container's process"},
		"pid 1":         {State{ID: "a", Pid: 1, Bundle: "/b"}, "state: pid 1"},
		"pid -1":        {State{ID: "a", Pid: -1, Bundle: "/b"}, "state: pid -1"},
		"no bundle":     {State{ID: "a", Pid: 2}, `state: bundle "" is not an absolute path`},
		"bundle a name": {State{ID: "a", Pid: 2, Bundle: "b"}, `state: bundle "b"`},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, c.state.Check(), c.want) })
	}
}

func TestWithPidKeepsTheRest(t *testing.T) {
	const in = `{"pid":12345,"n":9223372036854775807,"big":123456789012345678901234567890,"f":1.10,"s":"<&>é\u0000","u":{"b":[null,true]}}`
	s, err := ReadState(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.withPid(1)
	if err != nil {
		t.Fatal(err)
	}
	decode := func(doc string) map[string]any {
		var m map[string]any
		d := json.NewDecoder(strings.NewReader(doc))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	want := decode(in)
	want["pid"] = json.Number("1")
	if have := decode(string(out)); !reflect.DeepEqual(have, want) {
		t.Errorf("have %v\nwant %v", have, want)
	}
	// A document without one gets one.
	s.raw = []byte(`{}`)
	if out, err := s.withPid(0); err != nil || string(out) != `{"pid":0}` {
		t.Errorf("%s %v", out, err)
	}
}
