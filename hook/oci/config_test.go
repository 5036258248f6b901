package oci

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

const someConfig = `{
  "ociVersion": "1.2.0", "hostname": "x", "unknown": {"a": [1]},
  "annotations": {"k": "v"},
  "root": {"path": "rootfs", "readonly": true},
  "process": {"args": ["sh"], "cwd": "/", "env": ["A=1"], "user": {"uid": 1000, "gid": 1001, "umask": 18, "additionalGids": [44]},
    "capabilities": {"bounding": ["CAP_KILL"]}},
  "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
  "hooks": {"poststop": [{"path": "/bin/true", "timeout": 3}]},
  "linux": {"cgroupsPath": "/c", "mountLabel": "l", "uidMappings": [{"containerID": 0, "hostID": 100000, "size": 10}],
    "namespaces": [{"type": "mount"}, {"type": "user"}], "seccomp": {"defaultAction": "SCMP_ACT_ALLOW"},
    "resources": {"devices": [{"allow": false, "access": "rwm"}], "memory": {"limit": 1}}}
}`

func TestReadConfigIsAsTheSpecSays(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, someConfig, dir, "config.json")
	c, err := ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Annotations: map[string]string{"k": "v"},
		Root:        &specs.Root{Path: "rootfs", Readonly: true},
		Mounts:      []specs.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}},
		Hooks:       &specs.Hooks{Poststop: []specs.Hook{{Path: "/bin/true", Timeout: new(3)}}},
		Process: &specs.Process{Env: []string{"A=1"}, User: specs.User{
			UID: 1000, GID: 1001, Umask: new(uint32(18)), AdditionalGids: []uint32{44},
		}},
		Linux: &specs.Linux{
			CgroupsPath: "/c", MountLabel: "l", UIDMappings: []specs.LinuxIDMapping{{HostID: 100000, Size: 10}},
			Namespaces: []specs.LinuxNamespace{{Type: "mount"}, {Type: "user"}},
			Resources:  &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Access: "rwm"}}},
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("have %+v\nwant %+v", c, want)
	}
}

func TestReadConfigErrors(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ config, want string }{
		"empty":          {"", "config.json: empty document"},
		"truncated":      {someConfig[:100], "config.json: not JSON at byte"},
		"a list":         {"[]", "config.json: not a JSON object"},
		"root a string":  {`{"root":"rootfs"}`, "config.json: root: a JSON string"},
		"uid negative":   {`{"process":{"user":{"uid":-1}}}`, "process.user.uid: a JSON number -1"},
		"mounts an item": {`{"mounts":{"destination":"/x"}}`, "mounts: a JSON object"},
		"huge":           {`{"x":"` + strings.Repeat("x", maxDocument) + `"}`, "larger than 16777216 bytes"},
		"nulls":          {`{"root":null,"process":null,"mounts":[null],"hooks":null,"linux":null}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, c.config, dir, "config.json")
			_, err := ReadConfig(dir)
			wantError(t, err, c.want)
		})
	}
	_, err := ReadConfig(filepath.Join(dir, "missing"))
	wantError(t, err, "missing/config.json: no such file")
}

func TestReadRegularWaitsForNothing(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "12345", dir, "file")
	for _, c := range []struct {
		name  string
		limit int64
		want  string
	}{
		{fifo, 10, "fifo: not a regular file"},
		{dir, 10, "not a regular file"},
		{"/dev/null", 10, "/dev/null: not a regular file"},
		{file, 4, "file: larger than 4 bytes"},
		{file, 5, ""},
	} {
		_, err := readRegular(c.name, c.limit)
		wantError(t, err, c.want)
	}
}

func TestRootPath(t *testing.T) {
	config := func(root string) *Config { return &Config{Root: &specs.Root{Path: root}} }
	for name, c := range map[string]struct {
		config    *Config
		stateRoot string
		root      string
		want      string
	}{
		"relative":                {config("rootfs"), "", "/b/rootfs", ""},
		"absolute":                {config("/var/x"), "", "/var/x", ""},
		"up":                      {config("../r"), "", "/r", ""},
		"the bundle itself":       {config("."), "", "/b", ""},
		"the config comes first":  {config("rootfs"), "/other", "/b/rootfs", ""},
		"the state where it must": {nil, "/other", "/other", ""},
		"relative in the state":   {nil, "r", "/b/r", ""},
		"no root":                 {&Config{}, "/other", "", "/b/config.json: no root.path"},
		"empty root":              {config(""), "/other", "", "/b/config.json: no root.path"},
		"nothing at all":          {nil, "", "", "state: no root, and /b/config.json cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := RootPath("/b", c.config, &State{Root: c.stateRoot})
			wantError(t, err, c.want)
			if root != c.root {
				t.Errorf("root %q, want %q", root, c.root)
			}
		})
	}
}
