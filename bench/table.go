package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

type row struct {
	name, against string
	took          cost
	ratio, limit  float64
	cpuLimit      time.Duration
}

type table struct {
	rows []row
	note string
}

var errOver = errors.New("over a limit")

func (t *table) add(name string, took cost, against string, ratio, limit float64) {
	t.rows = append(t.rows, row{name: name, against: against, took: took, ratio: ratio, limit: limit})
}

// print writes the table and fails where a row is over its limit.
func (t *table) print(out io.Writer) error {
	var over error
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "process\tmedian ms\tof CPU\tratio\tto\tlimit\t")
	for _, r := range t.rows {
		ratio, limit := "", ""
		if r.against != "" {
			ratio = fmt.Sprintf("%.2f", r.ratio)
		}
		if r.limit > 0 {
			limit = fmt.Sprintf("%.3g", r.limit)
			if r.ratio > r.limit {
				limit += " OVER"
				over = errOver
			}
		}
		if r.cpuLimit > 0 {
			limit = fmt.Sprintf("%v of CPU", r.cpuLimit)
			if r.took.CPU > r.cpuLimit {
				limit += " OVER"
				over = errOver
			}
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%s\t%s\t%s\t\n", r.name, ms(r.took.Wall), ms(r.took.CPU), ratio, r.against, limit)
	}
	fmt.Fprintln(w, t.note)
	return errors.Join(w.Flush(), over)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
