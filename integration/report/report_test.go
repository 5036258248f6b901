package report

import (
	"slices"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct{ a, b, want []string }{
		{nil, nil, nil},
		{[]string{"x", "y"}, []string{"x", "y"}, nil},
		{[]string{"x", "y", "z"}, []string{"x", "z"}, []string{"-y"}},
		{[]string{"x", "z"}, []string{"x", "y", "z"}, []string{"+y"}},
		{[]string{"x", "y"}, []string{"y", "x"}, []string{"-x", "+x"}},
		{[]string{"x"}, []string{"y"}, []string{"-x", "+y"}},
		{[]string{"x", "x"}, []string{"x"}, []string{"-x"}},
	} {
		if got := Diff(c.a, c.b); !slices.Equal(got, c.want) {
			t.Errorf("Diff(%q, %q) = %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

func TestParseMountinfo(t *testing.T) {
	const table = "20 1 8:1 / / rw shared:1 - ext4 /dev/sda rw\n" +
		"31 20 0:25 /sub /mnt ro,nosuid master:1 shared:7 - tmpfs none rw,size=4k\n" +
		"32 31 0:26 / /mnt/deep rw - proc proc\n"
	got, err := ParseMountinfo(table)
	want := []string{
		"mount / on=- root=/ rw shared ext4 /dev/sda rw",
		"mount /mnt on=/ root=/sub ro,nosuid slave+shared tmpfs none rw,size=4k",
		"mount /mnt/deep on=/mnt root=/ rw private proc proc ",
	}
	for i, m := range got {
		if m.String() != want[i] {
			t.Errorf("line %d is %q, want %q", i, m, want[i])
		}
	}
	if err != nil || len(got) != len(want) {
		t.Errorf("%d mounts, %v", len(got), err)
	}
	if _, err := ParseMountinfo("20 1 8:1 / /\n"); err == nil {
		t.Error("a short line is taken")
	}
}

func TestLinesKeepTheOrderOfTargets(t *testing.T) {
	r := Report{Mounts: []Mount{{Point: "/b"}, {Point: "/a"}, {Point: "/b/c"}}}
	var order []string
	for _, l := range r.Lines([]string{"/a", "/b/"}) {
		if l[:5] == "order" {
			order = append(order, l)
		}
	}
	if want := []string{"order /b", "order /a"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}
