package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// attack is what a hostile container does until it is killed; false if it is no such verb.
func attack(verb string, args []string) bool {
	var err error
	switch verb {
	case "swap":
		err = swap(args[0], args[1])
	case "snatch":
		err = snatch(args[0])
	default:
		return false
	}
	fmt.Fprintln(os.Stderr, "probe:", err)
	os.Exit(1)
	return true
}

// swap exchanges two names.
func swap(a, b string) error {
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
			return err
		}
	}
}

// snatch tries to open the program of every process that it can see, for writing too, and notes in a folder how often it has looked and
// what it got: as the attack on a runtime's own binary did.
func snatch(dir string) error {
	self := strconv.Itoa(os.Getpid())
	for n := 1; ; n++ {
		all, err := filepath.Glob("/proc/[0-9]*/exe")
		if err != nil {
			return err
		}
		for _, exe := range all {
			if exe == "/proc/"+self+"/exe" {
				continue
			}
			for _, mode := range []int{unix.O_RDONLY, unix.O_WRONLY} {
				if fd, err := unix.Open(exe, mode|unix.O_CLOEXEC, 0); err == nil {
					to, _ := os.Readlink(exe)
					err = os.WriteFile(filepath.Join(dir, "taken"), fmt.Appendln(nil, exe, to, mode), 0o600)
					unix.Close(fd)
					if err != nil {
						return err
					}
				}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "seen"), fmt.Append(nil, n, " ", len(all)-1), 0o600); err != nil {
			return err
		}
	}
}
