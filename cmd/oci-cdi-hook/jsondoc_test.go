package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestJSONIsDocumented looks for each field of the golden objects in docs/json.md.
func TestJSONIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(doc), -1) {
		for _, name := range strings.Split(quoted[1], ".") {
			known[strings.TrimSuffix(name, "[]")] = true
		}
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("%q %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, field := range fieldsOf(object) {
			if !known[field] {
				t.Errorf("%s has %q, docs/json.md has not", file, field)
			}
		}
	}
}

func fieldsOf(value any) (fields []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			fields = append(append(fields, name), fieldsOf(inner)...)
		}
	case []any:
		for _, inner := range v {
			fields = append(fields, fieldsOf(inner)...)
		}
	}
	return fields
}
