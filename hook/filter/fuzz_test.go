package filter

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzFilter looks at what must hold for any config and any edits: valid JSON
// or an error, all that is not edited as it was, and once is enough.
func FuzzFilter(f *testing.F) {
	full := "{deviceNodes: [{path: /dev/x, hostPath: /dev/null}], mounts: [{hostPath: /1, containerPath: /b/c, options: [rbind]}], " +
		"hooks: [{hookName: poststop, path: /x, args: [x], env: [A=1], timeout: 1}], env: [A=1, B=2], additionalGids: [0, 4], netDevices: [{hostInterfaceName: a, name: b}], intelRdt: {closID: x}}"
	f.Add(wrap(`,"process":{"env":["A=0"],"user":{"additionalGids":[4]}},"mounts":[{"destination":"/b/c"},{"destination":"/b/c"}],"hooks":{"poststop":[{"path":"/x"}]}`), full, true)
	f.Add(wrap(` , "linux" : {"devices":[{"path":"/dev/x"},{"path":"/dev/x"},{"path":"/dev/x"}],"resources":{"devices":[{"allow":false}]},"netDevices":{"a":{"name":"c"}},"intelRdt":{"closID":"x"}}`), full, true)
	f.Add(wrap(`,"annotations":null`), "{env: [A=1]}", false)
	f.Add(`{"linux":{"devices":[{"path":"v.example/dev=a"}]},"n":1e400,"é\ud800":"\u2028"}`, full, false)
	f.Fuzz(func(t *testing.T, input, edits string, inUserNamespace bool) {
		s := settings(specDir(t, "{}", "a="+edits))
		within := func() bool { return inUserNamespace }
		output, out, err := run(s, strings.NewReader(input), within)
		if err != nil {
			if output != nil || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q beside %q", output, err)
			}
			return
		}
		if trimmed := string(bytes.TrimSpace(output)); !json.Valid(output) || trimmed[0] != '{' || trimmed == "{}" {
			t.Fatalf("%q", output)
		}
		if (string(output) != input) != out.Changed || out.Changed && len(out.Devices) == 0 {
			t.Errorf("changed is %v for %q of %q", out.Changed, out.Devices, input)
		}
		if got, want := unedited(t, output), unedited(t, []byte(input)); !reflect.DeepEqual(got, want) {
			t.Errorf("%v was %v", got, want)
		}
		again, _, err := run(s, bytes.NewReader(output), within)
		if err != nil || string(again) != string(output) {
			t.Errorf("%q, %v after %q", again, err, output)
		}
	})
}

// unedited is a config without what the filter may change, and without what is
// empty then.
func unedited(t *testing.T, config []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	var top map[string]any
	if err := d.Decode(&top); err != nil {
		t.Fatal(err)
	}
	linux := inner(top, "linux")
	for _, stage := range hookStages {
		delete(inner(top, "hooks"), stage)
	}
	delete(inner(top, "process"), "env")
	delete(inner(inner(top, "process"), "user"), "additionalGids")
	delete(top, "mounts")
	delete(inner(linux, "resources"), "devices")
	for _, key := range []string{"devices", "intelRdt", "netDevices"} {
		delete(linux, key)
	}
	for _, in := range []struct {
		object map[string]any
		keys   []string
	}{{linux, []string{"resources"}}, {inner(top, "process"), []string{"user"}}, {top, []string{"linux", "process", "hooks"}}} {
		for _, key := range in.keys {
			if v := in.object[key]; v == nil || len(inner(in.object, key)) == 0 {
				delete(in.object, key)
			}
		}
	}
	return top
}

func inner(object map[string]any, key string) map[string]any {
	in, _ := object[key].(map[string]any)
	return in
}
