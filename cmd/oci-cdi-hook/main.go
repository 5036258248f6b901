// Command oci-cdi-hook is an OCI hook that gives a container the CDI devices its
// annotations ask for. This package is arguments, streams, exit codes and rendering;
// what is done is in package hook.
package main

import (
	"io"
	"os"

	"oci-cdi-hook/hook/early"
)

// Set by the build.
var (
	version = "unknown"
	commit  = "unknown"
)

// streams are what a program has to do with its surroundings.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	os.Exit(run(os.Args[1:], streams{in: early.Stdin, out: os.Stdout, err: os.Stderr}))
}
