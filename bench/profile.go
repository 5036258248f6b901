package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// subject is a program whose costs are looked at one by one.
type subject struct {
	name    string
	ask     string // empty for one that needs no container
	command []string
	costs   []cost
	calls   map[string]int
}

// profile finds out what a run is made of: system calls, page faults, and the libraries' initialisation.
func (b *bench) profile() error {
	specs, err := b.world.specDir("specs-profile", 1, false)
	if err != nil {
		return err
	}
	hook := append([]string{b.hook}, b.stage(specs)...)
	subjects := []*subject{
		{name: "empty program", command: []string{b.floor}},
		{name: "nothing asked", command: hook},
		{name: "one dGPU", ask: device, command: hook},
	}
	for _, s := range subjects {
		if err := b.observe(s); err != nil {
			return err
		}
	}
	b.out.profile = append(counts(subjects), "")
	inits, err := b.inits()
	b.out.profile = append(b.out.profile, inits...)
	return err
}

func (b *bench) observe(s *subject) error {
	trace := b.world.path("strace", strings.ReplaceAll(s.name, " ", "-"))
	if err := os.MkdirAll(filepath.Dir(trace), 0o755); err != nil {
		return err
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		return err
	}
	traced := append([]string{strace, "-f", "-c", "-U", "name,calls", "-o", trace}, s.command...)
	if s.ask == "" {
		state := []byte(`{"ociVersion":"1.0.2","id":"bench","pid":2,"bundle":"/","annotations":{}}`)
		if _, err := (program{args: traced, stdin: state, env: b.env}).once(); err != nil {
			return err
		}
		for range b.rounds {
			c, err := program{args: s.command, stdin: state, env: b.env}.once()
			if err != nil {
				return err
			}
			s.costs = append(s.costs, c)
		}
	} else {
		asks := map[string]string{"cdi.k8s.io/bench": s.ask}
		if _, err := b.programInContainer(b.id("strace", 0), asks, 1, false, traced...); err != nil {
			return err
		}
		p, err := b.eachInOwn("profile", s.ask, s.command)
		if err != nil {
			return err
		}
		s.costs = p.B
	}
	s.calls, err = readCalls(trace)
	return err
}

// readCalls reads strace's summary: names and numbers.
func readCalls(file string) (map[string]int, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	calls := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		if n, err := strconv.Atoi(f[1]); err == nil {
			calls[f[0]] = n
		}
	}
	if calls["total"] == 0 {
		return nil, fmt.Errorf("%s: no summary of strace", file)
	}
	return calls, nil
}

// most is how many kinds of system calls are worth a line.
const most = 12

func counts(subjects []*subject) []string {
	head, rule := "| |", "| --- |"
	rows := []string{"| system calls |", "| page faults |", "| times it waited |"}
	for _, s := range subjects {
		head += " " + s.name + " |"
		rule += " ---: |"
		m := median(s.costs)
		for i, n := range []int64{int64(s.calls["total"]), m.Faults, m.Switches} {
			rows[i] += fmt.Sprintf(" %d |", n)
		}
	}
	last := subjects[len(subjects)-1].calls
	var names []string
	for name := range last {
		if name != "total" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return (last[b]-last[a])*1000 + strings.Compare(a, b) })
	for _, name := range names[:min(most, len(names))] {
		line := "| `" + name + "` |"
		for _, s := range subjects {
			line += fmt.Sprintf(" %d |", s.calls[name])
		}
		rows = append(rows, line)
	}
	return append([]string{head, rule}, rows...)
}

// inits asks the runtime what each package's initialisation took (GODEBUG=inittrace=1), where nothing is asked and where something is.
func (b *bench) inits() ([]string, error) {
	nothing, err := b.initTimes(`{"id":"bench"}`)
	if err != nil {
		return nil, err
	}
	// refused right after the libraries' initialisation
	asking, err := b.initTimes(`{"id":"bench","annotations":{"cdi.k8s.io/bench":"no name"}}`)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range asking {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := asking[b] - asking[a]; d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
	out := []string{"| initialisation, µs | nothing asked | one dGPU |", "| --- | ---: | ---: |"}
	for _, name := range names[:min(most, len(names))] {
		quiet := "-"
		if t, ok := nothing[name]; ok {
			quiet = fmt.Sprint(t.Microseconds())
		}
		out = append(out, fmt.Sprintf("| `%s` | %s | %d |", name, quiet, asking[name].Microseconds()))
	}
	return append(out, fmt.Sprintf("| all packages | %d | %d |", sum(nothing).Microseconds(), sum(asking).Microseconds())), nil
}

func (b *bench) initTimes(state string) (map[string]time.Duration, error) {
	all := map[string][]cost{}
	for range max(5, b.rounds/4) {
		c := exec.Command(b.hook, b.stage(b.world.path("none"))...)
		c.Env = append([]string{"GODEBUG=inittrace=1"}, b.env...)
		c.Stdin = strings.NewReader(state)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Run(); err != nil && c.ProcessState == nil {
			return nil, err
		}
		for line := range strings.Lines(stderr.String()) {
			// init PACKAGE @T ms, T ms clock, N bytes, N allocs
			f := strings.Fields(line)
			if len(f) < 5 || f[0] != "init" {
				continue
			}
			t, err := strconv.ParseFloat(f[4], 64)
			if err != nil {
				return nil, err
			}
			all[f[1]] = append(all[f[1]], cost{Wall: time.Duration(t * float64(time.Millisecond))})
		}
	}
	times := map[string]time.Duration{}
	for name, costs := range all {
		times[name] = median(costs).Wall
	}
	return times, nil
}

func sum(times map[string]time.Duration) (all time.Duration) {
	for _, t := range times {
		all += t
	}
	return all
}
