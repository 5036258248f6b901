package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// program is what version prints: which program this is, and of what it is made.
type program struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Modules  []module `json:"modules"`
}

type module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

func versionCommand(s streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the versions of the libraries",
		Example: "  oci-cdi-hook version\n  oci-cdi-hook version --json",
		Args:    wantArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			a := thisProgram()
			if asJSON {
				return printJSON(s.out, a)
			}
			fmt.Fprintf(s.out, "oci-cdi-hook %s (commit %s)\n%s %s\n", a.Version, a.Commit, a.Go, a.Platform)
			for _, m := range a.Modules {
				fmt.Fprintf(s.out, "%s %s\n", m.Path, m.Version)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// thisProgram asks the linker's own record, which no build can forget to set.
func thisProgram() program {
	a := program{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: []module{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return a
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		a.Modules = append(a.Modules, module{dep.Path, dep.Version})
	}
	return a
}
