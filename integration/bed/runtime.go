package bed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Prefix begins the names of all containers and cgroups of this run of the tests; another run beside it has another.
var Prefix = "ocicdi-" + runName() + "-"

func runName() string {
	if name := os.Getenv(runEnv); name != "" {
		return name
	}
	return strconv.Itoa(os.Getpid())
}

// Runtime is an OCI runtime under test.
type Runtime struct {
	Name   string // with its version
	Path   string
	isCrun bool
}

// IsCrun tells the runtime's family, where what it does differs.
func (r Runtime) IsCrun() bool { return r.isCrun }

// Cgroup is the version of the bed that this process runs in.
func Cgroup() Version { return current }

// Runtimes are those of this bed. One that the machine should have and has not makes the test fail.
func Runtimes(t *testing.T) []Runtime {
	t.Helper()
	var out []Runtime
	for _, r := range []Runtime{{Path: Tool(toolRunc)}, {Path: onPath(t, "runc")}, {Path: crunHere(t), isCrun: true}} {
		raw, err := exec.Command(r.Path, "--version").Output()
		if err != nil {
			t.Fatalf("%s --version: %v", r.Path, err)
		}
		// "runc version 1.1.5+ds1", "crun version 1.8.1"
		f := strings.Fields(string(raw))
		version, _, _ := strings.Cut(f[2], "+")
		r.Name = fmt.Sprintf("%s-%s@%v", f[0], version, current)
		out = append(out, r)
	}
	return out
}

// crunHere is crun, on v2 behind a script that preloads what it needs there.
func crunHere(t *testing.T) string {
	t.Helper()
	path := onPath(t, "crun")
	if current != V2 {
		return path
	}
	script := Tool("crun")
	text := "#!/bin/sh\nLD_PRELOAD=" + Tool(toolPreload) + " exec " + path + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

func onPath(t *testing.T, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is needed here (Debian: apt-get install %s): %v", name, name, err)
	}
	return p
}

// Each runs the test once with every runtime of the bed.
func Each(t *testing.T, test func(*testing.T, Runtime)) {
	t.Helper()
	for _, r := range Runtimes(t) {
		t.Run(r.Name, func(t *testing.T) { test(t, r) })
	}
}

// Result is how a program ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Refused tells whether the program said no.
func (r Result) Refused() bool { return r.Code != 0 }

// patience is far above what any single program of the tests takes, on a machine with much else to do.
const patience = 30 * time.Second

// Run runs a program to its end.
func Run(t *testing.T, stdin string, env []string, argv ...string) Result {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = time.Second
	err := c.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s: not done after %v; stderr %s", strings.Join(argv, " "), patience, errs.String())
	}
	if c.ProcessState == nil {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return Result{out.String(), errs.String(), c.ProcessState.ExitCode()}
}
