package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// inContainer creates a container whose createRuntime hook is this program, which then runs floor and the hook in turns with the state that
// the runtime gave it. The container is not started.
func (b *bench) inContainer(id string, annotations map[string]string, rounds int, swap bool, hookArgs ...string) (pair, error) {
	return b.programInContainer(id, annotations, rounds, swap, append([]string{b.hook}, hookArgs...)...)
}

// programInContainer does the same with a program of the caller's choice.
func (b *bench) programInContainer(id string, annotations map[string]string, rounds int, swap bool, command ...string) (pair, error) {
	var p pair
	out := b.world.path("times", id)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return p, err
	}
	args := append([]string{"bench", "as-hook", out, strconv.Itoa(rounds), strconv.FormatBool(swap), b.floor}, command...)
	dir, err := b.world.bundle(id, annotations, oci.Hook{Path: b.self, Args: args, Env: append([]string{"TMPDIR=" + b.world.dir}, b.env...)})
	if err != nil {
		return p, err
	}
	if err := b.create(id, dir); err != nil {
		return p, err
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(raw, &p)
}

func (b *bench) create(id, bundle string) (err error) {
	defer func() {
		if e := b.runc("delete", "--force", id); err == nil {
			err = e
		}
	}()
	return b.runc("create", "--bundle", bundle, id)
}

func (b *bench) runc(args ...string) error {
	c := exec.Command(b.runtime, append([]string{"--root", b.world.path("run")}, args...)...)
	// a file, not a pipe: the container holds it open
	log, err := os.Create(b.world.path("runtime.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := c.Run(); err != nil {
		why, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s %s: %w: %s", b.runtime, strings.Join(args, " "), err, strings.TrimSpace(string(why)))
	}
	return nil
}

// asHook is this program as the runtime calls it: OUT ROUNDS SWAP FLOOR HOOK [ARG...], state on stdin.
func asHook(args []string) error {
	state, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	floor := program{args: args[3:4], stdin: state}
	hook := program{args: args[4:], stdin: state, env: os.Environ()}
	var p pair
	for i := range rounds {
		if err := p.round((args[2] == "true") != (i%2 == 1), floor, hook); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], raw, 0o644)
}
