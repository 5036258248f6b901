package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ran is what a run of the program left.
type ran struct {
	code     int
	out, err string
}

// runWith runs the program as a shell would. A stage that fails leaves a word of it, which
// must not be in the machine's own state directory.
func runWith(t testing.TB, stdin string, args ...string) ran {
	t.Helper()
	if len(args) > 0 && (isStage(args[0]) || args[0] == filterStage) && !slices.Contains(args, "--state-dir") {
		args = slices.Concat(args[:1], []string{"--state-dir", filepath.Join(t.TempDir(), "state")}, args[1:])
	}
	var out, complaints bytes.Buffer
	code := run(args, streams{in: strings.NewReader(stdin), out: &out, err: &complaints})
	return ran{code, out.String(), complaints.String()}
}

// specs makes a directory of spec files.
func specs(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const askingState = `{"ociVersion":"1.0.2","id":"c1","pid":4194303,"bundle":"/none","annotations":{"cdi.k8s.io/x":"v.example/dev=a"}}`

func TestExitCodes(t *testing.T) {
	dir := specs(t, map[string]string{"v.yaml": "cdiVersion: 0.6.0\nkind: v.example/dev\ndevices:\n- name: a\n  containerEdits: {env: [A=1]}\n"})
	flags := []string{"--spec-dir", dir, "--log-file", filepath.Join(t.TempDir(), "log"), "--state-dir", filepath.Join(t.TempDir(), "state")}
	asks := func(value string) string { return strings.Replace(askingState, "v.example/dev=a", value, 1) }
	for name, c := range map[string]struct {
		args      []string
		stdin     string
		code      int
		complaint string
	}{
		"nothing asked":       {append([]string{"createRuntime"}, flags...), `{"id":"c1","pid":0}`, 0, ""},
		"prestart":            {append([]string{"prestart"}, flags...), `{}`, 0, ""},
		"poststart, nothing":  {append([]string{"poststart"}, flags...), askingState, 0, ""},
		"poststop, nothing":   {append([]string{"poststop"}, flags...), askingState, 0, ""},
		"version":             {[]string{"version"}, "", 0, ""},
		"version flag":        {[]string{"--version"}, "", 0, ""},
		"help":                {[]string{"help"}, "", 0, ""},
		"help flag":           {[]string{"--help"}, "", 0, ""},
		"help of a stage":     {[]string{"createRuntime", "--help"}, "", 0, ""},
		"help, then a stage":  {[]string{"help", "createRuntime"}, "", 0, ""},
		"help of plan":        {[]string{"plan", "-h"}, "", 0, ""},
		"no bundle":           {append([]string{"createRuntime"}, flags...), askingState, 1, "/none/config.json"},
		"empty stdin":         {append([]string{"createRuntime"}, flags...), "", 1, "state: empty document"},
		"truncated":           {append([]string{"createRuntime"}, flags...), askingState[:30], 1, "state: not JSON"},
		"poststop, no id":     {append([]string{"poststop"}, flags...), `{}`, 1, "state: id"},
		"no config to plan":   {append([]string{"plan", "v.example/dev=a", "--config", "/none/c"}, flags...), "", 1, "/none/c"},
		"no bundle to plan":   {append([]string{"plan", "v.example/dev=a", "--bundle", "/none"}, flags...), "", 1, "/none/config.json"},
		"no configuration":    {append([]string{"list", "--config-file", "/none/x.toml"}, flags...), "", 1, "/none/x.toml"},
		"no verb":             {nil, "", 2, "a verb is missing"},
		"unknown verb":        {[]string{"createNothing"}, "", 2, "createNothing"},
		"empty verb":          {[]string{""}, "", 2, "unknown command"},
		"unknown flag":        {[]string{"list", "--nope"}, "", 2, "--nope"},
		"unknown stage flag":  {[]string{"createRuntime", "--nope"}, "", 2, "--nope"},
		"stage with a word":   {[]string{"createRuntime", "word"}, "", 2, "word"},
		"list with a word":    {[]string{"list", "word"}, "", 2, "word"},
		"plan of nothing":     {[]string{"plan"}, "", 2, "at least 1 arg"},
		"flag without value":  {[]string{"createRuntime", "--deadline"}, "", 2, "--deadline"},
		"no duration":         {[]string{"createRuntime", "--deadline", "soon"}, "", 2, "soon"},
		"negative duration":   {[]string{"createRuntime", "--deadline", "-1s"}, "", 2, "-1s"},
		"relative spec dir":   {[]string{"list", "--spec-dir", "rel"}, "", 2, "rel"},
		"empty spec dir":      {[]string{"list", "--spec-dir", ""}, "", 2, "--spec-dir"},
		"relative log":        {[]string{"createRuntime", "--log-file", "log"}, "", 2, "log"},
		"relative state dir":  {[]string{"createRuntime", "--state-dir", "s"}, "", 2, "absolute"},
		"relative config":     {[]string{"plan", "--config-file", "c", "a"}, "", 2, "absolute"},
		"no level":            {[]string{"createRuntime", "--log-level", "loud"}, "", 2, `"loud"`},
		"config and bundle":   {[]string{"plan", "v.example/dev=a", "--config", "/x", "--bundle", "/y"}, "", 2, "bundle"},
		"no shell":            {[]string{"completion"}, "", 2, "arg"},
		"unknown shell":       {[]string{"completion", "nope"}, "", 2, "nope"},
		"help of no verb":     {[]string{"help", "nope"}, "", 2, "nope"},
		"unknown device":      {append([]string{"createRuntime"}, flags...), asks("v.example/dev=b"), 1, "/none/config.json"},
		"malformed":           {append([]string{"createRuntime"}, flags...), asks("v.example/dev=a,"), 3, "cdi.k8s.io/x"},
		"malformed, two":      {append([]string{"prestart"}, flags...), asks("x, /dev/null"), 3, `" /dev/null"`},
		"unknown to plan":     {append([]string{"plan", "v.example/dev=zz", "v.example/dev=yy"}, flags...), "", 3, "v.example/dev=yy"},
		"no name to plan":     {append([]string{"plan", "a name"}, flags...), "", 3, `a name`},
		"nothing of it to do": {append([]string{"plan", "v.example/dev=a"}, flags...), "", 3, "nothing of it can be applied"},
		"supervise, no order": {[]string{"supervise-vendor-hooks"}, "", 1, "EOF"},
		"exec, too little":    {[]string{"exec-vendor-hook", "/"}, "", 1, "usage"},
	} {
		t.Run(name, func(t *testing.T) {
			r := runWith(t, c.stdin, c.args...)
			if r.code != c.code || !strings.Contains(r.err, c.complaint) {
				t.Errorf("exit %d, %q; want %d, %q", r.code, r.err, c.code, c.complaint)
			}
			wantOneLine(t, r)
		})
	}
}

// wantOneLine checks that a failure, and only a failure, says one line on stderr.
func wantOneLine(t *testing.T, r ran) {
	t.Helper()
	lines := strings.Count(r.err, "\n")
	if r.code != 0 && (lines != 1 || !strings.HasPrefix(r.err, "oci-cdi-hook: ")) || r.code == 0 && r.err != "" {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
}

func TestOutput(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {}} {
		r := runWith(t, "", args...)
		for _, verb := range []string{"createRuntime", "prestart", "poststart", "poststop", "precreate", "list", "plan", "status", "verify", "version"} {
			if !strings.Contains(r.out, "\n  "+verb+" ") {
				t.Errorf("%q: %s is not among the verbs: %s", args, verb, r.out)
			}
		}
		if strings.Contains(r.out, "supervise-vendor-hooks") || strings.Contains(r.out, "exec-vendor-hook") {
			t.Errorf("%q: verbs for nobody are shown", args)
		}
	}
	for _, verb := range []string{"createRuntime", "list", "plan", "status", "verify"} {
		r := runWith(t, "", verb, "--help")
		for _, flag := range []string{"--spec-dir", "--state-dir", "--config-file", "--log-level", "--log-file"} {
			if !strings.Contains(r.out, flag) {
				t.Errorf("%s --help has no %s", verb, flag)
			}
		}
	}
}

func TestStagesLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, stdin := range []string{`{"id":"c1"}`, strings.Replace(askingState, "cdi.k8s.io", "other", 1)} {
		if r := runWith(t, stdin, "createRuntime", "--log-file", log, "--log-level", "debug"); r != (ran{}) {
			t.Errorf("%+v", r)
		}
	}
	if text, err := os.ReadFile(log); err == nil {
		t.Errorf("a container that asks for nothing is logged: %s", text)
	}
	r := runWith(t, askingState, "createRuntime", "--log-file", log)
	wantOneLine(t, r)
	text, err := os.ReadFile(log)
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Fatalf("%s %v", text, err)
	}
	reason := strings.TrimSpace(strings.TrimPrefix(r.err, "oci-cdi-hook: "))
	for _, want := range []string{" error: ", reason, `CONTAINER_ID="c1"`, `OCI_STAGE="createRuntime"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("log %s is without %s", text, want)
		}
	}
}

// A configuration that is wrong is an error only where a container may ask for something.
func TestFlagsWinOverTheConfiguration(t *testing.T) {
	of := func(name string) string {
		return specs(t, map[string]string{"v.yaml": "cdiVersion: 0.6.0\nkind: v.example/dev\ndevices:\n- name: " + name + "\n  containerEdits: {env: [A=1]}\n"})
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "spec-dirs = [%q]\n", of("configured")), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := runWith(t, "", "list", "--config-file", file); r.code != 0 || !strings.Contains(r.out, "=configured") {
		t.Errorf("%+v", r)
	}
	r := runWith(t, "", "list", "--config-file", file, "--spec-dir", of("flagged"))
	if r.code != 0 || !strings.Contains(r.out, "=flagged") || strings.Contains(r.out, "=configured") {
		t.Errorf("%+v", r)
	}
}

func TestConfigurationIsReadWhenNeeded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("nonsense = [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	if r := runWith(t, `{"id":"c1"}`, "createRuntime", "--config-file", file, "--log-file", log); r.code != 0 {
		t.Errorf("%+v", r)
	}
	r := runWith(t, askingState, "createRuntime", "--config-file", file, "--log-file", log)
	if r.code != 1 || !strings.Contains(r.err, file) {
		t.Errorf("%+v", r)
	}
	wantOneLine(t, r)
}

func FuzzArgs(f *testing.F) {
	f.Add("createRuntime --deadline -1s --spec-dir", `{"id":"a"}`)
	f.Add("plan v.example/dev=a --json --config", "")
	f.Add("help plan list --log-level", "{")
	f.Add("__complete plan ", "")
	f.Add("completion bash", "null")
	dir := specs(f, nil)
	f.Fuzz(func(t *testing.T, line, stdin string) {
		args := strings.Fields(line)
		for i, a := range args {
			// What would become another program, or write where it is told to.
			if strings.Contains(a, "exec-") || strings.Contains(a, "-file") || strings.Contains(a, "-dir") {
				args[i] = "x"
			}
		}
		if len(args) > 0 {
			args = append(args, "--spec-dir", dir, "--log-file", filepath.Join(dir, "log"), "--state-dir", filepath.Join(dir, "state"))
		}
		r := runWith(t, stdin, args...)
		if strings.Contains(r.err, "internal error") || r.code < 0 || r.code > 3 {
			t.Errorf("%q: %+v", args, r)
		}
		if r.code != 0 && (strings.Count(r.err, "\n") != 1 || !strings.HasSuffix(r.err, "\n")) {
			t.Errorf("%q: stderr %q", args, r.err)
		}
	})
}
