package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSpecSize bounds a spec file. Generated ones have some ten kilobytes.
const maxSpecSize = 16 << 20

// scanner walks spec directories in the library's order (by priority, then
// by file name) and hands out the content of one spec file after the other.
type scanner struct {
	buf  []byte
	dirs []SearchedDir
	bad  []FileError // files that could not be read
}

// rawSpec is an opened spec file. It is valid until the next one is read.
type rawSpec struct {
	path     string
	priority int
	fd       int
	data     []byte
}

// scan calls visit for every readable spec file of the directories. What
// cannot be read is noted and never stops the scan.
//
// The library's own scan ends at the first directory that exists but cannot
// be read, without a word, so that later directories count as empty. Here
// they are still read.
func (s *scanner) scan(dirs []string, visit func(rawSpec)) {
	for priority, dir := range dirs {
		dir = filepath.Clean(dir)
		searched := SearchedDir{Path: dir}
		err := s.scanDir(dir, priority, visit)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			searched.Missing = true
		case err != nil:
			searched.Err = plainError(err)
		}
		s.dirs = append(s.dirs, searched)
	}
}

func (s *scanner) scanDir(dir string, priority int, visit func(rawSpec)) error {
	fd, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()

	// What was read before an error is still good.
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if !isSpecName(entry) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if err := s.visitFile(fd, entry, rawSpec{path: path, priority: priority}, visit); err != nil {
			s.bad = append(s.bad, FileError{Path: path, Err: err})
		}
	}
	return err
}

// isSpecName reports whether the library's scan would look at the entry: by
// its extension alone, in lower case, and no directory. Temporary files of
// writers that rename into place have other extensions.
func isSpecName(entry os.DirEntry) bool {
	ext := filepath.Ext(entry.Name())
	return (ext == ".json" || ext == ".yaml") && !entry.IsDir()
}

func (s *scanner) visitFile(dirfd int, entry os.DirEntry, raw rawSpec, visit func(rawSpec)) error {
	// Known from the directory itself: opening a device may already act.
	if t := entry.Type(); t&(fs.ModeType&^fs.ModeSymlink) != 0 {
		return notRegular(t)
	}
	fd, err := openRegular(dirfd, entry.Name(), raw.path)
	if err != nil {
		return plainError(err)
	}
	defer unix.Close(fd)
	if raw.data, err = s.read(fd, raw.path); err != nil {
		return plainError(err)
	}
	raw.fd = fd
	visit(raw)
	return nil
}

// openRegular opens a regular file of a directory for reading. Links are
// followed, as the library does. O_NONBLOCK keeps a FIFO from blocking.
func openRegular(dirfd int, name, path string) (int, error) {
	fd, err := openRetry(dirfd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := fstatRetry(fd, &st); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "fstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, notRegular(modeType(st.Mode))
	}
	return fd, nil
}

// read reads the whole file into the scanner's buffer.
func (s *scanner) read(fd int, path string) ([]byte, error) {
	if s.buf == nil {
		s.buf = make([]byte, 16<<10)
	}
	n := 0
	for {
		if n == len(s.buf) {
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		m, err := readRetry(fd, s.buf[n:])
		switch {
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case m == 0:
			return s.buf[:n], nil
		}
		if n += m; n > maxSpecSize {
			return nil, fmt.Errorf("larger than %d MiB", maxSpecSize>>20)
		}
	}
}

func notRegular(t fs.FileMode) error {
	kind := "device"
	switch {
	case t&fs.ModeDir != 0:
		kind = "directory"
	case t&fs.ModeNamedPipe != 0:
		kind = "fifo"
	case t&fs.ModeSocket != 0:
		kind = "socket"
	}
	return fmt.Errorf("not a regular file but a %s", kind)
}

func modeType(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}

// plainError drops the path from an error that is shown beside its path.
func plainError(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	return err
}
