package bed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// AnnotationKey is the key that the tests put their requests under.
const AnnotationKey = "cdi.k8s.io/x"

// Hook is the path of the program under test.
func Hook(t *testing.T) string {
	t.Helper()
	path := os.Getenv("OCI_CDI_HOOK")
	if path == "" {
		path = "../bin/oci-cdi-hook"
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		t.Fatalf("build it first, or name it in OCI_CDI_HOOK: %v", err)
	}
	return abs
}

// HookArgs are the arguments of the hook after its name, for a stage, with the tests' own folders.
func HookArgs(stage string) []string {
	return []string{stage, "--spec-dir", SpecDir, "--state-dir", StateDir, "--log-level", "warning", "--log-file", logFile}
}

// TakeLog reads and takes away what the hook logged.
func TakeLog(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(logFile)
	if os.IsNotExist(err) {
		return ""
	}
	if err == nil {
		err = os.Remove(logFile)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Annotate asks for devices, without anything that would answer.
func (b *Bundle) Annotate(names ...string) {
	b.Config.Annotations[AnnotationKey] = strings.Join(names, ",")
}

// Register makes the runtime call the hook, as an engine would after reading hooks.d.
func (b *Bundle) Register() {
	b.t.Helper()
	b.hooks().CreateRuntime = append(b.hooks().CreateRuntime, b.entry("createRuntime"))
}

// RegisterPrestart does so at the older stage.
func (b *Bundle) RegisterPrestart() {
	b.t.Helper()
	b.hooks().Prestart = append(b.hooks().Prestart, b.entry("prestart")) //nolint:staticcheck // the old stage is what is tested
}

func (b *Bundle) entry(stage string) specs.Hook {
	timeout := 120
	args := append([]string{"oci-cdi-hook"}, HookArgs(stage)...)
	return specs.Hook{Path: Hook(b.t), Args: args, Env: []string{"LC_ALL=C"}, Timeout: &timeout}
}

func (b *Bundle) hooks() *specs.Hooks {
	if b.Config.Hooks == nil {
		b.Config.Hooks = &specs.Hooks{}
	}
	return b.Config.Hooks
}

// RegisterFailing makes the runtime call a hook that does nothing but fail.
func (b *Bundle) RegisterFailing() {
	b.t.Helper()
	b.hooks().CreateRuntime = append(b.hooks().CreateRuntime, specs.Hook{Path: Tool(toolHook), Args: []string{"vendorhook", "quiet", "exit=1"}})
}

// OwnHook gives the config a createContainer hook that has nothing to do with CDI.
func (b *Bundle) OwnHook(args ...string) {
	b.t.Helper()
	b.hooks().CreateContainer = append(b.hooks().CreateContainer, specs.Hook{Path: Tool(toolHook), Args: args, Env: []string{"A=1"}})
}

// Records are the names in the hook's state folder, but for its lock.
func Records(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(StateDir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") {
			out = append(out, e.Name())
		}
	}
	return out
}
