package main

import (
	"fmt"
	"os"
	"strconv"
)

// specFiles measures one name resolved among n spec files: as an engine with native CDI does it, and as this program does.
func (b *bench) specFiles() error {
	b.out.section("One name among many spec files")
	for _, format := range []string{"json", "yaml"} {
		for _, n := range []int{1, 100, 1000, 10000} {
			if err := b.specCount(format, n); err != nil {
				return err
			}
		}
		if err := b.tenfold(format); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) specCount(format string, n int) error {
	specs, err := b.world.specDirAs(specsOf(format, n), n, true, format)
	if err != nil {
		return err
	}
	rounds, limit := b.specRounds, 0.0
	if n == 1000 {
		limit = limitLibrary
	}
	if n > 1000 { // the library takes seconds for each
		rounds = min(rounds, 3)
	}
	p, err := alternate(rounds, program{args: []string{b.library, specs, device}}, program{args: b.plan(specs)})
	if err != nil {
		return err
	}
	b.out.add(fmt.Sprintf("library's cache, %d %s", n, format), median(p.A), "", 0, 0)
	b.out.add(fmt.Sprintf("plan, %d %s", n, format), median(p.B), "the library", p.ratio(), limit)
	b.out.point("library, "+format, n, median(p.A))
	b.out.point("this program, "+format, n, median(p.B))
	return nil
}

func (b *bench) tenfold(format string) error {
	p, err := alternate(b.specRounds, program{args: b.plan(b.world.path(specsOf(format, 1000)))}, program{args: b.plan(b.world.path(specsOf(format, 10000)))})
	if err != nil {
		return err
	}
	b.out.add("plan, 10000 "+format, median(p.B), "plan, 1000 "+format, p.ratio(), limitTenfold)
	return nil
}

func specsOf(format string, n int) string { return fmt.Sprintf("specs-%s-%d", format, n) }

func (b *bench) plan(specs string) []string {
	return []string{b.hook, "plan", device, "--spec-dir", specs}
}

// size measures the program's file and what it has in memory at most.
func (b *bench) size() error {
	b.out.section("Size")
	for _, f := range []struct {
		name, path string
		limit      float64
	}{{"binary, empty program", b.floor, 0}, {"binary, hook", b.hook, limitBinaryMB}} {
		fi, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		b.out.amount(f.name, float64(fi.Size())/1e6, f.limit)
	}
	many := b.world.path(specsOf("json", 1000))
	manyYAML := b.world.path(specsOf("yaml", 1000))
	state := []byte(`{"ociVersion":"1.0.2","id":"bench","pid":2,"bundle":"/","annotations":{}}`)
	for _, m := range []struct {
		name    string
		command []string
		limit   float64
	}{
		{"peak memory, empty program", []string{b.floor}, 0},
		{"peak memory, nothing asked", append([]string{b.hook}, b.stage(many)...), 0},
		{"peak memory, plan, 1000 json", b.plan(many), limitPeakMB},
		{"peak memory, plan, 1000 yaml", b.plan(manyYAML), limitPeakMB},
	} {
		out := b.world.path("peak")
		p := program{args: append([]string{b.world.path("peak-of"), out}, m.command...), stdin: state, env: b.env}
		if _, err := p.once(); err != nil {
			return err
		}
		if err := b.peak(m.name, m.limit); err != nil {
			return err
		}
	}
	// the hook itself, where it gives a device
	id := b.id("peak", 0)
	command := append([]string{b.world.path("peak-of"), b.world.path("peak"), b.hook}, b.stage(many)...)
	if _, err := b.programInContainer(id, map[string]string{"cdi.k8s.io/bench": device}, 1, false, command...); err != nil {
		return err
	}
	return b.peak("peak memory, hook, one dGPU with vendor hooks, 1000 json", limitPeakMB)
}

func (b *bench) peak(name string, limit float64) error {
	raw, err := os.ReadFile(b.world.path("peak"))
	if err != nil {
		return err
	}
	kib, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return err
	}
	b.out.amount(name, kib*1024/1e6, limit)
	return nil
}
