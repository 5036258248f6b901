// Package trust tells whether a path is root's alone: whether anybody else could change
// what it leads to. Every component from / on must be owned by root and writable by no
// one else, links are followed and must be root's too, and so must the directories that
// they lead through. A directory with the sticky bit counts as not writable, since others
// cannot rename or replace what is root's in it.
//
// Besides root the user who runs this is trusted: nobody gains by fooling himself. Run by
// root, that is root alone.
//
// In a user namespace what belongs to root outside shows the overflow uid, and so does
// what belongs to anyone else outside. It counts as root's where we can write neither it
// nor the directory it is in. A file of another user outside, in a directory of that user
// or of root, cannot be told from root's.
//
// What this package does not do: it does not look at POSIX ACLs by themselves. It needs
// not: the group bits of a file with an ACL are the mask of the ACL, so that whatever
// grants somebody writing shows as group-writable (acl(5)). ACLs of NFSv4, MAC labels and
// capabilities are not looked at. It does not know who serves a FUSE or network
// filesystem, and believes its owners. It does not look at what a trusted file refers to:
// a script's interpreter, a binary's libraries. A verdict is of the moment; nobody but
// root can make it wrong later.
package trust

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Checker checks paths. It keeps the directories that it has seen, open, until Close: the
// zero Checker is ready, and one serves a run. It is for one goroutine.
type Checker struct {
	dirs map[string]*directory // by real path
	ids  *identity
}

// directory is one that has been judged.
type directory struct {
	fd     int
	path   string
	parent *directory // of / itself
	flaw   *flaw
}

// Check tells whether a path and what it leads to, a regular file or a directory, are
// trusted. The error is an [*Error] where they are not, else an [*os.PathError]: of
// [os.ErrNotExist] only if the directories before are trusted.
func (c *Checker) Check(name string) error {
	found, err := c.walk(name)
	if err != nil {
		return err
	}
	return found.close()
}

// Open is Check, then opens for reading what was checked.
func (c *Checker) Open(name string) (*os.File, error) {
	found, err := c.walk(name)
	if err != nil {
		return nil, err
	}
	defer found.close()
	// A regular file or directory: opening it neither blocks nor acts.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(found.fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Close closes the directories. The Checker can be used again.
func (c *Checker) Close() error {
	var errs []error
	for _, d := range c.dirs {
		errs = append(errs, unix.Close(d.fd))
	}
	c.dirs = nil
	return errors.Join(errs...)
}

// object is where a path has led to.
type object struct {
	fd   int
	kept bool // fd is that of a kept directory
}

func (o object) close() error {
	if o.kept {
		return nil
	}
	return unix.Close(o.fd)
}
