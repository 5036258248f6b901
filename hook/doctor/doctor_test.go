package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ours is an entry of hooks.d as it is installed, with parts replaced.
func ours(replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`{
  "version": "1.0.0",
  "hook": {"path": "/usr/libexec/oci/hooks.d/oci-cdi-hook", "args": ["oci-cdi-hook", "createRuntime"], "timeout": 120},
  "when": {"annotations": {"^cdi\\.k8s\\.io/": "(?s)^.*$"}},
  "stages": ["createRuntime"]
}`)
}

func later(stage string) string { return ours(`["createRuntime"]`, `["`+stage+`"]`) }

const (
	program644 = "\x00644" // prefix of a file that is not to be executable
	shared     = "/usr/share/containers/oci/hooks.d/"
	binary     = "/usr/libexec/oci/hooks.d/oci-cdi-hook"
)

// installed is a host with podman, CRI-O and the hook, all in order.
func installed(changes map[string]string) map[string]string {
	files := map[string]string{
		"/usr/bin/podman":         "#!/bin/sh\necho podman version 9.9\n",
		"/usr/bin/crio":           "#!/bin/sh\necho crio version 9.9\necho and more\n",
		"/usr/bin/nsenter":        "#!/bin/sh\n",
		binary:                    "#!/bin/sh\n",
		shared + "hook.json":      ours(),
		shared + "poststart.json": later("poststart"),
		shared + "poststop.json":  later("poststop"),
	}
	for name, text := range changes {
		files[name] = text
		if text == "" {
			delete(files, name)
		}
	}
	return files
}

func hostOf(t *testing.T, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		mode := os.FileMode(0o755)
		if rest, ok := strings.CutPrefix(text, program644); ok {
			text, mode = rest, 0o644
		}
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return Host{Root: root, Path: "/usr/sbin:/usr/bin", Prefixes: []string{"cdi.k8s.io/"}, SpecDirs: []string{"/etc/cdi", "/var/run/cdi"}}
}

// lines are the findings of a state, without the root of the test.
func lines(h Host, found Findings, state State) []string {
	var all []string
	for _, f := range found {
		if f.State == state {
			all = append(all, strings.ReplaceAll(f.Subject+": "+f.Text, h.Root, ""))
		}
	}
	return all
}

func TestEnginesInOrder(t *testing.T) {
	h := hostOf(t, installed(nil))
	found := h.Engines(context.Background())
	if bad := append(lines(h, found, Warning), lines(h, found, Fault)...); len(bad) > 0 || found.Faulty() {
		t.Errorf("%q", bad)
	}
	text := strings.Join(lines(h, found, OK), "\n")
	for _, want := range []string{
		"engine: /usr/bin/podman: podman version 9.9", "engine: /usr/bin/crio: crio version 9.9\n",
		"podman hooks: " + shared + "hook.json: createRuntime, runs " + binary, "crio hooks: " + shared + "poststop.json: poststop",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestEngines(t *testing.T) {
	onlyPodman := func(changes map[string]string) map[string]string {
		changes["/usr/bin/crio"] = ""
		return installed(changes)
	}
	for name, c := range map[string]struct {
		files            map[string]string
		faults, warnings []string // what the lines contain, in order
	}{
		"not installed": {onlyPodman(map[string]string{shared + "hook.json": "", shared + "poststart.json": "", shared + "poststop.json": ""}),
			[]string{"none of oci-cdi-hook in /usr/share/containers/oci/hooks.d"}, nil},
		"binary gone":           {onlyPodman(map[string]string{binary: "", shared + "poststart.json": "", shared + "poststop.json": ""}), []string{"no such file"}, []string{"no poststart entry", "no poststop entry"}},
		"binary not executable": {onlyPodman(map[string]string{binary: program644 + "x", shared + "poststart.json": "", shared + "poststop.json": ""}), []string{"not executable"}, []string{"no poststart", "no poststop"}},
		"no poststop":           {onlyPodman(map[string]string{shared + "poststop.json": ""}), nil, []string{"no poststop entry"}},
		"gives nothing":         {onlyPodman(map[string]string{shared + "hook.json": ""}), []string{"no entry gives devices"}, nil},
		"never":                 {onlyPodman(map[string]string{shared + "hook.json": ours(`"when": {`, `"when": {"always": false, `)}), []string{"does not match"}, nil},
		"other annotation":      {onlyPodman(map[string]string{shared + "hook.json": ours(`^cdi`, `^gpu`)}), []string{"does not match a container with the annotation cdi.k8s.io/x"}, nil},
		"no timeout":            {onlyPodman(map[string]string{shared + "hook.json": ours(`, "timeout": 120`, ``)}), nil, []string{"no timeout"}},
		"somebody's broken one": {onlyPodman(map[string]string{shared + "other.json": "{"}), []string{shared + "other.json"}, nil},
		"other version":         {onlyPodman(map[string]string{shared + "other.json": ours("1.0.0", "2.0.0", "oci-cdi-hook", "other")}), []string{`version "2.0.0"`}, nil},
		"precreate beside":      {onlyPodman(map[string]string{shared + "pre.json": ours(`["createRuntime"]`, `["precreate"]`)}), nil, []string{"stage precreate"}},
		"unknown stage": {installed(map[string]string{"/usr/bin/podman": "", shared + "pre.json": ours(`["createRuntime"]`, `["precreate"]`)}),
			[]string{`crio knows no stage "precreate"`}, nil},
		"no engine":           {installed(map[string]string{"/usr/bin/podman": "", "/usr/bin/crio": ""}), nil, []string{"nothing reads hooks.d"}},
		"no nsenter":          {onlyPodman(map[string]string{"/usr/bin/nsenter": ""}), nil, []string{"no nsenter"}},
		"criu":                {onlyPodman(map[string]string{"/usr/sbin/criu": "x"}), nil, []string{"criu is there"}},
		"a program is broken": {onlyPodman(map[string]string{"/usr/bin/runc": "#!/bin/sh\nexit 3\n"}), nil, []string{"/usr/bin/runc: --version: exit status 3"}},
		"hooks elsewhere": {onlyPodman(map[string]string{"/etc/containers/containers.conf": "[engine]\nhooks_dir = [\"/opt/hooks\"]\n"}),
			[]string{"none of oci-cdi-hook in /opt/hooks (/etc/containers/containers.conf)"}, nil},
		"hooks appended": {onlyPodman(map[string]string{"/etc/containers/containers.conf.d/a.conf": "[engine]\nhooks_dir = [\"/opt/hooks\", {append = true}]\n"}), nil, nil},
		"a later directory hides": {onlyPodman(map[string]string{"/etc/containers/containers.conf": "[engine]\nhooks_dir = [\"/usr/share/containers/oci/hooks.d\", \"/opt/hooks\"]\n",
			"/opt/hooks/HOOK.json": ours("oci-cdi-hook", "other")}), []string{"no entry gives devices"}, nil},
		"crio's drop-in": {installed(map[string]string{"/usr/bin/podman": "", "/etc/crio/crio.conf.d/10-x.conf": "[crio.runtime]\nhooks_dir = [\"/none\"]\ncdi_spec_dirs = [\"/etc/cdi\"]\n"}),
			[]string{"none of oci-cdi-hook in /none (/etc/crio/crio.conf.d/10-x.conf)"}, []string{"crio looks in /etc/cdi, the hook in /etc/cdi, /var/run/cdi"}},
		"podman's spec dirs":  {onlyPodman(map[string]string{"/etc/containers/containers.conf": "[engine]\ncdi_spec_dirs = [\"/opt/cdi\"]\n"}), nil, []string{"podman looks in /opt/cdi"}},
		"broken conf":         {onlyPodman(map[string]string{"/etc/containers/containers.conf": "[engine\n"}), []string{"/etc/containers/containers.conf: toml"}, nil},
		"other types in conf": {onlyPodman(map[string]string{"/etc/containers/containers.conf": "engine = 1\n"}), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := hostOf(t, c.files)
			found := h.Engines(context.Background())
			wantLines(t, "faults", lines(h, found, Fault), c.faults)
			wantLines(t, "warnings", lines(h, found, Warning), c.warnings)
			for _, f := range found {
				if (f.Do == "") != (f.State == OK) {
					t.Errorf("%+v: what is wrong, and only that, says what to do", f)
				}
			}
		})
	}
}

func wantLines(t *testing.T, what string, have, want []string) {
	t.Helper()
	if len(have) != len(want) {
		t.Errorf("%s: %q, want those with %q", what, have, want)
		return
	}
	for i := range have {
		if !strings.Contains(have[i], want[i]) {
			t.Errorf("%s: %q, want %q in it", what, have[i], want[i])
		}
	}
}

// Rootless podman reads no hooks directory that nobody names.
func TestEnginesRootless(t *testing.T) {
	h := hostOf(t, installed(nil))
	h.Home = "/home/u"
	found := h.Engines(context.Background())
	wantLines(t, "faults", lines(h, found, Fault), []string{"none of oci-cdi-hook in no directory"})
	if !strings.Contains(strings.Join(lines(h, found, OK), "\n"), "podman") || strings.Contains(strings.Join(lines(h, found, Fault), "\n"), "crio") {
		t.Errorf("%+v", found)
	}
	h = hostOf(t, installed(map[string]string{"/home/u/.config/containers/containers.conf": "[engine]\nhooks_dir = [\"" + shared + "\"]\n"}))
	h.Home = "/home/u"
	wantLines(t, "faults", lines(h, h.Engines(context.Background()), Fault), nil)
}
