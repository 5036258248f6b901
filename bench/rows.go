package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Limits that the project holds itself to; a row without one is for information.
const (
	limitNothing   = 1.4  // times the empty program
	limitOneDevice = 4    // times the empty program
	limitLibrary   = 0.05 // of the library's time, at 1,000 spec files
	limitTenfold   = 12   // times 1,000 spec files, at 10,000
	limitPrecreate = 2    // times precreate with nothing asked
	limitStart     = 1.1  // times native edits
	limitBinaryMB  = 9
	limitPeakMB    = 16 // at 1,000 spec files
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
	b.out.section("As a hook of a runtime")
	b.out.add("empty static program", median(p.A), "", 0, 0)
	b.out.add("hook, nothing asked", median(p.B), floorName, p.ratio(), limitNothing)
	return nil
}

// devices measures the hook that gives devices, on each version of cgroups.
func (b *bench) devices() error {
	return b.onEachVersion(func(version string) error {
		for _, row := range []struct {
			name  string
			ask   string
			hooks bool
			limit float64
		}{
			{"one dGPU: 7 nodes, 14 mounts, their rules", device, false, limitOneDevice},
			{"eight dGPUs: 28 nodes, 14 mounts", eight(), false, 0},
			{"one dGPU with 5 vendor hooks that do nothing", device, true, 0},
		} {
			if err := b.deviceRow(version, row.name, row.ask, row.hooks, row.limit); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) deviceRow(version, name, ask string, hooks bool, limit float64) error {
	specs, err := b.world.specDir(fmt.Sprintf("specs-one-%v", hooks), 1, hooks)
	if err != nil {
		return err
	}
	p, err := b.eachInOwn(version+"-"+strconv.Itoa(len(b.out.rows)), ask, append([]string{b.hook}, b.stage(specs)...))
	if err != nil {
		return err
	}
	b.out.add("hook, "+name+", "+version, median(p.B), floorName, p.ratio(), limit)
	return nil
}

// eachInOwn runs the empty program and another in turns, each turn in a container of its own.
func (b *bench) eachInOwn(what, ask string, command []string) (pair, error) {
	var all pair
	for i := range b.containers {
		p, err := b.programInContainer(b.id(what, i), map[string]string{"cdi.k8s.io/bench": ask}, 1, i%2 == 1, command...)
		if err != nil {
			return all, err
		}
		all.A, all.B = append(all.A, p.A...), append(all.B, p.B...)
	}
	return all, nil
}

// eight asks for all that the spec has.
func eight() string {
	var names []string
	for i := range gpus {
		names = append(names, strings.TrimSuffix(device, "0")+strconv.Itoa(i))
	}
	return strings.Join(names, ",")
}

// vendor measures the hook that a user of one vendor would have otherwise. It is given by its makers as a hook of the CDI spec, with one job
// each; a dGPU's spec has five such.
func (b *bench) vendor() error {
	peer := b.world.path("nvidia-cdi-hook")
	p, err := b.programInContainer(b.id("noop", 0), nil, b.rounds, false, peer, "noop")
	if err != nil {
		return err
	}
	b.out.add("nvidia-cdi-hook noop", median(p.B), floorName, p.ratio(), 0)
	p, err = b.eachInOwn("symlinks", "", []string{peer, "create-symlinks", "--link", "libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so"})
	if err != nil {
		return err
	}
	b.out.add("nvidia-cdi-hook create-symlinks, one link", median(p.B), floorName, p.ratio(), 0)
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
	b.out.section("podman's own stage")
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

func (b *bench) id(row string, i int) string {
	return fmt.Sprintf("oci-cdi-hook-bench-%d-%s-%d", os.Getpid(), row, i)
}

// stage is the arguments that hooks.d gives, with the bench's own folders.
func (b *bench) stage(specs string) []string {
	return []string{"createRuntime", "--deadline", "100s", "--spec-dir", specs, "--state-dir", b.world.path("state")}
}
