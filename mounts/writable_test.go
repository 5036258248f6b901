package mounts

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Nothing is created where the container itself could create nothing, although the caller could.
func TestNotWritable(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Root)
		want error
	}{
		{"as it is", func(*Root) {}, nil},
		{"read-only later", func(r *Root) { r.ReadOnly = []ReadOnly{{UnsafePath: "/vol"}} }, unix.EROFS},
		{"read-only later, by a link", func(r *Root) { r.ReadOnly = []ReadOnly{{UnsafePath: "/link/"}} }, unix.EROFS},
		{"the mount above, with all below", func(r *Root) { r.ReadOnly = []ReadOnly{{UnsafePath: "/", Recursive: true}} }, unix.EROFS},
		{"the mount above alone", func(r *Root) { r.ReadOnly = []ReadOnly{{UnsafePath: "/"}} }, nil},
		{"another's", func(r *Root) { r.Mapped = func(uid, gid uint32) bool { return uid != 7 || gid != 7 } }, ErrOwner},
		{"the container's", func(r *Root) { r.Mapped = func(uid, gid uint32) bool { return uid == 7 && gid == 7 } }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t)
			b.write("host/vol/", "host/src", "root/vol/")
			b.link("vol", "root/link")
			b.do(func() error {
				return errors.Join(os.Chown(b.path("host/vol"), 7, 7), unix.Mount(b.path("host/vol"), b.path("root/vol"), "", unix.MS_BIND, ""))
			})
			test.set(b.root)
			b.do(func() error {
				p, err := b.root.CheckBind(Bind{Source: b.path("host/src"), UnsafeTarget: "/vol/new", Options: ParseOptions([]string{"bind"})}, false)
				if !errors.Is(err, test.want) {
					t.Errorf("the check says %v, not %v", err, test.want)
				}
				if p == nil || err != nil {
					p = &Pending{do: func() (Undo, error) {
						return b.root.bind(Bind{Source: b.path("host/src"), UnsafeTarget: "/vol/new", Options: ParseOptions([]string{"bind"})}, false)
					}}
				}
				if _, err := p.Do(); !errors.Is(err, test.want) {
					t.Errorf("doing it says %v, not %v", err, test.want)
				}
				_, err = os.Lstat(b.path("host/vol/new"))
				if made := err == nil; made != (test.want == nil) {
					t.Errorf("made on the host: %v", made)
				}
				return nil
			})
		})
	}
}
