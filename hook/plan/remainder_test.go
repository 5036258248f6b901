package plan

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func mustRead(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRemainder(t *testing.T) {
	p := mustBuild(t, mustRead(t, "testdata/rest.yaml"), Container{IgnoreEnv: quiet}, "v.example/dev=a")
	r := RemainderOf(p)
	if have := strings.Join(r.PodmanFlags(), " "); have != "--env LIBRARY=/opt/lib --env A=1 --env EMPTY= --group-add 44 --group-add 45" {
		t.Errorf("%s", have)
	}
	want := []string{
		"spec:", "  securityContext:", "    supplementalGroups: [44, 45]", "  containers:", "  - env:",
		`    - {name: "LIBRARY", value: "/opt/lib"}`, `    - {name: "A", value: "1"}`, `    - {name: "EMPTY", value: ""}`,
	}
	if have := r.PodYAML(); !slices.Equal(have, want) {
		t.Errorf("%q", have)
	}
	if r.Empty() || !RemainderOf(&Plan{}).Empty() {
		t.Error("empty is not told")
	}
	quietOnly := &Plan{Unsupported: []Unsupported{{Edit: "env", Value: "A=1", Quiet: true}, {Edit: "hooks", Value: "x"}}}
	if !RemainderOf(quietOnly).Empty() {
		t.Error("nothing of this can be set")
	}
}

var hostile = []string{
	"A=", "A=1", "A=b c", "A='", `A="`, `A=\`, "A=$(id)", "A=`id`", "A=$HOME", "A=;&|<>()!#*?[]{}~", "A=line\nline", "A=\ttab\r",
	"A=: - {}", "A=*x", "A=&x", "A=null", "A=yes", "A=0x1", "A=%s", "A=ä€𝄞", "A=\u0085\u2028\u2029\ufeff", "A=\x7f\x01", "A==x=y", "A= ", "A=~/x",
}

func TestPodmanFlagsSurviveAShell(t *testing.T) {
	flags := Remainder{Env: hostile}.PodmanFlags()
	out, err := exec.Command("/bin/sh", "-c", `printf '%s\0' `+strings.Join(flags, " ")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range hostile {
		want = append(want, "--env", e)
	}
	if have := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
}

func TestPodYAMLIsYAML(t *testing.T) {
	lines := Remainder{Env: hostile, GIDs: []string{"44", "4294967295"}}.PodYAML()
	var pod struct {
		Spec struct {
			SecurityContext struct {
				SupplementalGroups []int64 `yaml:"supplementalGroups"`
			} `yaml:"securityContext"`
			Containers []struct {
				Env []struct{ Name, Value string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &pod); err != nil {
		t.Fatalf("%v in %q", err, lines)
	}
	if !slices.Equal(pod.Spec.SecurityContext.SupplementalGroups, []int64{44, 4294967295}) || len(pod.Spec.Containers) != 1 {
		t.Errorf("%+v", pod)
	}
	for i, e := range pod.Spec.Containers[0].Env {
		// The kubelet makes $ of $$, and leaves what is then no reference.
		if have := e.Name + "=" + strings.ReplaceAll(e.Value, "$$", "$"); have != hostile[i] {
			t.Errorf("have %q, want %q", have, hostile[i])
		}
	}
	for _, line := range lines {
		if strings.Contains(line, "\n") {
			t.Errorf("line %q", line)
		}
	}
}
