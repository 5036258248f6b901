package specfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"oci-cdi-hook/hook/device"
)

func TestConvertDraft(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // YAML
		lost []string
	}{
		"the proposal's own": {
			text: `{
  "cdiVersion": "0.2.0",
  "kind": "vendor.com/device",
  "cdiDevices": [{
      "name": "myDevice",
      "containerSpec": {
        "devices": [
          {"hostPath": "/dev/card1", "containerPath": "/dev/card1"},
          {"hostPath": "/dev/card-render1", "containerPath": "/dev/render"}
        ]
      }
    }],
}`,
			want: `cdiVersion: 0.5.0
kind: vendor.com/device
devices:
  - name: myDevice
    containerEdits:
      deviceNodes:
        - path: /dev/card1
          hostPath: /dev/card1
        - path: /dev/render
          hostPath: /dev/card-render1
`},
		"edits in a list, for all, and what is gone": {
			text: `
cdiVersion: 0.1.0
kind: vendor.com/device
containerRuntime: [crio]
cdiDevices:
- name: d
  nameShort: [x]
  containerSpec:
  - devices: [{hostPath: /dev/d, permissions: rw, fileMode: 0600, gid: 44}]
  - mounts: [{hostPath: /lib/d, containerPath: /lib/d, options: [bind, ro]}]
containerSpec: {env: [A=1], hooks: [{hookName: createContainer, path: /bin/h, timeout: 5}]}
`,
			want: `cdiVersion: 0.5.0
kind: vendor.com/device
devices:
  - name: d
    containerEdits:
      deviceNodes:
        - path: /dev/d
          hostPath: /dev/d
          fileMode: 0600
          permissions: rw
          gid: 44
      mounts:
        - hostPath: /lib/d
          containerPath: /lib/d
          options:
            - bind
            - ro
containerEdits:
  env:
    - A=1
  hooks:
    - hookName: createContainer
      path: /bin/h
      timeout: 5
`,
			lost: []string{"containerRuntime", "nameShort"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Convert(write(t, "a.json", c.text), YAML)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Data) != c.want {
				t.Errorf("converted to\n%s\nwant\n%s", got.Data, c.want)
			}
			wantLines(t, "lost", got.Lost, c.lost)
		})
	}
}

// Every fixture comes back as what it was, in both formats.
func TestConvertKeepsMeaning(t *testing.T) {
	files, err := filepath.Glob("../device/testdata/fixtures/*")
	if err != nil || len(files) < 5 {
		t.Fatal("no fixtures", err)
	}
	for _, file := range files {
		f, err := device.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if f.Spec == nil {
			continue
		}
		for _, format := range []string{JSON, YAML} {
			got, err := Convert(file, format)
			if err != nil {
				t.Errorf("%s to %s: %v", file, format, err)
				continue
			}
			back, err := cdi.ParseSpec(got.Data)
			if err != nil {
				t.Errorf("%s to %s: %v", file, format, err)
				continue
			}
			want, err := specs.MinimumRequiredVersion(f.Spec)
			if err != nil || back.Version != want {
				t.Errorf("%s: version %s, want %s (%v)", file, back.Version, want, err)
			}
			f.Spec.Version = want
			if have, want := mustEncode(t, back), mustEncode(t, f.Spec); have != want {
				t.Errorf("%s to %s is\n%s\nwas\n%s", file, format, have, want)
			}
		}
	}
}

func mustEncode(t *testing.T, s any) string {
	t.Helper()
	text, err := encodeAny(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestConvertKeepsFormat(t *testing.T) {
	spec := `{"cdiVersion":"0.8.0","kind":"v.example/dev","devices":[{"name":"a","containerEdits":{"env":["A=<1>"]}}]}`
	got, err := Convert(write(t, "a.json", spec), "")
	if err != nil || !strings.HasPrefix(string(got.Data), "{\n  \"cdiVersion\": \"0.3.0\"") || !strings.Contains(string(got.Data), "A=<1>") {
		t.Errorf("JSON became %s (%v)", got.Data, err)
	}
	if got, err = Convert(write(t, "a.yaml", edits("{env: [A=1]}")), ""); err != nil || !strings.HasPrefix(string(got.Data), "cdiVersion: 0.3.0\n") {
		t.Errorf("YAML became %s (%v)", got.Data, err)
	}
}

func TestConvertRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"other fields":   {`{"cdiDevices":[{"name":"a","containerSpec":{"volumes":[]}}]}`, "volumes"},
		"no kind":        {`{"cdiDevices":[{"name":"a","containerSpec":{"devices":[{"hostPath":"/dev/a"}]}}]}`, "kind"},
		"null":           {`{"kind":"v.example/d","cdiDevices":[{"name":"a","containerSpec":{"mounts":[null]}}]}`, "null"},
		"empty device":   {`{"kind":"v.example/d","cdiDevices":[{"name":"a"}]}`, "empty"},
		"today's, wrong": {"cdiVersion: 0.6.0\nkind: v.example/d\ndevices: []\n", "no devices"},
		"no spec":        {"hello", "cannot unmarshal"},
		"a string":       {`"cdiDevices"`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "a.json", c.text)
			got, err := Convert(file, "")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q and the file", err, c.want)
			}
			if got != nil {
				t.Errorf("and yet %s", got.Data)
			}
		})
	}
	if _, err := Convert(os.TempDir(), ""); err == nil {
		t.Error("a directory was converted")
	}
}
