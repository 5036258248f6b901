package policy

import (
	"strings"
	"testing"

	"tags.cncf.io/container-device-interface/pkg/parser"
)

// FuzzMatches compares accepted patterns with a matcher that is simple to read.
func FuzzMatches(f *testing.F) {
	for _, pattern := range []string{"*", "GPU-*", "a?c", "[0-9]*", "[^a]", `\*`, "[a-c-]", "**x", "", `[\]]`, "[]a]", "a[", "-"} {
		for _, name := range []string{"GPU-1:2.3_x", "abc", "0", "b", "*", "", "-", "xx"} {
			f.Add(pattern, name)
		}
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		pattern, full := "v.example/x="+glob, "v.example/x="+name
		const enough = 4 // the simple way takes exponential time
		if CheckDevice(pattern) != nil || !parser.IsQualifiedName(full) || strings.Count(glob, "*") > enough {
			return
		}
		want := simpleMatch([]rune(glob), []rune(name))
		for _, ifBroken := range []bool{true, false} {
			if got := matchesDevice(pattern, full, ifBroken); got != want {
				t.Errorf("%q, %q: %v, the simple way %v", glob, name, got, want)
			}
		}
		if matchesDevice(pattern, "w.example/x="+name, true) || matchesDevice(pattern, "v.example/X="+name, true) {
			t.Errorf("%q matches another kind", pattern)
		}
	})
}

// simpleMatch matches by recursion; the glob is well-formed.
func simpleMatch(glob, name []rune) bool {
	if len(glob) == 0 {
		return len(name) == 0
	}
	if glob[0] == '*' {
		return simpleMatch(glob[1:], name) || len(name) > 0 && simpleMatch(glob, name[1:])
	}
	if len(name) == 0 {
		return false
	}
	switch glob[0] {
	case '?':
		return simpleMatch(glob[1:], name[1:])
	case '[':
		in, rest := simpleClass(glob[1:], name[0])
		return in && simpleMatch(rest, name[1:])
	case '\\':
		glob = glob[1:]
	}
	return glob[0] == name[0] && simpleMatch(glob[1:], name[1:])
}

func simpleClass(glob []rune, r rune) (in bool, rest []rune) {
	negated := glob[0] == '^'
	if negated {
		glob = glob[1:]
	}
	next := func() rune {
		if glob[0] == '\\' {
			glob = glob[1:]
		}
		c := glob[0]
		glob = glob[1:]
		return c
	}
	for first := true; first || glob[0] != ']'; first = false {
		low := next()
		high := low
		if glob[0] == '-' {
			glob = glob[1:]
			high = next()
		}
		in = in || low <= r && r <= high
	}
	return in != negated, glob[1:]
}

// FuzzForged: whatever a pod's author writes, his pod is no host container, gets no
// namespace but its own, and none of it counts as the kubelet's.
func FuzzForged(f *testing.F) {
	f.Add("io.container.manager", "libpod", "io.kubernetes.cri-o.Annotations", `{"cdi.k8s.io/x":"v.example/x=y"}`)
	f.Add("io.kubernetes.pod.namespace", "kube-system", "io.kubernetes.cri-o.Namespace", "kube-system")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		const asked = "cdi.k8s.io/x"
		annotations := map[string]string{asked: "v.example/x=y", key1: value1, key2: value2}
		if strings.HasPrefix(key1+key2, asked) {
			return
		}
		// In the order of CRI-O: the pod's, its own, the container's, the kubelet's labels.
		annotations["io.container.manager"] = "cri-o"
		annotations["io.kubernetes.cri-o.ContainerType"] = "container"
		annotations["io.kubernetes.cri-o.Annotations"] = `{"io.kubernetes.container.hash":"1"}`
		annotations["io.kubernetes.container.hash"] = "1"
		annotations["io.kubernetes.pod.namespace"] = "mine"
		who := WhoIs(annotations)
		if who != (Container{Pod: true, Namespace: "mine"}) {
			t.Errorf("%+v", who)
		}
		own := ByOrigin(annotations, who)[FromContainer]
		if len(own) != 1 || own["io.kubernetes.container.hash"] != "1" {
			t.Errorf("the kubelet's: %v", own)
		}
	})
}
