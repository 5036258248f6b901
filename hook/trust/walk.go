package trust

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the kernel's own limit (path_resolution(7)).
const maxLinks = 40

// walk follows a path component by component, and judges each.
type walk struct {
	checker *Checker
	name    string // as asked
	at      *directory
	rest    []string
	links   int
}

// walk gives what a trusted path leads to.
func (c *Checker) walk(name string) (object, error) {
	w := &walk{checker: c, name: name}
	if !path.IsAbs(name) {
		return object{}, w.failed("check", errors.New("not an absolute path"))
	}
	if err := w.restart(); err != nil {
		return object{}, err
	}
	w.rest = components(name)
	for len(w.rest) > 0 {
		file, err := w.step()
		if err != nil {
			return object{}, err
		}
		if file != nil {
			return w.arrived(file)
		}
	}
	if w.at.flaw != nil {
		return object{}, w.at.flaw.of(name)
	}
	return object{fd: w.at.fd, kept: true}, nil
}

// step takes one component. It returns what is neither a directory nor a link.
func (w *walk) step() (*entry, error) {
	if w.at.flaw != nil {
		return nil, w.at.flaw.of(w.name)
	}
	next := w.rest[0]
	w.rest = w.rest[1:]
	if next == ".." {
		w.at = w.at.parent
		return nil, nil
	}
	if known := w.checker.dirs[path.Join(w.at.path, next)]; known != nil {
		w.at = known
		return nil, nil
	}
	e, err := lookAt(w.at, next)
	if err != nil {
		return nil, w.failed("open", err)
	}
	flaw, err := w.checker.judge(e)
	switch {
	case err != nil:
		e.close()
		return nil, w.failed("check", err)
	case e.kind() == unix.S_IFDIR:
		w.at = w.checker.keep(e, flaw)
		return nil, nil
	case flaw != nil:
		e.close()
		return nil, flaw.of(w.name)
	case e.kind() == unix.S_IFLNK:
		defer e.close()
		return nil, w.follow(e)
	}
	return e, nil
}

func (w *walk) follow(link *entry) error {
	if w.links++; w.links > maxLinks {
		return w.failed("check", unix.ELOOP)
	}
	target, err := link.target()
	if err != nil {
		return w.failed("readlink", err)
	}
	w.rest = append(components(target), w.rest...)
	if path.IsAbs(target) {
		return w.restart()
	}
	return nil
}

func (w *walk) arrived(e *entry) (object, error) {
	err := error(nil)
	switch {
	case len(w.rest) > 0:
		err = unix.ENOTDIR
	case e.kind() != unix.S_IFREG:
		err = errors.New("neither a regular file nor a directory")
	}
	if err != nil {
		e.close()
		return object{}, w.failed("check", err)
	}
	return object{fd: e.fd}, nil
}

// restart goes to /, as an absolute path or link does.
func (w *walk) restart() error {
	root, err := w.checker.root()
	if err != nil {
		return w.failed("open", err)
	}
	w.at = root
	return nil
}

func (w *walk) failed(op string, err error) error {
	return &os.PathError{Op: op, Path: w.name, Err: err}
}

func components(name string) []string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}

// root gives /, whose own owner and mode count too.
func (c *Checker) root() (*directory, error) {
	if d := c.dirs["/"]; d != nil {
		return d, nil
	}
	e, err := lookAt(&directory{fd: unix.AT_FDCWD}, "/")
	if err != nil {
		return nil, err
	}
	flaw, err := c.judge(e)
	if err != nil {
		e.close()
		return nil, err
	}
	d := c.keep(e, flaw)
	d.parent = d
	return d, nil
}

func (c *Checker) keep(e *entry, flaw *flaw) *directory {
	d := &directory{fd: e.fd, path: e.path(), parent: e.parent, flaw: flaw}
	if c.dirs == nil {
		c.dirs = map[string]*directory{}
	}
	c.dirs[d.path] = d
	return d
}
