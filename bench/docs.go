package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What lies between these lines of performance.md is written by the benchmark.
const (
	docBegin = "<!-- make bench DOCS=1: begin -->"
	docEnd   = "<!-- make bench DOCS=1: end -->"
)

// document puts the results into a folder's performance.md and performance.svg.
func (t *table) document(dir string) error {
	page := filepath.Join(dir, "performance.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), docBegin)
	_, after, ok2 := strings.Cut(rest, docEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s: no place for the results: %q and %q", page, docBegin, docEnd)
	}
	if err := os.WriteFile(page, []byte(before+docBegin+"\n"+t.markdown()+docEnd+after), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "performance.svg"), []byte(t.plot()), 0o644)
}

func (t *table) markdown() string {
	var b strings.Builder
	b.WriteString(strings.Join(t.host, "\n") + ".\n\n![The figures below as a plot](performance.svg)\n")
	heading := "-"
	for _, r := range t.rows {
		if r.heading != heading {
			heading = r.heading
			fmt.Fprintf(&b, "\n### %s\n\n| %s |\n| --- | ---: | ---: | ---: | --- | --- | --- |\n", heading, strings.Join(columns, " | "))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.cells(), " | "))
	}
	for _, n := range t.notes {
		b.WriteString("\n" + n + "\n")
	}
	b.WriteString("\n### What a run is made of\n\n" + strings.Join(t.profile, "\n") + "\n")
	return b.String()
}
