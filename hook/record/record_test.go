package record

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func openDir(t *testing.T) (*Dir, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "state")
	d, err := OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, name
}

func lock(t *testing.T, d *Dir, id, bundle string) *Entry {
	t.Helper()
	e, err := d.Lock(t.Context(), id, bundle)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// put leaves a record of a container and gives back the name of its file.
func put(t *testing.T, d *Dir, id, bundle string) string {
	t.Helper()
	e := lock(t, d, id, bundle)
	if err := errors.Join(e.Write(&Record{ID: id, Bundle: bundle, Pid: 7}), e.Unlock()); err != nil {
		t.Fatal(err)
	}
	return nameFor(id, bundle)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestOpenDir(t *testing.T) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	for _, err := range []error{
		os.Mkdir(at("open"), 0o755), os.Mkdir(at("group"), 0o710), os.Mkdir(at("good"), 0o700), os.Mkdir(at("setgid"), 0o700),
		os.Chmod(at("setgid"), 0o700|os.ModeSetgid), os.Symlink("good", at("link")), os.WriteFile(at("file"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"good":          "",
		"new":           "",
		"setgid":        "",
		"open":          "mode 0755 lets others in, 0700 is wanted",
		"group":         "mode 0710 lets others in",
		"link":          "link: not a directory",
		"file":          "file: not a directory",
		"missing/state": "mkdir " + at("missing/state") + ": no such file",
	} {
		d, err := OpenDir(at(name))
		if err == nil {
			d.Close()
		}
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if st, err := os.Stat(at("new")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("new directory: %v %v", st.Mode(), err)
	}
	if _, err := OpenExisting(at("newer")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	if _, err := os.Stat(at("newer")); err == nil {
		t.Error("OpenExisting made a directory")
	}
}

func TestOpenDirOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: giving a directory to another user")
	}
	name := t.TempDir()
	if err := errors.Join(os.Chmod(name, 0o700), os.Chown(name, 65534, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(name); err == nil || !strings.Contains(err.Error(), name+": owned by uid 65534, not by uid 0") {
		t.Error(err)
	}
}

func TestWriteAndRead(t *testing.T) {
	d, name := openDir(t)
	e := lock(t, d, "a.b", "/b")
	if _, err := e.Read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no record yet: %v", err)
	}
	want := &Record{
		ID: "a.b", Bundle: "/b", Pid: 7, StartTime: 1 << 63, BootID: "x", Devices: []string{"v.example/dev=a"}, Root: "/b/rootfs",
		Targets: []string{"/dev/x"}, Missing: []Missing{{Path: "/dev/x", Type: "c", Major: 1<<32 - 1}}, Actions: []byte(`[{"kind":"node"}]`),
	}
	for _, done := range []bool{false, true} {
		want.Done = done
		if err := e.Write(want); err != nil {
			t.Fatal(err)
		}
		if have, err := e.Read(); err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("have %+v %v\nwant %+v", have, err, want)
		}
	}
	stem := filepath.Join(name, nameFor("a.b", "/b"))
	if st, err := os.Stat(stem + ".json"); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	// Whoever has the old one open keeps it whole: a new one takes its place.
	old, err := os.Open(stem + ".json")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := e.Write(&Record{ID: "other"}); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 1000)
	if n, _ := old.Read(raw); !strings.Contains(string(raw[:n]), `"id":"a.b"`) {
		t.Errorf("written in place: %s", raw[:n])
	}
	if err := errors.Join(e.Remove(), e.Remove(), e.Unlock()); err != nil {
		t.Error(err)
	}
	if left := files(t, name); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// A process that dies while it writes leaves the record as it was.
func TestHalfWritten(t *testing.T) {
	d, name := openDir(t)
	stem := filepath.Join(name, put(t, d, "a", "/b"))
	if err := os.WriteFile(stem+".tmp", []byte(`{"version":1,"id`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := lock(t, d, "a", "/b")
	if r, err := e.Read(); err != nil || r.Pid != 7 {
		t.Error(r, err)
	}
	if err := errors.Join(e.Write(&Record{Pid: 8}), e.Unlock()); err != nil {
		t.Fatal(err)
	}
	e = lock(t, d, "a", "/b")
	if r, err := e.Read(); err != nil || r.Pid != 8 {
		t.Error(r, err)
	}
	if err := errors.Join(os.WriteFile(stem+".tmp", nil, 0o600), e.Remove(), e.Unlock()); err != nil {
		t.Error(err)
	}
	if left := files(t, name); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestUnreadable(t *testing.T) {
	d, name := openDir(t)
	file := filepath.Join(name, put(t, d, "a", "/b")+".json")
	for content, want := range map[string]string{
		"":              "unexpected end of JSON",
		`{"version":1,`: "unexpected end of JSON",
		"[]":            "cannot unmarshal",
		`{"version":2}`: "version 2 is newer than this program's 1",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		e := lock(t, d, "a", "/b")
		_, err := e.Read()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", content, err)
		}
		if err := e.Unlock(); err != nil {
			t.Error(err)
		}
		other := lock(t, d, "other", "/b")
		_ = other.Sweep(func(*Record) bool { return true }, func(*Record) error { return nil })
		_ = other.Unlock()
		if now, err := os.ReadFile(file); err != nil || string(now) != content {
			t.Errorf("%q was swept: %v", content, err)
		}
	}
	if err := errors.Join(os.Remove(file), os.Symlink("/etc/hostname", file)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.read(nameFor("a", "/b")); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link in place of the record: %v", err)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 255)
	seen := map[string]string{}
	for _, c := range [][2]string{
		{"a", "/b"}, {"a", "/c"}, {"b", "/b"}, {"a.json", "/b"}, {"a.lock", "/b"}, {"...", "/b"}, {long, "/b"}, {long[:254] + "b", "/b"},
		{long, "/c"}, {long[:200], "/b"}, {long[:201], "/b"}, {strings.Repeat("ä", 127), "/b"},
	} {
		name := nameFor(c[0], c[1])
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q have the name %s", c, other, name)
		}
		seen[name] = c[0]
		if len(name) > 250 || strings.Contains(name, "/") {
			t.Errorf("name %q", name)
		}
	}
	d, dir := openDir(t)
	for _, id := range []string{long, "a.json", "...", ".lock", "-"} {
		put(t, d, id, "/b")
		e := lock(t, d, id, "/b")
		if r, err := e.Read(); err != nil || r.ID != id {
			t.Errorf("%q: %v", id, err)
		}
		if err := errors.Join(e.Remove(), e.Unlock()); err != nil {
			t.Error(err)
		}
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestOthers(t *testing.T) {
	d, _ := openDir(t)
	put(t, d, "c", "/b")
	put(t, d, "a", "/b")
	put(t, d, "b", "/b")
	self := lock(t, d, "b", "/b")
	defer func() { _ = self.Unlock() }()
	var ids []string
	if err := self.Others(func(r *Record) { ids = append(ids, r.ID) }); err != nil || !slices.Equal(ids, []string{"a", "c"}) {
		t.Errorf("%q %v", ids, err)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"a","bundle":"/b","pid":7,"startTime":1,"bootID":"x","done":true,"missing":[{"path":"/x","type":"c"}]}`))
	f.Add([]byte(`{"version":1e3}`))
	f.Add([]byte(`{"actions":{"a":[1]}}`))
	name := f.TempDir()
	d, err := OpenDir(name)
	if err == nil {
		f.Cleanup(func() { d.Close() })
	} else if err := os.Chmod(name, 0o700); err != nil {
		f.Fatal(err)
	} else if d, err = OpenDir(name); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(name, nameFor("a", "/b")+".json"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		e := lock(t, d, "a", "/b")
		defer func() { _ = e.Unlock() }()
		r, err := e.Read()
		if err != nil {
			return
		}
		if err := e.Write(r); err != nil {
			t.Fatalf("what could be read cannot be written: %v", err)
		}
		again, err := e.Read()
		if err != nil || again.ID != r.ID || again.Pid != r.Pid || len(again.Missing) != len(r.Missing) {
			t.Fatalf("%+v %v, was %+v", again, err, r)
		}
	})
}
