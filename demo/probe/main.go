// Command probe is all that the demo's container holds, and it plays the vendor's hook too: the demo then needs no image and no shell.
//
// It is no part of the product and knows nothing of CDI.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("report PATH... | try MAJOR:MINOR... | vendor-hook FILE")
	}
	switch args[0] {
	case "report":
		for _, path := range args[1:] {
			fmt.Printf("    %-22s %s\n", path, report(path))
		}
	case "try":
		for _, numbers := range args[1:] {
			fmt.Printf("    %-22s %s\n", "device "+numbers, try(numbers))
		}
	case "vendor-hook":
		return vendorHook(args[1])
	default:
		return fmt.Errorf("%s: not a word of mine", args[0])
	}
	return nil
}

// report says what is at path: for a device, whether it opens; for a file, what is in it.
func report(path string) string {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not there"
	case err != nil:
		return err.Error()
	case fi.Mode()&fs.ModeDevice != 0:
		rdev := fi.Sys().(*syscall.Stat_t).Rdev
		return fmt.Sprintf("device %d:%d, %s", major(rdev), minor(rdev), openable(path))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%q", strings.TrimSpace(string(b)))
}

// try makes a node of its own, as any container with the default capabilities can, and opens it: the rules decide, not the node.
func try(numbers string) string {
	a, b, _ := strings.Cut(numbers, ":")
	maj, err1 := strconv.ParseUint(a, 10, 32)
	mnr, err2 := strconv.ParseUint(b, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return err.Error()
	}
	path := "/node-" + a + "-" + b
	dev := int(mnr&0xff | maj<<8 | (mnr&^0xff)<<12)
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, dev); err != nil {
		return err.Error()
	}
	defer os.Remove(path)
	return openable(path)
}

func openable(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "does not open: " + errors.Unwrap(err).Error()
	}
	f.Close()
	return "opens"
}

func major(dev uint64) uint64 { return dev >> 8 & 0xfff }

func minor(dev uint64) uint64 { return dev&0xff | dev>>12&0xfff00 }

// vendorHook does what a vendor's createContainer hook does: it finds the rootfs by the state on stdin and leaves a file in it.
func vendorHook(file string) error {
	var state struct{ ID, Bundle string }
	if err := json.NewDecoder(os.Stdin).Decode(&state); err != nil {
		return fmt.Errorf("state on stdin: %w", err)
	}
	path := filepath.Join(state.Bundle, "rootfs", file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte("the vendor's hook was here, for "+state.ID+"\n"), 0o644)
}
