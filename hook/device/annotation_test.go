package device

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func TestRequested(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		container   string
		want        []string
	}{
		{"nothing", nil, "", nil},
		{"other keys", map[string]string{"io.example/x": "v.example/dev=a", "cdi.k8s.io": "v.example/dev=a"}, "", nil},
		{"one", map[string]string{"cdi.k8s.io/x": "v.example/dev=a"}, "", []string{"v.example/dev=a"}},
		{"two in order", map[string]string{"cdi.k8s.io/x": "v.example/dev=b,v.example/dev=a"}, "", []string{"v.example/dev=b", "v.example/dev=a"}},
		{"keys sorted", map[string]string{"cdi.k8s.io/z": "v.example/dev=a", "cdi.k8s.io/b": "v.example/dev=z", "cdi.k8s.io/m": "v.example/dev=m"}, "",
			[]string{"v.example/dev=z", "v.example/dev=m", "v.example/dev=a"}},
		{"repeats kept", map[string]string{"cdi.k8s.io/x": "v.example/dev=a,v.example/dev=b,v.example/dev=a"}, "",
			[]string{"v.example/dev=a", "v.example/dev=b", "v.example/dev=a"}},
		{"characters of names", map[string]string{"cdi.k8s.io/x": "rdma/hca_shared-a.b=0:1_2-3.4"}, "", []string{"rdma/hca_shared-a.b=0:1_2-3.4"}},
		{"this container", map[string]string{"cdi.k8s.io/container.web": "v.example/dev=a"}, "web", []string{"v.example/dev=a"}},
		{"another container", map[string]string{"cdi.k8s.io/container.web": "v.example/dev=a"}, "db", nil},
		{"another container, malformed", map[string]string{"cdi.k8s.io/container.web": "???"}, "db", nil},
		{"prefix of the name", map[string]string{"cdi.k8s.io/container.web": "v.example/dev=a"}, "we", nil},
		{"container of unknown name", map[string]string{"cdi.k8s.io/container.web": "v.example/dev=a"}, "", []string{"v.example/dev=a"}},
		{"a plugin called container.x", map[string]string{"cdi.k8s.io/container.x_1": "v.example/dev=a"}, "web", []string{"v.example/dev=a"}},
		{"pod and container", map[string]string{"cdi.k8s.io/container.web": "v.example/dev=a", "cdi.k8s.io/gpu": "v.example/dev=b"}, "web",
			[]string{"v.example/dev=a", "v.example/dev=b"}},
		{"a key of two prefixes counts once", map[string]string{"cdi.k8s.io/x": "v.example/dev=a"}, "", []string{"v.example/dev=a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Requested(tt.annotations, []string{"cdi.k8s.io/", "cdi.k8s.io/x"}, tt.container)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "names", got, tt.want)
		})
	}
}

func TestRequestedMalformed(t *testing.T) {
	tests := []struct {
		value string
		bad   []string // pieces
		in    []string // in the text
	}{
		{"", []string{""}, []string{"empty"}},
		{",", []string{"", ""}, nil},
		{"v.example/dev=a,", []string{""}, []string{"empty"}},
		{",v.example/dev=a", []string{""}, []string{"empty"}},
		{"v.example/dev=a, v.example/dev=b", []string{" v.example/dev=b"}, []string{`" v.example/dev=b"`, "white space"}},
		{"v.example/dev=a\n", []string{"v.example/dev=a\n"}, []string{`"v.example/dev=a\n"`}},
		{"/dev/null", []string{"/dev/null"}, []string{`"/dev/null"`, "missing vendor"}},
		{"v.example/dev:a", []string{"v.example/dev:a"}, []string{`"v.example/dev:a"`}},
		{"v.example/dev=", []string{"v.example/dev="}, nil},
		{"v.example=a", []string{"v.example=a"}, nil},
		{"v.example/a/b=c", []string{"v.example/a/b=c"}, []string{"invalid class"}},
		{"3dfx.example/gpu=a", []string{"3dfx.example/gpu=a"}, []string{"invalid vendor", "should start with letter"}},
		{"v.example/dev=-a,x,v.example/dev=ok,y", []string{"v.example/dev=-a", "x", "y"}, []string{`"v.example/dev=-a"`, `"x"`, `"y"`}},
		{"v.example/dev=a\x1b[31mb", []string{"v.example/dev=a\x1b[31mb"}, []string{`\x1b[31m`}},
		{"v.example/dev=a\u202eb", []string{"v.example/dev=a\u202eb"}, []string{`\u202e`}},
		{"v.example/dev=\xff", []string{"v.example/dev=\xff"}, []string{`\xff`}},
		{strings.Repeat("x", 1<<20), []string{strings.Repeat("x", 1<<20)}, []string{`xxx"...`}},
		{strings.Repeat("x,", 1<<16), nil, []string{"and 65505 more"}},
	}
	for _, tt := range tests {
		t.Run(cut(tt.value, 40), func(t *testing.T) {
			names, err := Requested(map[string]string{"cdi.k8s.io/the-key": tt.value}, []string{DefaultPrefix}, "")
			var refusal *RequestError
			if !errors.As(err, &refusal) {
				t.Fatalf("got %q, %v, want a RequestError", names, err)
			}
			if names != nil || refusal.ExitCode() != 3 {
				t.Errorf("names %q, exit code %d", names, refusal.ExitCode())
			}
			if tt.bad != nil {
				var bad []string
				for _, item := range refusal.Items {
					bad = append(bad, item.Name)
				}
				wantEqual(t, "bad pieces", bad, tt.bad)
			}
			checkLine(t, err.Error())
			wantIn(t, err.Error(), append(tt.in, "cdi.k8s.io/the-key")...)
		})
	}
}

func TestRequestedNamesEveryKey(t *testing.T) {
	_, err := Requested(map[string]string{
		"cdi.k8s.io/z": "bad1", "cdi.k8s.io/a": "bad2,v.example/dev=ok", "cdi.k8s.io/\nkey": "bad3", "cdi.k8s.io/m": "v.example/dev=ok",
	}, []string{DefaultPrefix}, "")
	if err == nil {
		t.Fatal("no error")
	}
	checkLine(t, err.Error())
	wantIn(t, err.Error(), "cdi.k8s.io/z", "bad1", "cdi.k8s.io/a", "bad2", `"cdi.k8s.io/\nkey"`, "bad3")
	wantNotIn(t, err.Error(), "cdi.k8s.io/m", "dev=ok")
}

func TestRequestedNothingAllocatesNothing(t *testing.T) {
	annotations := map[string]string{"io.podman.annotations.label": "x", "org.example/y": "z"}
	prefixes := []string{DefaultPrefix}
	if n := testing.AllocsPerRun(100, func() { _, _ = Requested(annotations, prefixes, "web") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRequested compares with the library: the same values are accepted, the
// same names come out.
func FuzzRequested(f *testing.F) {
	for _, value := range []string{"v.example/dev=a", "v.example/dev=a,v.example/dev=b", "a, b", "a,", "", "/dev/null", "v.example/dev=a\n", "x/y=\xff"} {
		f.Add("cdi.k8s.io/k", value, "cdi.k8s.io/l", "v.example/dev=c")
	}
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		annotations := map[string]string{key1: value1, key2: value2}
		_, want, wantErr := cdi.ParseAnnotations(annotations)
		got, err := Requested(annotations, []string{DefaultPrefix}, "")
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, library: %v", annotations, err, wantErr)
		}
		if err != nil {
			checkLine(t, err.Error())
			return
		}
		slices.Sort(want)
		slices.Sort(got)
		wantEqual(t, "names", got, want)
	})
}
