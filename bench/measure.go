package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// program is a command line and what it reads.
type program struct {
	args  []string
	stdin []byte // small enough for a pipe's buffer
}

// once runs the program and returns the wall time from its start to its end.
func (p program) once() (time.Duration, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if _, err := w.Write(p.stdin); err != nil {
		return 0, err
	}
	w.Close()

	stderr, err := os.CreateTemp("", "bench-stderr-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(stderr.Name())
	defer stderr.Close()

	c := exec.Command(p.args[0], p.args[1:]...)
	c.Stdin, c.Stderr = r, stderr
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	start := time.Now()
	err = c.Run()
	took := time.Since(start)
	if err != nil {
		why, readErr := os.ReadFile(stderr.Name())
		if readErr != nil {
			why = []byte(readErr.Error())
		}
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(p.args, " "), err, bytes.TrimSpace(why))
	}
	return took, nil
}

// pair holds the times of two programs that ran in turns.
type pair struct{ A, B []time.Duration }

// alternate runs a and b in turns, each first as often as second, so that a change of the machine's pace meets both alike.
func alternate(rounds int, a, b program) (pair, error) {
	var p pair
	for i := range rounds {
		if err := p.round(i%2 == 1, a, b); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *pair) round(swap bool, a, b program) error {
	order := []struct {
		program
		times *[]time.Duration
	}{{a, &p.A}, {b, &p.B}}
	if swap {
		slices.Reverse(order)
	}
	for _, o := range order {
		took, err := o.once()
		if err != nil {
			return err
		}
		*o.times = append(*o.times, took)
	}
	return nil
}

func median(times []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(times))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func (p pair) ratio() float64 { return float64(median(p.B)) / float64(median(p.A)) }
