// Command bench prints what the hook costs, as ratios within one run on one machine: against an empty program that reads the same stdin, and
// against the CDI library's own cache.
//
// It measures processes from start to end, in turns, and takes medians. It says nothing of other machines, and milliseconds of two runs are
// not to be compared.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

type bench struct {
	world                          *world
	self, floor, library           string
	hook, runtime, config          string
	env                            []string // that hooks.d gives the hook
	containers, rounds, specRounds int
	out                            table
}

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "as-hook" {
		err = asHook(os.Args[2:])
	} else {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var b bench
	dir := flag.String("dir", "", "work folder, on a filesystem that takes device nodes; holds the programs floor and library")
	fixture := flag.String("fixture", "", "spec file of a dGPU")
	flag.StringVar(&b.config, "config", "", "OCI config that podman wrote")
	flag.StringVar(&b.hook, "hook", "", "the hook")
	entry := flag.String("entry", "", "the hook's entry of hooks.d, for the environment that engines give it")
	flag.StringVar(&b.runtime, "runtime", "runc", "OCI runtime")
	flag.IntVar(&b.containers, "containers", 40, "containers for the one-device rows")
	flag.IntVar(&b.rounds, "rounds", 200, "rounds with nothing asked")
	flag.IntVar(&b.specRounds, "spec-rounds", 15, "rounds with each number of spec files")
	flag.Parse()

	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.self = self
	if b.world, err = newWorld(*dir, *fixture); err != nil {
		return err
	}
	if b.env, err = entryEnv(*entry); err != nil {
		return err
	}
	b.floor, b.library = b.world.path("floor"), b.world.path("library")
	for _, rows := range []func() error{b.nothingAsked, b.oneDevice, b.precreate, b.specFiles, b.size, b.verify} {
		if err := rows(); err != nil {
			return err
		}
	}
	return b.out.print(os.Stdout)
}

// entryEnv is the environment that an entry of hooks.d sets.
func entryEnv(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entry struct {
		Hook struct{ Env []string }
	}
	err = json.Unmarshal(raw, &entry)
	return entry.Hook.Env, err
}
