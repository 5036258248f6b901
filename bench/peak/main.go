// Command peak runs a program and writes the most memory that it and its children had at one time, each by itself, in KiB: OUT PROGRAM
// [ARG...]. The kernel counts what the parent of a new process had until that executes its program, so this one is small.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "peak:", err)
		os.Exit(1)
	}
}

func run(out string, command []string) error {
	p, err := os.StartProcess(command[0], command, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err != nil {
		return err
	}
	if !state.Success() {
		return fmt.Errorf("%s: %s", command[0], state)
	}
	return os.WriteFile(out, fmt.Append(nil, state.SysUsage().(*syscall.Rusage).Maxrss), 0o644)
}
