package policy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func deniedBy(t *testing.T, p Policy, requests []Request, who Container) *DeniedError {
	t.Helper()
	err := p.Check(requests, who)
	var denied *DeniedError
	if !errors.As(err, &denied) {
		t.Fatalf("got %v, want a DeniedError", err)
	}
	return denied
}

func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}

func TestDeniedErrorSaysWhatToAdd(t *testing.T) {
	p := Policy{AddTo: "/etc/oci-cdi-hook/conf.d"}
	e := deniedBy(t, p, append(inPod("nvidia.com/gpu=0", "v.example/x=y"), inContainer("k.example/z=1")...), ml)
	wantIn(t, e.Error(),
		`device nvidia.com/gpu=0: asked for on the pod, in a pod of namespace "ml" to which no [[allow]] gives it`,
		"device v.example/x=y: ", "device k.example/z=1: asked for on the container",
		`into a .toml file of its own in /etc/oci-cdi-hook/conf.d: allow = [`+
			`{devices = ["k.example/z=1"], namespaces = ["ml"], origin = "container"}, `+
			`{devices = ["nvidia.com/gpu=0", "v.example/x=y"], namespaces = ["ml"]}]`)
	want := []string{
		"[[allow]]", `devices = ["k.example/z=1"]`, `namespaces = ["ml"]`, `origin = "container"`,
		"[[allow]]", `devices = ["nvidia.com/gpu=0", "v.example/x=y"]`, `namespaces = ["ml"]`,
	}
	if !slices.Equal(e.Lines(), want) {
		t.Errorf("lines %q", e.Lines())
	}
}

func TestDeniedErrorOnAHost(t *testing.T) {
	p := Policy{Allow: []Rule{{Devices: gpu}}}
	e := deniedBy(t, p, inContainer("v.example/x=y"), hostGo)
	wantIn(t, e.Error(), "device v.example/x=y: there are [[allow]] rules for containers that are no pods, and none gives it",
		`allow = [{devices = ["v.example/x=y"]}]`)
}

func TestDeniedErrorNamesTheDenyingRule(t *testing.T) {
	p := Policy{Deny: []Rule{{Devices: gpu, Namespaces: []string{"m*"}, Origin: FromPod, Where: "/etc/oci-cdi-hook/config.toml, deny 1"}}}
	e := deniedBy(t, p, inPod("nvidia.com/gpu=0"), ml)
	wantIn(t, e.Error(), `device nvidia.com/gpu=0: denied by [[deny]] devices = ["nvidia.com/gpu=*"], namespaces = ["m*"], origin = "pod" (/etc/oci-cdi-hook/config.toml, deny 1)`,
		"a [[deny]] wins over every [[allow]]")
	if e.Lines() != nil || strings.Contains(e.Error(), "to allow it") {
		t.Errorf("a rule is suggested that would not help: %v", e)
	}
}

func TestDeniedErrorSuggestsNoGlobs(t *testing.T) {
	for _, namespace := range []string{"*", "team-*", "a\nb", `a"]`, "[a]", "", strings.Repeat("x", 300)} {
		e := deniedBy(t, Policy{}, inPod("v.example/x=y"), Container{true, namespace})
		if e.Lines() != nil || strings.Contains(e.Error(), "to allow it") {
			t.Errorf("namespace %q: %v", namespace, e)
		}
	}
	wantIn(t, deniedBy(t, Policy{}, inPod("v.example/x=y"), noName).Error(),
		"in a pod without io.kubernetes.pod.namespace, which no [[allow]] can match", "set the annotation io.kubernetes.pod.namespace")
}

// TestSuggestionHelps adds what is suggested and asks again.
func TestSuggestionHelps(t *testing.T) {
	tests := []struct {
		who      Container
		requests []Request
		allow    []Rule
	}{
		{ml, append(inPod("v.example/x=y", "v.example/x=GPU-1:2.3_x"), inContainer("v.example/k=1", "v.example/x=y")...), nil},
		{hostGo, inContainer("v.example/x=y"), []Rule{{Devices: gpu}}},
	}
	for _, tt := range tests {
		p := Policy{Allow: tt.allow}
		e := deniedBy(t, p, tt.requests, tt.who)
		p.Allow = append(p.Allow, e.missing()...)
		if err := p.Check(tt.requests, tt.who); err != nil {
			t.Error(err)
		}
		for _, other := range []Container{{true, "other"}, noName} {
			if err := p.Check(tt.requests, other); err == nil {
				t.Errorf("%+v may have it too", other)
			}
		}
		if err := p.Check(inPod("v.example/k=1"), ml); err == nil {
			t.Error("what a kubelet may ask for, a pod's author may too")
		}
	}
}

func TestDeniedErrorIsBounded(t *testing.T) {
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("v.example/x=%d%s", i, strings.Repeat("y", 2000)))
	}
	text := deniedBy(t, Policy{}, inPod(names...), ml).Error()
	if len(text) > 32<<10 || !strings.Contains(text, "and 4968 more") {
		t.Errorf("%d bytes: %s", len(text), text[:1000])
	}
	text = deniedBy(t, Policy{}, inContainer("\x1b[31m\u202e\n"), Container{true, "\x1b\n"}).Error()
	for _, r := range text {
		if !unicode.IsPrint(r) {
			t.Errorf("%q in %q", r, text)
		}
	}
}

func TestCheckSources(t *testing.T) {
	links := map[string]string{"/usr/lib64": "/usr/lib", "/usr/lib64/x.so": "/usr/lib/x.so", "/usr/lib/escape": "/root/secret", "/dev/../etc": "/etc"}
	resolve := func(name string) (string, error) {
		if strings.Contains(name, "missing") {
			return "", os.ErrNotExist
		}
		if target, ok := links[name]; ok {
			return target, nil
		}
		return name, nil
	}
	tests := []struct {
		trees  []string
		path   string
		denied bool
	}{
		{nil, "/root/secret", false},
		{[]string{}, "/missing", false},
		{[]string{"/usr/lib"}, "/usr/lib", false},
		{[]string{"/usr/lib"}, "/usr/lib/a/b.so", false},
		{[]string{"/usr/lib"}, "/usr/lib64/x.so", false},
		{[]string{"/usr/lib64"}, "/usr/lib/x.so", false},
		{[]string{"/usr/lib"}, "/usr/libexec/x", true},
		{[]string{"/usr/lib"}, "/usr", true},
		{[]string{"/usr/lib"}, "/usr/lib/escape", true},
		{[]string{"/dev"}, "/dev/../etc", true},
		{[]string{"/missing"}, "/usr/lib", true},
		{[]string{"/missing", "/usr"}, "/usr/lib", false},
		{[]string{"/"}, "/anything", false},
		{[]string{"/"}, "/", false},
		{[]string{"/opt"}, "/", true},
	}
	for _, tt := range tests {
		p := Policy{Sources: tt.trees}
		err := p.CheckSources([]Source{{"v.example/x=y", tt.path}}, resolve)
		if (err != nil) != tt.denied {
			t.Errorf("%s from %q: %v", tt.path, tt.trees, err)
		}
		var denied *SourceError
		if err != nil && (!errors.As(err, &denied) || denied.ExitCode() != 3) {
			t.Errorf("%v is no SourceError", err)
		}
	}
	p := Policy{Sources: []string{"/usr/lib"}}
	if err := p.CheckSources([]Source{{"v.example/x=y", "/missing"}}, resolve); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing source: %v", err)
	}
	err := p.CheckSources([]Source{{"v.example/x=y", "/usr/lib/escape"}, {"v.example/x=z", "/usr/lib/fine"}}, resolve)
	if err == nil {
		t.Fatal("no error")
	}
	wantIn(t, err.Error(), "device v.example/x=y: mount of /usr/lib/escape, which is /root/secret: not below", `sources = ["/usr/lib", "/root/secret"]`)
	if strings.Contains(err.Error(), "fine") {
		t.Errorf("%v", err)
	}
}
