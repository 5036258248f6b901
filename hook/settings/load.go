package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"oci-cdi-hook/hook/trust"
)

// maxFile bounds a file, in bytes.
const maxFile = 256 << 10

// folder is where further files are, beside the first.
const folder = "conf.d"

// Load reads a configuration: the file, then the .toml files of conf.d beside it in the
// order of their names. What a later file sets replaces what an earlier one did, but rules
// add up. Without a name it is [DefaultFile], which may be missing as conf.d always may;
// then the defaults hold. An error of more than one mistake has a line for each.
func Load(file string, c *trust.Checker) (*Settings, error) {
	mayMiss := file == ""
	if mayMiss {
		file = DefaultFile
	}
	for _, name := range []string{filepath.Dir(file), file, filepath.Join(filepath.Dir(file), folder)} {
		if err := notDangling(name); err != nil {
			return nil, err
		}
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	s := Defaults()
	s.Policy.AddTo = filepath.Join(filepath.Dir(file), folder)
	more, err := moreFiles(s.Policy.AddTo, c)
	if err != nil {
		return nil, err
	}
	if err := s.add(file, c); err != nil && (!mayMiss || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	for _, name := range more {
		if err := s.add(name, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// notDangling refuses a link to nothing: somebody meant rules to be there, and without
// them more would be allowed.
func notDangling(name string) error {
	if _, err := os.Lstat(name); err != nil {
		return nil //nolint:nilerr // nothing is there, which is another matter
	}
	_, err := os.Stat(name)
	return err
}

// moreFiles lists the files of a conf.d. Hidden ones are editors' own.
func moreFiles(dir string, c *trust.Checker) ([]string, error) {
	f, err := c.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range names {
		if strings.HasSuffix(name, ".toml") && !strings.HasPrefix(name, ".") {
			files = append(files, filepath.Join(dir, name))
		}
	}
	slices.Sort(files)
	return files, nil
}

func (s *Settings) add(file string, c *trust.Checker) error {
	text, err := read(file, c)
	if err != nil {
		return err
	}
	if err := s.decode(file, text); err != nil {
		return err
	}
	s.Files = append(s.Files, file)
	return nil
}

func read(file string, c *trust.Checker) (string, error) {
	f, err := c.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxFile {
		return "", &os.PathError{Op: "read", Path: file, Err: fmt.Errorf("larger than %d bytes", maxFile)}
	}
	return string(text), nil
}
