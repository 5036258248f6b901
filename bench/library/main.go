// Command library resolves a device as an engine with native CDI does: the library's cache over a spec dir, then injection into a config.
package main

import (
	"fmt"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

func run(dir string, names []string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	config := &oci.Spec{Process: &oci.Process{}}
	_, err = cache.InjectDevices(config, names...)
	return err
}
