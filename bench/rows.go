package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// Limits that the project holds itself to; a row without one is for information.
const (
	limitNothing   = 1.5
	limitOneDevice = 6
	limitThousand  = 100
	limitPrecreate = 2
)

func (b *bench) nothingAsked() error {
	specs, err := b.world.specDir("specs-nothing", 1, true)
	if err != nil {
		return err
	}
	p, err := b.inContainer(b.id("nothing", 0), map[string]string{"io.container.manager": "libpod"}, b.rounds, false, b.stage(specs)...)
	if err != nil {
		return err
	}
	b.out.add("empty static program", median(p.A), "", 0, 0)
	b.out.add("hook, nothing asked", median(p.B), "the empty program", p.ratio(), limitNothing)
	return nil
}

func (b *bench) oneDevice() error {
	for _, row := range []struct {
		name  string
		hooks bool
		limit float64
	}{
		{"hook, one dGPU: 7 nodes, 14 mounts, their rules", false, limitOneDevice},
		{"hook, the same with 5 vendor hooks that do nothing", true, 0},
	} {
		specs, err := b.world.specDir(fmt.Sprintf("specs-one-%v", row.hooks), 1, row.hooks)
		if err != nil {
			return err
		}
		var all pair
		for i := range b.containers {
			ask := map[string]string{"cdi.k8s.io/bench": device}
			p, err := b.inContainer(b.id(fmt.Sprintf("one-%v", row.hooks), i), ask, 1, i%2 == 1, b.stage(specs)...)
			if err != nil {
				return err
			}
			all.A, all.B = append(all.A, p.A...), append(all.B, p.B...)
		}
		b.out.add(row.name, median(all.B), "the empty program", all.ratio(), row.limit)
	}
	return nil
}

// precreate measures podman's own stage, on a config that podman wrote.
func (b *bench) precreate() error {
	specs, err := b.world.specDir("specs-precreate", 1, true)
	if err != nil {
		return err
	}
	plain, err := os.ReadFile(b.config)
	if err != nil {
		return err
	}
	asking, err := annotate(plain, "cdi.k8s.io/bench", device)
	if err != nil {
		return err
	}
	args := []string{b.hook, "precreate", "--spec-dir", specs, "--state-dir", b.world.path("state")}
	p, err := alternate(b.rounds, program{args: args, stdin: plain, env: b.env}, program{args: args, stdin: asking, env: b.env})
	if err != nil {
		return err
	}
	b.out.add("precreate, nothing asked", median(p.A), "", 0, 0)
	b.out.add("precreate, one dGPU", median(p.B), "precreate, nothing asked", p.ratio(), limitPrecreate)
	return nil
}

func annotate(config []byte, key, value string) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(config, &doc); err != nil {
		return nil, err
	}
	annotations, ok := doc["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		doc["annotations"] = annotations
	}
	annotations[key] = value
	return json.Marshal(doc)
}

func (b *bench) specFiles() error {
	var first cost
	for _, n := range []int{1, 100, 1000} {
		dir, err := b.world.specDir(fmt.Sprintf("specs-%d", n), n, true)
		if err != nil {
			return err
		}
		p, err := alternate(b.specRounds,
			program{args: []string{b.library, dir, device}},
			program{args: []string{b.hook, "plan", device, "--spec-dir", dir}})
		if err != nil {
			return err
		}
		b.out.add(fmt.Sprintf("library's cache, %d spec files", n), median(p.A), "", 0, 0)
		b.out.add(fmt.Sprintf("plan, %d spec files", n), median(p.B), "the library", p.ratio(), 0)
		if n == 1 {
			first = median(p.B)
		}
		if n == 1000 {
			b.out.add("  of that", median(p.B), "plan, 1 spec file", median(p.B).over(first), limitThousand)
		}
	}
	return nil
}

func (b *bench) size() error {
	var sizes []float64
	for _, path := range []string{b.floor, b.hook} {
		fi, err := os.Stat(path)
		if err != nil {
			return err
		}
		sizes = append(sizes, float64(fi.Size())/(1<<20))
	}
	b.out.note = fmt.Sprintf("binary: %.1f MiB, %.1f times the empty program's %.1f MiB", sizes[1], sizes[1]/sizes[0], sizes[0])
	return nil
}

func (b *bench) id(row string, i int) string {
	return fmt.Sprintf("oci-cdi-hook-bench-%d-%s-%d", os.Getpid(), row, i)
}

// stage is the arguments that hooks.d gives, with the bench's own folders.
func (b *bench) stage(specs string) []string {
	return []string{"createRuntime", "--deadline", "100s", "--spec-dir", specs, "--state-dir", b.world.path("state")}
}
