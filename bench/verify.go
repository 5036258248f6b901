package main

import (
	"fmt"
	"strings"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// verified is how many containers are compared at once, verifyCPU what that may take.
const (
	verified  = 200
	verifyCPU = 100 * time.Millisecond
)

// verify measures the comparison of containers with their records, on the cgroups of the machine and then on version 2: its device programs
// cost more than the lists of version 1.
func (b *bench) verify() error {
	specs, err := b.world.specDir("specs-verify", 1, false)
	if err != nil {
		return err
	}
	b.out.section("Comparing what runs with what was given")
	return b.onEachVersion(func(version string) error {
		p, err := b.verifyMany(version, specs)
		if err != nil {
			return err
		}
		took := median(p.B)
		b.out.put(row{
			name: fmt.Sprintf("verify, %d containers with a dGPU, cgroup %s", verified, version), against: "the empty program's CPU",
			took: took, ratio: float64(took.CPU) / float64(median(p.A).CPU), cpuLimit: verifyCPU,
		})
		return nil
	})
}

func (b *bench) verifyMany(version, specs string) (p pair, err error) {
	state := b.world.path("state-verify-" + version)
	hook := append([]string{b.hook, "createRuntime", "--spec-dir", specs, "--state-dir", state}, "--log-file", b.world.path("log"))
	ask := map[string]string{"cdi.k8s.io/bench": device}
	for i := range verified {
		id := b.id("verify-"+version, i)
		dir, err := b.world.bundle(id, ask, oci.Hook{Path: b.hook, Args: hook})
		if err != nil {
			return p, err
		}
		// also one that could not be created may have left something
		defer func() {
			if e := b.runc("delete", "--force", id); err == nil && e != nil && !strings.Contains(e.Error(), "does not exist") {
				err = e
			}
		}()
		if err := b.runc("create", "--bundle", dir, id); err != nil {
			return p, err
		}
	}
	return alternate(b.specRounds, program{args: []string{b.floor}}, program{args: []string{b.hook, "verify", "--state-dir", state}})
}
