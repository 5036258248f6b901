package specfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"oci-cdi-hook/hook/device"
)

// Remark is one thing about one place of a file.
type Remark struct {
	Line  int    `json:"line,omitempty"`  // from 1; 0 where it is about the whole file
	Where string `json:"where,omitempty"` // as in devices[0].containerEdits.mounts[1]
	Text  string `json:"text"`
}

// String gives the remark in one line.
func (r Remark) String() string {
	text := r.Text
	if r.Where != "" {
		text = r.Where + ": " + text
	}
	if r.Line > 0 {
		text = fmt.Sprintf("line %d: %s", r.Line, text)
	}
	return text
}

// Report is what there is to say about one file.
type Report struct {
	Path     string   `json:"path"`
	Valid    bool     `json:"valid"`
	Kind     string   `json:"kind,omitempty"`
	Devices  []string `json:"devices"`
	Errors   []Remark `json:"errors"`
	Warnings []Remark `json:"warnings"`
	Drift    []Remark `json:"drift"`
}

// Check reads a file and reports all but its drift.
func Check(path string) (*Report, *device.File) {
	r := &Report{Path: path, Devices: []string{}, Errors: []Remark{}, Warnings: []Remark{}, Drift: []Remark{}}
	f, err := device.ReadFile(path)
	if err != nil {
		r.Errors = append(r.Errors, Remark{Text: err.Error()})
		return r, nil
	}
	if reason, skipped := device.Skipped(path); skipped {
		r.Warnings = append(r.Warnings, Remark{Text: reason})
	}
	if f.Err != nil && device.DraftField(f.Data) != "" {
		// its fields are unknown all over: converting helps, remarks on each do not
		r.Errors = append(r.Errors, Remark{
			Text: device.OneLine(f.Err.Error()) + "; `oci-cdi-hook convert " + f.Path + "` prints today's form",
		})
		return r, f
	}
	if f.Err != nil {
		r.Errors = append(r.Errors, Remark{Text: device.OneLine(f.Err.Error())})
	} else {
		r.Kind = f.Spec.Kind
		for _, d := range f.Spec.Devices {
			r.Devices = append(r.Devices, f.Spec.Kind+"="+d.Name)
		}
	}
	r.lint(f.Data)
	r.Valid = len(r.Errors) == 0
	return r, f
}

// lint looks at the text. What does not parse has the library's verdict already.
func (r *Report) lint(data []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil || len(doc.Content) == 0 {
		return
	}
	l := linter{report: r, seen: map[*yaml.Node]bool{}}
	l.mapping(doc.Content[0], "", specLevel())
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		r.Warnings = append(r.Warnings, Remark{Line: second.Line, Text: "only the first document of a file is read; this is a second one"})
	}
}
