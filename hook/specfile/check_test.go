package specfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func texts(remarks []Remark) []string {
	var all []string
	for _, r := range remarks {
		all = append(all, r.String())
	}
	return all
}

// edits is a spec with the edits of its only device.
func edits(text string) string {
	return "cdiVersion: 0.6.0\nkind: v.example/dev\ndevices:\n- name: a\n  containerEdits: " + text + "\n"
}

func TestCheck(t *testing.T) {
	const good = "env: [A=1]"
	for name, c := range map[string]struct {
		file, text       string
		errors, warnings []string // what the lines contain, in order
	}{
		"good":                   {text: edits("{" + good + "}")},
		"json is good":           {file: "a.json", text: `{"cdiVersion":"0.6.0","kind":"v.example/dev","devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}`},
		"extension":              {file: "a.yml", text: edits("{" + good + "}"), warnings: []string{"only files that end in .json or .yaml"}},
		"upper-case extension":   {file: "A.YAML", text: edits("{" + good + "}"), warnings: []string{"only files that end in .json or .yaml"}},
		"wrong case":             {text: edits("{hooks: [{hookname: createContainer, path: /h}]}"), errors: []string{"hookname"}, warnings: []string{`line 5: devices[0].containerEdits.hooks[0]: unknown field "hookname": it is spelled hookName`}},
		"misspelt":               {text: edits("{mount: [], " + good + "}"), errors: []string{"mount"}, warnings: []string{`"mount": did you mean mounts?`}},
		"unknown":                {text: edits("{frobnicate: 1, " + good + "}"), errors: []string{"frobnicate"}, warnings: []string{`unknown field "frobnicate"`}},
		"at the top":             {text: "x-common: 1\n" + edits("{"+good+"}"), errors: []string{"x-common"}, warnings: []string{`line 1: unknown field "x-common"`}},
		"behind an alias":        {text: edits("&e {hooks: [{HookName: prestart, path: /h}]}") + "- name: b\n  containerEdits: *e\n", errors: []string{"HookName"}, warnings: []string{"it is spelled hookName"}},
		"decimal mode":           {text: edits("{deviceNodes: [{path: /dev/x, fileMode: 660}]}"), warnings: []string{"fileMode 660 is decimal, which is mode 1224: write 0660"}},
		"decimal mode, low":      {text: edits("{deviceNodes: [{path: /dev/x, fileMode: 444}]}"), warnings: []string{"fileMode 444 is decimal, which is mode 0674"}},
		"mode 0660 in decimal":   {text: edits("{deviceNodes: [{path: /dev/x, fileMode: 432}, {path: /dev/y, fileMode: 0x1b0}, {path: /dev/z, fileMode: 0o660}, {path: /dev/w, fileMode: 0660}]}")},
		"no bind":                {text: edits("{mounts: [{hostPath: /a, containerPath: /b, options: [ro]}]}"), warnings: []string{"neither bind nor rbind"}},
		"type bind":              {text: edits("{mounts: [{hostPath: /a, containerPath: /b, type: bind, options: [ro]}]}")},
		"filesystem":             {text: edits("{mounts: [{hostPath: none, containerPath: /b, type: tmpfs, options: [size=1m]}]}")},
		"glob":                   {text: edits("{mounts: [{hostPath: /lib/*.so, containerPath: /b, options: [bind]}]}"), warnings: []string{`hostPath "/lib/*.so" is taken literally`}},
		"relative":               {text: edits("{mounts: [{hostPath: lib, containerPath: /b, options: [bind]}]}"), warnings: []string{`hostPath "lib" is not absolute`}},
		"option":                 {text: edits("{mounts: [{hostPath: /a, containerPath: /b, options: [bind, readonly]}]}"), warnings: []string{`option "readonly" means nothing`}},
		"second document":        {text: edits("{"+good+"}") + "---\nkind: x\n", warnings: []string{"only the first document"}},
		"relative hook":          {text: edits("{hooks: [{hookName: prestart, path: nope}]}"), errors: []string{`hook path "nope" is not absolute`}},
		"timeout 0":              {text: edits("{hooks: [{hookName: prestart, path: /h, timeout: 0}]}"), errors: []string{"timeout 0"}},
		"timeout -1":             {text: edits("{hooks: [{hookName: prestart, path: /h, timeout: -1}]}"), errors: []string{"timeout -1"}},
		"list for a mapping":     {text: edits("[{" + good + "}]"), errors: []string{"cannot unmarshal !!seq into specs.ContainerEdits"}},
		"null":                   {text: edits("{deviceNodes: [null]}"), errors: []string{"null device node"}},
		"empty device":           {text: edits("{}"), errors: []string{"empty device edits"}},
		"empty":                  {text: "", errors: []string{""}},
		"no yaml":                {text: "\x7fELF\x00\x01", errors: []string{"control characters"}},
		"recursive alias":        {text: "a: &a [*a]\n" + edits("{"+good+"}"), errors: []string{""}, warnings: []string{`unknown field "a"`}},
		"the draft's form":       {text: `{"cdiDevices": [{"name": "a", "containerSpec": {}}],}`, errors: []string{"first CDI proposals (cdiDevices)"}},
		"line breaks in a field": {text: "\"a\\nb\": 1\n" + edits("{"+good+"}"), errors: []string{""}, warnings: []string{`unknown field "a b"`}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file == "" {
				c.file = "a.yaml"
			}
			r, f := Check(write(t, c.file, c.text))
			if f == nil {
				t.Fatal("file not read")
			}
			if r.Valid != (len(c.errors) == 0) {
				t.Errorf("valid is %v", r.Valid)
			}
			wantLines(t, "errors", texts(r.Errors), c.errors)
			wantLines(t, "warnings", texts(r.Warnings), c.warnings)
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
		if !strings.Contains(have[i], want[i]) || strings.ContainsAny(have[i], "\n\x00") {
			t.Errorf("%s: %q, want one line with %q", what, have[i], want[i])
		}
	}
}

func TestCheckOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.yaml")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 100<<20); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		fifo: "a fifo", large: "larger than", dir: "directory", filepath.Join(dir, "none.yaml"): "no such file", "/dev/zero": "device",
	} {
		r, f := Check(path)
		if r.Valid || f != nil || len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Text, want) {
			t.Errorf("%s: valid %v, errors %q, want one with %q", path, r.Valid, texts(r.Errors), want)
		}
	}
}

func TestNamesOfAValidFile(t *testing.T) {
	r, _ := Check(write(t, "a.yaml", edits("{env: [A=1]}")+"- name: b\n  containerEdits: {env: [B=1]}\n"))
	if want := []string{"v.example/dev=a", "v.example/dev=b"}; r.Kind != "v.example/dev" || !slices.Equal(r.Devices, want) {
		t.Errorf("kind %s, devices %q, want %q", r.Kind, r.Devices, want)
	}
}
