package specfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"oci-cdi-hook/hook/device"
)

// Formats of a spec file.
const (
	JSON = "json"
	YAML = "yaml"
)

// Converted is a spec in today's form.
type Converted struct {
	Data []byte
	// Version is the lowest that has all the spec uses.
	Version string
	// Lost is what the old form said and today's cannot.
	Lost []string
}

// Convert reads a spec file, of today or in the form of the first proposals, and writes it
// anew: in the format asked for ("" keeps its own) and with the lowest version that allows
// all it uses. The result is valid by the library, or there is none.
func Convert(path, format string) (*Converted, error) {
	f, err := device.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c, err := convert(f, format)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, device.OneLine(err.Error()))
	}
	return c, nil
}

func convert(f *device.File, format string) (c *Converted, err error) {
	c = &Converted{}
	spec := f.Spec
	switch {
	case spec != nil:
	case device.DraftField(f.Data) != "":
		var old draft
		if err := decodeStrictly(f.Data, &old); err != nil {
			return nil, err
		}
		spec, c.Lost = old.today()
	default:
		return nil, f.Err
	}
	if c.Version, err = lowestVersion(spec); err != nil {
		return nil, err
	}
	spec.Version = c.Version
	if format == "" {
		format = formatOf(f.Data)
	}
	if c.Data, err = encode(spec, format); err != nil {
		return nil, err
	}
	return c, device.Verdict(c.Data)
}

// lowestVersion guards against nulls in lists, at which the library panics.
func lowestVersion(s *specs.Spec) (v string, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("null in a list of edits")
		}
	}()
	return specs.MinimumRequiredVersion(s)
}

// formatOf takes what JSON's own parser takes, and what begins like it, for JSON: drafts
// have commas at the end of a list.
func formatOf(data []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return JSON
	}
	return YAML
}

func encode(s *specs.Spec, format string) ([]byte, error) {
	var out bytes.Buffer
	if format == JSON {
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err := e.Encode(s)
		return out.Bytes(), err
	}
	var doc yaml.Node
	if err := doc.Encode(s); err != nil {
		return nil, err
	}
	octalModes(&doc)
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(&doc)
	return out.Bytes(), errors.Join(err, e.Close())
}

// octalModes writes file modes as people read them; JSON has only decimal.
func octalModes(n *yaml.Node) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "fileMode" {
			var mode uint32
			if child.Decode(&mode) == nil {
				child.Value = fmt.Sprintf("0%o", mode)
			}
		}
		octalModes(child)
	}
}

// decodeStrictly decodes YAML, text or a node of it, and refuses fields that into lacks:
// nothing may get lost without a word.
func decodeStrictly(from, into any) error {
	data, ok := from.([]byte)
	if !ok {
		var err error
		if data, err = yaml.Marshal(from); err != nil {
			return err
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
