package mounts

import "testing"

// A dangling link is resolved from where it lies, however it and the path are written.
func TestDanglingLinks(t *testing.T) {
	for _, test := range []struct{ link, want string }{
		{"there/f", "/d/there/f"}, {"there//f", "/d/there/f"}, {"there/f//", "/d/there/f"}, {"//there///f", "/there/f"}, {"./there/f", "/d/there/f"},
		{"../there/f", "/there/f"}, {"../../../../there/f", "/there/f"},
	} {
		t.Run(test.link, func(t *testing.T) {
			b := newBed(t)
			b.write("root/d/there/", "root/there/")
			b.link(test.link, "root/d/link")
			b.do(func() error {
				p, err := b.root.find("/d//link/x/")
				if err != nil {
					return err
				}
				defer p.close()
				at, err := b.root.pathOf(p.at)
				for _, part := range p.missing {
					at += "/" + part
				}
				if want := test.want + "/x"; at != want {
					t.Errorf("leads to %s, not %s", at, want)
				}
				return err
			})
		})
	}
}
