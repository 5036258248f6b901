package integration

import (
	"testing"

	"oci-cdi-hook/integration/bed"
)

func asked(value string) func(*testing.T, map[string]any) string {
	return with(map[string]any{"annotations": map[string]string{bed.AnnotationKey: value}})
}

func TestBadRequest(t *testing.T) {
	feedAll(t, []feed{
		{name: "blank after the comma", stdin: asked("v.example/dev=a, v.example/dev=a"), code: refused, words: []string{" v.example/dev=a", bed.AnnotationKey}},
		{name: "comma at the end", stdin: asked("v.example/dev=a,"), code: refused, words: []string{bed.AnnotationKey}},
		{name: "empty", stdin: asked(""), code: refused, words: []string{bed.AnnotationKey}},
		{name: "a path", stdin: asked("/dev/null"), code: refused, words: []string{"/dev/null"}},
		{name: "a colon", stdin: asked("v.example/dev:a"), code: refused, words: []string{"v.example/dev:a"}},
		{name: "newline at the end", stdin: asked("v.example/dev=a\n"), code: refused, words: []string{`a\n`}},
		{name: "control characters", stdin: asked("v.example/dev=\x1b[31m"), code: refused, words: []string{`\x1b`}},
		{name: "every bad piece is named", stdin: asked("foo,v.example/dev=a,b=c"), code: refused, words: []string{"foo", "b=c"}},
		{
			name: "the second key", code: refused, words: []string{"cdi.k8s.io/z", "bad"},
			stdin: with(map[string]any{"annotations": map[string]string{bed.AnnotationKey: "v.example/dev=a", "cdi.k8s.io/z": "bad"}}),
		},
		{name: "unknown name", stdin: asked("v.example/dev=b"), code: refused, words: []string{"v.example/dev=b", bed.SpecDir, "v.example/dev=a"}},
		{name: "unknown kind", stdin: asked("w.example/dev=a"), code: refused, words: []string{"w.example/dev=a", bed.SpecDir}},
		{name: "several unknown names", stdin: asked("v.example/dev=a,v.example/dev=zz,v.example/dev=yy"), code: refused, words: []string{"v.example/dev=zz", "v.example/dev=yy"}},
	})
}
