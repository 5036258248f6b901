package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// program is a command line and what it reads.
type program struct {
	args  []string
	stdin []byte // small enough for a pipe's buffer
	env   []string
}

// cost is what one run of a program took.
type cost struct {
	Wall time.Duration // from its start to its end
	CPU  time.Duration // its own and its children's, user and system: less moved by what else runs on the machine

	Faults, Switches int64 // page faults that read nothing, and times it gave the processor away
}

// once runs the program to its end.
func (p program) once() (cost, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return cost{}, err
	}
	defer r.Close()
	if _, err := w.Write(p.stdin); err != nil {
		return cost{}, err
	}
	w.Close()

	stderr, err := os.CreateTemp("", "bench-stderr-")
	if err != nil {
		return cost{}, err
	}
	defer os.Remove(stderr.Name())
	defer stderr.Close()

	c := exec.Command(p.args[0], p.args[1:]...)
	c.Stdin, c.Stderr = r, stderr
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, p.env...)
	start := time.Now()
	err = c.Run()
	took := time.Since(start)
	if err != nil {
		why, readErr := os.ReadFile(stderr.Name())
		if readErr != nil {
			why = []byte(readErr.Error())
		}
		return cost{}, fmt.Errorf("%s: %w: %s", strings.Join(p.args, " "), err, bytes.TrimSpace(why))
	}
	return costOf(took, c.ProcessState), nil
}

func costOf(took time.Duration, s *os.ProcessState) cost {
	c := cost{Wall: took, CPU: s.UserTime() + s.SystemTime()}
	if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
		c.Faults, c.Switches = usage.Minflt, usage.Nvcsw
	}
	return c
}

func (c cost) plus(d cost) cost {
	return cost{Wall: c.Wall + d.Wall, CPU: c.CPU + d.CPU, Faults: c.Faults + d.Faults, Switches: c.Switches + d.Switches}
}

// inTurns does n things in turns, each round beginning with another.
func inTurns(rounds, n int, do func(i int) (cost, error)) ([][]cost, error) {
	costs := make([][]cost, n)
	for round := range rounds {
		for k := range n {
			i := (round + k) % n
			took, err := do(i)
			if err != nil {
				return nil, err
			}
			costs[i] = append(costs[i], took)
		}
	}
	return costs, nil
}

// pair holds the costs of two programs that ran in turns.
type pair struct{ A, B []cost }

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
		costs *[]cost
	}{{a, &p.A}, {b, &p.B}}
	if swap {
		slices.Reverse(order)
	}
	for _, o := range order {
		took, err := o.once()
		if err != nil {
			return err
		}
		*o.costs = append(*o.costs, took)
	}
	return nil
}

// median takes the middle of each part by itself.
func median(costs []cost) cost {
	return cost{
		Wall:     time.Duration(middle(costs, func(c cost) int64 { return int64(c.Wall) })),
		CPU:      time.Duration(middle(costs, func(c cost) int64 { return int64(c.CPU) })),
		Faults:   middle(costs, func(c cost) int64 { return c.Faults }),
		Switches: middle(costs, func(c cost) int64 { return c.Switches }),
	}
}

func middle(costs []cost, part func(cost) int64) int64 {
	var s []int64
	for _, c := range costs {
		s = append(s, part(c))
	}
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func (p pair) ratio() float64 { return median(p.B).over(median(p.A)) }

func (c cost) over(base cost) float64 { return float64(c.Wall) / float64(base.Wall) }
