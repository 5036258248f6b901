// Command bench prints what the hook costs, as ratios within one run on one machine: against an empty program that reads the same stdin, and
// against the CDI library's own cache.
//
// It measures processes from start to end, in turns, and takes medians, so that what else runs on the machine meets all alike. It says
// nothing of other machines, and milliseconds of two runs are not to be compared.
//
// A new row is a function of bench, named in run, that measures with alternate, inContainer or inTurns and calls table.add.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
)

type bench struct {
	world                          *world
	self, floor, library           string
	hook, runtime, config, docs    string
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
	flag.StringVar(&b.docs, "docs", "", "folder whose performance.md and performance.svg get the results")
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
	b.out.host = describe(b.runtime, "crun")
	for _, rows := range []func() error{b.nothingAsked, b.devices, b.vendor, b.precreate, b.specFiles, b.start, b.size, b.verify, b.profile} {
		if err := rows(); err != nil {
			return err
		}
	}
	err = b.out.print(os.Stdout)
	if b.docs != "" {
		err = errors.Join(err, b.out.document(b.docs))
	}
	return err
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
