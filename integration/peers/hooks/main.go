// Command hooks loads a hooks.d folder with the engines' own loader and prints, as JSON, the hooks that a container with the given
// annotations (key=value arguments after the folder) would get.
//
// It runs none of them.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/containers/common/pkg/hooks"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "hooks:", err)
		os.Exit(1)
	}
}

func run(dir string, pairs []string) error {
	annotations := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		annotations[k] = v
	}
	// no extension stages, as CRI-O and podman build load the folder
	manager, err := hooks.New(context.Background(), []string{dir}, nil)
	if err != nil {
		return err
	}
	config := &rspec.Spec{Process: &rspec.Process{Args: []string{"/bin/true"}}}
	if _, err := manager.Hooks(config, annotations, false); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(config.Hooks)
}
