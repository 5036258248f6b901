package policy

import (
	"fmt"
	"strings"
)

// Source is a path of the host that a device mounts into a container.
type Source struct {
	Device string
	Path   string // as the spec has it
}

// SourceError says that a device brings mounts from where none may come from.
type SourceError struct {
	Items []DeniedSource
	Trees []string
}

// DeniedSource is a source outside all trees.
type DeniedSource struct {
	Source
	Resolved string
}

// ExitCode returns [ExitDenied].
func (e *SourceError) ExitCode() int { return ExitDenied }

// Error returns one line: every source, and what to add to the configuration.
func (e *SourceError) Error() string {
	var parts []string
	trees := e.Trees
	for _, item := range e.Items[:min(len(e.Items), maxItems)] {
		text := "device " + shown(item.Device) + ": mount of " + shown(item.Path)
		if item.Resolved != item.Path {
			text += ", which is " + shown(item.Resolved)
		}
		parts = append(parts, text+": not below the trees that mounts may come from")
		trees = append(trees[:len(trees):len(trees)], item.Resolved)
	}
	if more := len(e.Items) - maxItems; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	parts = append(parts, "to allow it, set in [mounts]: sources = "+tomlList(trees))
	return strings.Join(parts, "; ")
}

// CheckSources tells whether mounts may come from where they do: with [Policy.Sources] set,
// each must be one of these trees or below one. Both are compared as resolve gives them,
// which follows links on the host; what is mounted then should be the resolved path. A tree
// that cannot be resolved holds nothing; a source that cannot, is an error.
func (p *Policy) CheckSources(sources []Source, resolve func(string) (string, error)) error {
	if len(p.Sources) == 0 {
		return nil
	}
	var trees []string
	for _, tree := range p.Sources {
		if resolved, err := resolve(tree); err == nil {
			trees = append(trees, resolved)
		}
	}
	var denied []DeniedSource
	for _, source := range sources {
		resolved, err := resolve(source.Path)
		if err != nil {
			return fmt.Errorf("device %s: mount of %s: %w", shown(source.Device), shown(source.Path), err)
		}
		if !IsBelow(resolved, trees) {
			denied = append(denied, DeniedSource{source, resolved})
		}
	}
	if denied == nil {
		return nil
	}
	return &SourceError{Items: denied, Trees: p.Sources}
}

// IsBelow tells whether a path is one of the trees or below one. Both are absolute and
// clean and have no links.
func IsBelow(name string, trees []string) bool {
	for _, tree := range trees {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(tree, "/"))
		if ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}
