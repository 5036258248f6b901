package device

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// File is one spec file by itself, in or outside of a spec directory.
type File struct {
	Path string
	Data []byte
	Spec *specs.Spec // nil where the library refuses the file
	Err  error       // why it does
}

// ReadFile reads a spec file and asks the library for its verdict. Only what cannot be
// read at all is an error of ReadFile; a FIFO or a device is not waited for.
func ReadFile(path string) (*File, error) {
	fd, err := openRegular(unix.AT_FDCWD, path, path)
	if err != nil {
		return nil, plainError(err)
	}
	defer unix.Close(fd)
	var s scanner
	data, err := s.read(fd, path)
	if err != nil {
		return nil, plainError(err)
	}
	f := &File{Path: path, Data: data}
	spec, err := load(rawSpec{path: path, fd: fd, data: data})
	if err != nil {
		f.Err = err
		return f, nil
	}
	f.Spec = spec.Spec.Spec
	return f, nil
}

// Verdict is the library's on the text of a spec that is in no file.
func Verdict(data []byte) error {
	fd, err := unix.MemfdCreate("spec", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "spec")
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	_, err = load(rawSpec{path: "spec", fd: fd, data: data})
	return err
}

// Skipped tells whether engines pass over a file of this name in a spec directory, and why.
func Skipped(path string) (reason string, skipped bool) {
	switch ext := filepath.Ext(path); ext {
	case ".json", ".yaml":
		return "", false
	case "":
		return "engines read only files that end in .json or .yaml", true
	default:
		return fmt.Sprintf("engines read only files that end in .json or .yaml, not in %s", shown(ext)), true
	}
}

// Near returns those of known that are most likely meant by word, for words of any kind.
func Near(word string, known []string) []string {
	var best []string
	least := 3
	for _, k := range known {
		d := distance(word, k)
		if d > 1+len(word)/4 || d > least {
			continue
		}
		if d < least {
			best, least = nil, d
		}
		best = append(best, k)
	}
	return best
}
