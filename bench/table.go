package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

const floorName = "the empty program"

// row is one thing measured. A limit of 0 is none.
type row struct {
	heading       string
	name, against string
	took          cost
	ratio, limit  float64
	cpuLimit      time.Duration
	mb, mbLimit   float64 // instead of times
}

// point is a time with a number of spec files.
type point struct {
	n    int
	took cost
}

type table struct {
	heading string
	host    []string
	rows    []row
	notes   []string
	lines   []string // names of curves, in order
	curves  map[string][]point
	profile []string // in Markdown
}

var errOver = errors.New("a target is missed")

// section begins a part of the table.
func (t *table) section(heading string) { t.heading = heading }

func (t *table) put(r row) {
	r.heading = t.heading
	t.rows = append(t.rows, r)
}

func (t *table) add(name string, took cost, against string, ratio, limit float64) {
	t.put(row{name: name, against: against, took: took, ratio: ratio, limit: limit})
}

func (t *table) amount(name string, mb, limit float64) {
	t.put(row{name: name, mb: mb, mbLimit: limit})
}

func (t *table) point(curve string, n int, took cost) {
	if t.curves == nil {
		t.curves = map[string][]point{}
	}
	if t.curves[curve] == nil {
		t.lines = append(t.lines, curve)
	}
	t.curves[curve] = append(t.curves[curve], point{n, took})
}

// note says what a reader has to know, once.
func (t *table) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, have := range t.notes {
		if have == text {
			return
		}
	}
	t.notes = append(t.notes, text)
}

// target is the limit in words and whether it is met; empty where there is none.
func (r row) target() (text string, met bool) {
	switch {
	case r.mbLimit > 0:
		return fmt.Sprintf("<= %.3g MB", r.mbLimit), r.mb <= r.mbLimit
	case r.cpuLimit > 0:
		return fmt.Sprintf("<= %v of CPU", r.cpuLimit), r.took.CPU <= r.cpuLimit
	case r.limit > 0:
		return fmt.Sprintf("<= %.3g", r.limit), r.ratio <= r.limit
	}
	return "", true
}

// cells are a row's columns: name, milliseconds, those of CPU, ratio, against what, target, verdict.
func (r row) cells() []string {
	target, met := r.target()
	verdict := ""
	switch {
	case target != "" && met:
		verdict = "met"
	case target != "":
		verdict = "MISSED"
	}
	if r.took == (cost{}) {
		return []string{r.name, fmt.Sprintf("%.1f MB", r.mb), "", "", "", target, verdict}
	}
	ratio := ""
	if r.against != "" {
		ratio = fmt.Sprintf("%.2f", r.ratio)
		if r.ratio < 0.1 {
			ratio = fmt.Sprintf("%.4f", r.ratio)
		}
	}
	return []string{r.name, fmt.Sprintf("%.2f", ms(r.took.Wall)), fmt.Sprintf("%.2f", ms(r.took.CPU)), ratio, r.against, target, verdict}
}

var columns = []string{"process", "median ms", "of CPU", "ratio", "to", "target", ""}

// print writes the table and fails where a target is missed.
func (t *table) print(out io.Writer) error {
	var over error
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprint(w, c, "\t")
		}
		fmt.Fprintln(w)
	}
	for _, h := range t.host {
		fmt.Fprintln(w, h)
	}
	line(columns)
	for i, r := range t.rows {
		if i > 0 && r.heading != t.rows[i-1].heading {
			line(make([]string, len(columns)))
		}
		line(r.cells())
		if _, met := r.target(); !met {
			over = errOver
		}
	}
	for _, n := range t.notes {
		fmt.Fprintln(w, n)
	}
	return errors.Join(w.Flush(), over)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
