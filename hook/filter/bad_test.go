package filter

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"oci-cdi-hook/hook/device"
)

func TestRefusedRequest(t *testing.T) {
	s := settings(specDir(t, "{}", "a={env: [V=a]}"))
	for input, want := range map[string]string{
		`{"annotations":{"cdi.k8s.io/x":"v.example/dev=a,nope"}}`:              `"nope"`,
		`{"annotations":{"cdi.k8s.io/x":null}}`:                                "empty",
		`{"annotations":{"cdi.k8s.io/x":"v.example/dev=z"}}`:                   "v.example/dev=z",
		`{"linux":{"devices":[{"path":"w.example/dev=a"},{"path":"/dev/x"}]}}`: "w.example/dev",
	} {
		err := refusal(t, s, input)
		var refused *device.RequestError
		if !errors.As(err, &refused) || refused.ExitCode() != 3 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	s := settings(specDir(t, "{}", "a={env: [V=a], intelRdt: {closID: x}, netDevices: [{hostInterfaceName: b, name: e}]}",
		"bin={env: [!!binary /z0=]}", "gone={deviceNodes: [{path: /dev/mine, hostPath: /nonexistent}]}"))
	tests := map[string]string{
		"":                                   "config: stdin is empty",
		" \n":                                "config: stdin is empty",
		"{}":                                 "config: an empty object",
		"{ }\n":                              "config: an empty object",
		"null":                               "config: null instead of an object",
		"[]":                                 "config: array instead of an object",
		"5":                                  "config: number instead of an object",
		`"x"`:                                "config: string instead of an object",
		"hello":                              "config: not JSON: ",
		`{"a":1}{"a":1}`:                     "config: not JSON: ",
		`{"annotations":{"cdi.k8s.io`:        "at byte 27 of 27",
		`{"annotations":[]}`:                 "config: annotations: array instead of an object",
		`{"annotations":{"cdi.k8s.io/x":5}}`: `config: annotations["cdi.k8s.io/x"]: number instead of a string`,
		`{"annotations":{"cdi.k8s.io/x":"v.example/dev=a","io.kubernetes.pod.namespace":5}}`: `config: annotations["io.kubernetes.pod.namespace"]: number instead of a string`,
		`{"a":1,"linux":{},"linux":{}}`:                            "config: linux: named twice",
		`{"linux":"x"}`:                                            "config: linux: string instead of an object",
		`{"linux":{"devices":{}}}`:                                 "config: linux.devices: object instead of an array",
		`{"linux":{"devices":[{},{"path":7}]}}`:                    "config: linux.devices[1].path: number instead of a string",
		wrap(`,"process":[]`):                                      "config: process: array instead of an object",
		wrap(`,"process":{"env":"A=1"}`):                           "config: process.env: string instead of an array",
		wrap(`,"process":{"env":["A=1",2]}`):                       "config: process.env[1]: number instead of a string",
		wrap(`,"process":{"user":true}`):                           "config: process.user: bool instead of an object",
		wrap(`,"process":{"user":{"uid":-1}}`):                     "config: process.user.uid: number -1 instead of a number (uint32)",
		wrap(`,"process":{"user":{"additionalGids":[1.5]}}`):       "config: process.user.additionalGids[0]: number 1.5 instead of a number (uint32)",
		wrap(`,"mounts":[{"destination":"/a","options":"ro"}]`):    "config: mounts[0].options: string instead of an array",
		wrap(`,"mounts":[7]`):                                      "config: mounts[0]: number instead of an object",
		wrap(`,"hooks":{"poststop":[{"args":[5]}]}`):               "config: hooks.poststop[0].args: number instead of a string",
		wrap(`,"hooks":{"poststop":5}`):                            "config: hooks.poststop: number instead of an array",
		wrap(`,"linux":{"namespaces":[{"type":1}]}`):               "config: linux.namespaces[0].type: number instead of a string",
		wrap(`,"linux":{"uidMappings":[{"size":"1"}]}`):            "config: linux.uidMappings[0].size: string instead of a number (uint32)",
		wrap(`,"linux":{"gidMappings":{}}`):                        "config: linux.gidMappings: object instead of an array",
		wrap(`,"linux":{"resources":[]}`):                          "config: linux.resources: array instead of an object",
		wrap(`,"linux":{"resources":{"devices":[{"major":"1"}]}}`): "config: linux.resources.devices[0].major: string instead of a number (int64)",
		wrap(`,"linux":{"netDevices":{"b":[]}}`):                   "config: linux.netDevices.b: array instead of an object",
		wrap(`,"Mounts":[]`):                                       `config: "Mounts" in place of "mounts"`,
		wrap(`,"linux":{"INTELRDT":{}}`):                           `config: "linux.INTELRDT" in place of "intelRdt"`,
		`{"annotations":{"cdi.k8s.io/x":"v.example/dev=bin"}}`:     `"\xff=" of device "v.example/dev=bin"`,
		wrap(`,"linux":{"intelRdt":{"closID":1}}`):                 "config: linux.intelRdt.closID: number instead of a string",
		`{"annotations":{"cdi.k8s.io/x":"v.example/dev=gone"}}`:    `host device node /nonexistent: no such file`,
	}
	for input, want := range tests {
		err := refusal(t, s, input)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, want %q", input, err, want)
		}
		if errors.As(err, new(*device.RequestError)) {
			t.Errorf("%s: %v is a refused request", input, err)
		}
	}
}

// Too much is refused, and read all the same.
func TestHugeConfig(t *testing.T) {
	stdin := strings.NewReader(`{"a":"` + strings.Repeat("x", maxConfig) + `"}`)
	output, _, err := Run(settings(), stdin)
	if output != nil || err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("%d bytes, %v", len(output), err)
	}
	if stdin.Len() > 0 {
		t.Errorf("%d bytes not read", stdin.Len())
	}
	fits := `{"a":"` + strings.Repeat("x", maxConfig-8) + `"}`
	if output, _, err := Run(settings(), strings.NewReader(fits)); err != nil || len(output) != len(fits) {
		t.Errorf("%d bytes, %v", len(output), err)
	}
}

func TestBrokenStdin(t *testing.T) {
	stdin := io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(io.ErrClosedPipe))
	if output, _, err := Run(settings(), stdin); output != nil || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%q, %v", output, err)
	}
}
