package plan

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/hook/device"
)

var quiet = []string{"NVIDIA_VISIBLE_DEVICES=void"}

func TestGolden(t *testing.T) {
	rest := mustRead(t, "testdata/rest.yaml")
	for name, c := range map[string]struct {
		spec      string
		container Container
		names     []string
	}{
		"dgpu":      {fixture(t, "nvidia-dgpu.yaml"), Container{IgnoreEnv: quiet}, []string{"nvidia.com/gpu=0"}},
		"dgpu-both": {fixture(t, "nvidia-dgpu.yaml"), Container{IgnoreEnv: quiet}, []string{"nvidia.com/gpu=all", "nvidia.com/gpu=1"}},
		"wsl":       {fixture(t, "nvidia-wsl.yaml"), Container{}, []string{"nvidia.com/gpu=all"}},
		"rest":      {rest, Container{IgnoreEnv: quiet}, []string{"v.example/dev=a"}},
		"userns":    {rest, Container{UserNamespace: true, IgnoreEnv: quiet}, []string{"v.example/dev=a"}},
		"later":     {rest, Container{UserNamespace: true, CanEnterUserNamespace: true, Entries: []string{StagePoststart, StagePoststop}}, []string{"v.example/dev=a"}},
		"satisfied": {rest, Container{Config: readConfig(t, mustRead(t, "testdata/satisfied-config.json"))}, []string{"v.example/dev=a"}},
	} {
		t.Run(name, func(t *testing.T) { wantGolden(t, name, mustBuild(t, c.spec, c.container, c.names...)) })
	}
}

// summary is a plan in a few words, in its order.
func summary(p *Plan) []string {
	all := []string{}
	for _, a := range p.Actions {
		text := a.Kind
		switch {
		case a.Mount != nil:
			text += " " + a.Mount.Target
		case a.Node != nil:
			text += " " + a.Node.Path
		case a.Rule != nil:
			text += " " + a.Rule.Type + a.Rule.Access
		case a.Hook != nil:
			text += " " + a.Hook.Path
		}
		if a.Satisfied {
			text += " satisfied"
		}
		all = append(all, text)
	}
	for _, u := range p.Unsupported {
		text := "without " + u.Edit + " " + u.Value
		if u.Quiet {
			text += " quiet"
		}
		all = append(all, text)
	}
	return all
}

func TestOrder(t *testing.T) {
	p := mustBuild(t, mustRead(t, "testdata/rest.yaml"), Container{IgnoreEnv: quiet}, "v.example/dev=a")
	want := []string{
		"mount /opt", "mount /scratch", "mount /opt/deep/er",
		"node /dev/a", "node /dev/b", "node /dev/p", "rule cr",
		"hook /v/pre", "hook /v/cr", "hook /v/cc1", "hook /v/cc2",
		"without mounts proc on /other/proc", "without mounts mqueue on /dev/mqueue2",
		"without hooks poststop /v/stop", "without hooks startContainer /v/sc", "without hooks poststart /v/start",
		"without env LIBRARY=/opt/lib", "without env NVIDIA_VISIBLE_DEVICES=void quiet", "without env A=1", "without env EMPTY=",
		"without additionalGids 44", "without additionalGids 45", "without netDevices eth7 as net0", "without intelRdt guaranteed",
	}
	if have := summary(p); !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], `mount on /opt: option "nonsense" means nothing on a bind and is ignored (device v.example/dev=a of spec /etc/cdi/v.yaml)`) {
		t.Errorf("warnings %q", p.Warnings)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "mount on /opt: ro makes only the top") {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestSatisfied(t *testing.T) {
	const spec = `{
    mounts: [{hostPath: /a, containerPath: /m, options: [bind, ro]}, {hostPath: t, containerPath: /t, type: tmpfs, options: []}],
    env: [A=1], additionalGids: [44],
    hooks: [{hookName: startContainer, path: /h, args: [h, x], env: [E=1]}, {hookName: createContainer, path: /c}],
    netDevices: [{hostInterfaceName: eth7, name: net0}], intelRdt: {closID: g}}`
	for name, c := range map[string]struct {
		config string
		want   []string
	}{
		"nothing": {`{}`, []string{
			"mount /m", "mount /t", "hook /c", "without hooks startContainer /h", "without env A=1",
			"without additionalGids 44", "without netDevices eth7 as net0", "without intelRdt g",
		}},
		"everything": {`{"process":{"env":["A=0","A=1"],"user":{"additionalGids":[44]}},
			"mounts":[{"destination":"/m/","source":"/a","type":"bind","options":["bind","ro"]},{"destination":"/t","source":"t","type":"tmpfs"}],
			"hooks":{"startContainer":[{"path":"/h","args":["h","x"],"env":["E=1"]}],"createContainer":[{"path":"/c"}]},
			"linux":{"netDevices":{"eth7":{"name":"net0"}},"intelRdt":{"closID":"g"}}}`,
			[]string{"mount /m satisfied", "mount /t satisfied", "hook /c satisfied"}},
		"almost": {`{"process":{"env":["A=1","A=0"],"user":{"gid":45}},
			"mounts":[{"destination":"/m","source":"/a","options":["bind"]},{"destination":"/t","source":"t","type":"ramfs"}],
			"hooks":{"startContainer":[{"path":"/h","args":["h"],"env":["E=1"]}],"createRuntime":[{"path":"/c"}]},
			"linux":{"netDevices":{"eth7":{"name":"net1"}},"intelRdt":{"closID":"h"}}}`,
			[]string{
				"mount /m", "mount /t", "hook /c", "without hooks startContainer /h", "without env A=1",
				"without additionalGids 44", "without netDevices eth7 as net0", "without intelRdt g",
			}},
		"covered by a later one": {`{"process":{"user":{"gid":44}},
			"mounts":[{"destination":"/m","source":"/a","options":["bind","ro"]},{"destination":"/m","source":"/b","options":["bind","ro"]}]}`,
			[]string{
				"mount /m", "mount /t", "hook /c", "without hooks startContainer /h", "without env A=1",
				"without netDevices eth7 as net0", "without intelRdt g",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustBuild(t, specWith(spec), Container{Config: readConfig(t, c.config)}, "v.example/dev=a")
			if have := summary(p); !slices.Equal(have, c.want) {
				t.Errorf("have %q\nwant %q", have, c.want)
			}
		})
	}
}

func TestUserNamespace(t *testing.T) {
	spec := specWith(`{mounts: [{hostPath: t, containerPath: /t, type: tmpfs, options: [ro]}, {hostPath: /a, containerPath: /a, options: [bind]}],
    hooks: [{hookName: createContainer, path: /c}, {hookName: createRuntime, path: /r}]}`)
	for _, c := range []struct {
		container Container
		want      []string
	}{
		{Container{}, []string{"mount /t", "mount /a", "hook /r", "hook /c"}},
		{Container{UserNamespace: true, CanEnterUserNamespace: true}, []string{"mount /a", "hook /r", "hook /c", "without mounts tmpfs on /t"}},
		{Container{UserNamespace: true}, []string{"mount /a", "hook /r", "without mounts tmpfs on /t", "without hooks createContainer /c"}},
	} {
		have := summary(mustBuild(t, spec, c.container, "v.example/dev=a"))
		if !slices.Equal(have, c.want) {
			t.Errorf("%+v: %q\nwant %q", c.container, have, c.want)
		}
	}
}

func TestMountErrors(t *testing.T) {
	const operands = " (device v.example/dev=a of spec /etc/cdi/v.yaml)"
	for edits, want := range map[string]string{
		`{hostPath: /a, containerPath: /m, options: [ro]}`:                       "mount /a on /m: no such device: add bind or rbind to its options" + operands,
		`{hostPath: /a, containerPath: /m, type: none, options: [ro]}`:           "mount /a on /m: no such device",
		`{hostPath: /a, containerPath: /m, type: bind, options: [ro]}`:           "mount /a on /m: no such device",
		`{hostPath: /a, containerPath: /m, options: [bind, remount, ro]}`:        "mount on /m: option remount changes another mount",
		`{hostPath: t, containerPath: /m, type: tmpfs, options: [remount, rw]}`:  "mount on /m: option remount",
		`{hostPath: /a, containerPath: /m, type: tmpfs, options: [rbind]}`:       "",
		`{hostPath: none, containerPath: /m, type: efivarfs, options: [nosuid]}`: "",
	} {
		_, err := build(t, specWith("{mounts: ["+edits+"]}"), Container{}, "v.example/dev=a")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", edits, err, want)
		}
	}
}

func TestUnmountable(t *testing.T) {
	for _, fstype := range []string{"proc", "sysfs", "mqueue", "devpts", "cgroup", "cgroup2", "overlay", "ext4"} {
		edits := "{env: [A=1], mounts: [{hostPath: x, containerPath: /m, type: " + fstype + ", options: [ro]}]}"
		_, err := build(t, specWith(edits), Container{}, "v.example/dev=a")
		var empty *EmptyDeviceError
		if !errors.As(err, &empty) || !strings.Contains(err.Error(), "depends on the namespaces of the process that mounts it") &&
			!strings.Contains(err.Error(), "only tmpfs and efivarfs are mounted from outside") {
			t.Errorf("%s: %v", fstype, err)
		}
	}
}

func TestEmptyDevice(t *testing.T) {
	k8s := fixture(t, "k8s.gpu.example.com-gpu_9d3f0c1a-0000-4000-8000-0123456789ab.yaml")
	const name = "k8s.gpu.example.com/gpu=9d3f0c1a-0000-4000-8000-0123456789ab-gpu-0"
	_, err := build(t, k8s, Container{}, name)
	var empty *EmptyDeviceError
	if !errors.As(err, &empty) || empty.Device != name || len(empty.Unsupported) != 4 || empty.ExitCode() != device.ExitRequest {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"device " + name + ": nothing of it can be applied", "env GPU_DEVICE_GPU_0_RESOURCE_CLAIM=", specDir + "/v.yaml"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// A part that config.json has is a part that is applied.
	if _, err := build(t, k8s, Container{Config: readConfig(t, `{"process":{"env":["DRA_ADMIN_ACCESS=false"]}}`)}, name); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		edits     string
		container Container
		refused   bool
	}{
		"quiet env alone":         {"{env: [A=1]}", Container{IgnoreEnv: []string{"A=1"}}, true},
		"gids":                    {"{additionalGids: [44]}", Container{}, true},
		"startContainer":          {"{hooks: [{hookName: startContainer, path: /h}]}", Container{}, true},
		"poststop":                {"{hooks: [{hookName: poststop, path: /h}]}", Container{}, true},
		"poststop with our entry": {"{hooks: [{hookName: poststop, path: /h}]}", Container{Entries: []string{StagePoststop}}, false},
		"createContainer, userns": {"{hooks: [{hookName: createContainer, path: /h}]}", Container{UserNamespace: true}, true},
		"intelRdt":                {"{intelRdt: {closID: g}}", Container{}, true},
		"netDevices":              {"{netDevices: [{hostInterfaceName: e, name: n}]}", Container{}, true},
		"a node":                  {"{env: [A=1], deviceNodes: [{path: /dev/p, type: p}]}", Container{}, false},
	} {
		if _, err := build(t, specWith(c.edits), c.container, "v.example/dev=a"); errors.As(err, &empty) != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What its whole spec file brings counts for a device; another device's edits do not.
func TestEmptyDeviceBesideOthers(t *testing.T) {
	const devices = `devices:
- {name: a, containerEdits: {env: [A=1]}}
- {name: b, containerEdits: {deviceNodes: [{path: /dev/p, type: p}]}}
`
	const head = "cdiVersion: 1.1.0\nkind: v.example/dev\n"
	var empty *EmptyDeviceError
	if _, err := build(t, head+devices, Container{}, "v.example/dev=b", "v.example/dev=a"); !errors.As(err, &empty) || empty.Device != "v.example/dev=a" {
		t.Errorf("%v", err)
	}
	withSpecLevel := head + "containerEdits: {deviceNodes: [{path: /dev/q, type: p}]}\n" + devices
	if _, err := build(t, withSpecLevel, Container{}, "v.example/dev=b", "v.example/dev=a"); err != nil {
		t.Error(err)
	}
}

func TestMode(t *testing.T) {
	for mode, want := range map[Mode]string{0o660: `"0660"`, 0: `"0000"`, 0o7777: `"7777"`, 0o1224: `"1224"`} {
		text, err := json.Marshal(mode)
		if err != nil || string(text) != want {
			t.Errorf("%s %v, want %s", text, err, want)
		}
		var again Mode
		if err := json.Unmarshal(text, &again); err != nil || again != mode {
			t.Errorf("%s is read as %o %v", text, again, err)
		}
	}
	for _, text := range []string{`"0668"`, `"rw"`, `""`, `432`, `"-1"`, `"77777777777777"`} {
		var m Mode
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s was read as %o", text, m)
		}
	}
}
