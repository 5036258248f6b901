package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oci-cdi-hook/hook/policy"
)

// TestRefusalCanBePasted puts what a refusal suggests into the configuration, in both
// forms, and asks again.
func TestRefusalCanBePasted(t *testing.T) {
	pod := policy.Container{Pod: true, Namespace: "ml"}
	tests := []struct {
		name     string
		config   string
		who      policy.Container
		requests []policy.Request
	}{
		{"pod, no rules", "", pod, []policy.Request{{Name: "v.example/x=GPU-1:2.3_x", Origin: policy.FromPod}, {Name: "v.example/y=1", Origin: policy.FromContainer}}},
		{"pod, rules of others", "[[allow]]\ndevices = [\"v.example/x=*\"]\nnamespaces = [\"other\"]\n", pod, []policy.Request{{Name: "v.example/x=1", Origin: policy.FromPod}}},
		{"host", "[[allow]]\ndevices = [\"v.example/y=*\"]\n", policy.Container{}, []policy.Request{{Name: "v.example/x=1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, map[string]string{"config.toml": tt.config, "conf.d/other.toml": ""})
			s := mustLoad(t, file)
			err := s.Policy.Check(tt.requests, tt.who)
			var denied *policy.DeniedError
			if !errors.As(err, &denied) {
				t.Fatalf("%v", err)
			}
			dir := filepath.Dir(file) + "/conf.d"
			text := err.Error()
			at := strings.Index(text, "into a .toml file of its own in "+dir+": ")
			if at < 0 {
				t.Fatalf("no place is named: %s", text)
			}
			line := text[strings.Index(text, "allow = ["):]
			for _, added := range []string{line, tt.config + strings.Join(denied.Lines(), "\n")} {
				if err := os.WriteFile(dir+"/new.toml", []byte(added+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := mustLoad(t, file).Policy.Check(tt.requests, tt.who); err != nil {
					t.Errorf("with %s: %v", added, err)
				}
			}
		})
	}
}
