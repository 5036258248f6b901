package mounts

import (
	"errors"
	"os"
)

// Running is what is different where the container runs: its mount namespace no longer
// shows the host, and it may change anything at any time.
type Running struct {
	// Mounts reads the mountinfo of the container's mount namespace as it is now.
	Mounts func() ([]byte, error)
	// Outside runs a function in the mount namespace that sources are of.
	Outside func(func() error) error
}

// ErrRunningKernel says that a kernel cannot mount into a container that runs.
var ErrRunningKernel = errors.New("a mount in a container that runs needs open_tree and mount_setattr (kernel 5.12)")

// NewRunningRoot is NewRoot for a container that runs: dir is the root of its mount
// namespace, and the calling thread is in that namespace but has kept the host's root
// ([nsthread.JoinForeign]).
//
// Sources are cloned outside, where no locks of a less privileged namespace come upon the
// clone: it is not for mounts in a user namespace of the container's.
func NewRunningRoot(dir *os.File, hostMountinfo func() ([]byte, error), how Running) (*Root, error) {
	r, err := NewRoot(dir, hostMountinfo)
	if err != nil {
		return nil, err
	}
	r.running = &how
	r.table.read = how.Mounts
	return r, nil
}

// atSources runs f where the sources are.
func (r *Root) atSources(f func() error) error {
	if r.running == nil {
		return f()
	}
	return r.running.Outside(f)
}

func (r *Root) isMountRoot(f *os.File) (bool, error) {
	if r.running == nil {
		return isMountRoot(f)
	}
	return isMountRootOr(f, func(f *os.File) (bool, error) {
		all, err := r.table.mounts()
		if err != nil {
			return false, err
		}
		return all.hasRoot(f)
	})
}
