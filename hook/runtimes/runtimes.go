// Package runtimes finds running containers in what OCI runtimes and engines keep about
// them: by id, by the beginning of an engine's long id, by podman's name, or by the pid of
// their first process. It reads the state files of runc, crun and youki, and podman's list
// of names beside a bundle, and runs no program.
//
// What it does not do: it asks no engine, does not know containers of rootless engines (the
// files of a user say what he likes), and believes no file that is not root's alone. That a
// process still is the container's first is for the caller to find out, with its start time.
package runtimes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Container is one that a runtime says it has.
type Container struct {
	ID     string
	Bundle string
	Pid    int // 0 where it has stopped
	// StartTime of the process in clock ticks since boot; 0 where the runtime keeps none.
	StartTime   uint64
	Annotations map[string]string
	// Dir is where the runtime keeps it.
	Dir string
}

// DefaultRoots are the state directories of runtimes as root runs them; a pattern may
// match several. podman and CRI-O use the first ones.
func DefaultRoots() []string {
	return []string{"/run/crun", "/run/runc", "/run/runc-*", "/run/youki", "/run/containerd/runc/*", "/run/docker/runtime-runc/*"}
}

// UnknownError says that no container has an id, or that it could be several.
type UnknownError struct {
	Asked    string
	Could    []string // ids
	Searched []string
	// Skipped says why some could not be looked at.
	Skipped []error
}

func (e *UnknownError) Error() string {
	if len(e.Could) > 0 {
		return fmt.Sprintf("container %q: could be %s", e.Asked, strings.Join(e.Could, ", "))
	}
	text := fmt.Sprintf("container %q: no runtime has it (searched %s)", e.Asked, strings.Join(e.Searched, ", "))
	for _, err := range e.Skipped {
		text += "; " + err.Error()
	}
	return text
}

// ExitCode is that of a refused request.
func (e *UnknownError) ExitCode() int { return 3 }

// ByID finds the container of this id, else of this name, else the only one with a long id
// that begins so.
func ByID(asked string, roots []string) (*Container, error) {
	all, skipped := list(roots)
	var could []string
	for _, means := range []func(Container) bool{
		func(c Container) bool { return c.ID == asked },
		func(c Container) bool { return slices.Contains(names(c), asked) },
		func(c Container) bool { return isLong(c.ID) && strings.HasPrefix(c.ID, asked) },
	} {
		var found []Container
		for _, c := range all {
			if means(c) {
				found = append(found, c)
			}
		}
		if len(found) == 1 {
			return &found[0], nil
		}
		for _, c := range found {
			could = append(could, fmt.Sprintf("%s (%s)", c.ID, c.Dir))
		}
		if len(could) > 0 {
			break
		}
	}
	return nil, &UnknownError{Asked: asked, Could: could, Searched: roots, Skipped: skipped}
}

// ByPid finds the container whose first process has this pid; nil where no runtime that is
// searched has one.
func ByPid(pid int, roots []string) *Container {
	all, _ := list(roots)
	for _, c := range all {
		if c.Pid == pid {
			return &c
		}
	}
	return nil
}

// isLong tells of ids as engines make them: these may be cut short.
func isLong(id string) bool {
	return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

// list reads all containers of all roots. What cannot be read hides no other.
func list(roots []string) (all []Container, skipped []error) {
	for _, pattern := range roots {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			skipped = append(skipped, fmt.Errorf("%s: %w", pattern, err))
		}
		for _, root := range dirs {
			found, errs := listRoot(root)
			all, skipped = append(all, found...), append(skipped, errs...)
		}
	}
	return all, skipped
}

func listRoot(root string) (all []Container, skipped []error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{err}
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		c, err := read(filepath.Join(root, e.Name()), e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue // no container, or one that is being made or taken away
		}
		if err != nil {
			skipped = append(skipped, err)
			continue
		}
		all = append(all, *c)
	}
	return all, skipped
}
