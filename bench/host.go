package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// describe says on what it was measured, without a name of the machine.
func describe(runtimes ...string) []string {
	cpu := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			cpu = strings.Trim(name, " \t:\n")
			break
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	lines := []string{fmt.Sprintf("%s, %d of its threads; Linux %s; %s", cpu, runtime.NumCPU(), kernel, runtime.Version())}
	for _, r := range runtimes {
		out, err := exec.Command(r, "--version").Output()
		if err != nil {
			continue // rows that need it will say why
		}
		first, _, _ := strings.Cut(string(out), "\n")
		lines = append(lines, strings.TrimSpace(first))
	}
	return []string{strings.Join(lines, "; ")}
}
