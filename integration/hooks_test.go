package integration

import (
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
)

const vendorPath = "/opt/vendor/hook"

// vendor is an edit with one hook of the stand-in; its env is set, since without one each runtime has its own idea.
func vendor(stage string, args ...string) string {
	return "- {hookName: " + stage + ", path: " + vendorPath + ", args: [hook, " + strings.Join(args, ", ") + "], env: [A=1]}"
}

func hooksOf(hooks ...string) string { return "hooks:\n" + strings.Join(hooks, "\n") }

func TestVendorHooks(t *testing.T) {
	const node = "deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]"
	compareAll(t, []row{
		{
			name: "in order", spec: device(node, hooksOf(vendor("createContainer", "first"), vendor("createContainer", "second"), vendor("createContainer", "third"))),
			has: []string{`hook 0 args ["hook" "first"]`, `hook 1 args ["hook" "second"]`, `hook 2 args ["hook" "third"]`},
		},
		{
			name: "each at its stage", spec: device(node, hooksOf(vendor("createContainer", "inner"), vendor("createRuntime", "outer"), vendor("prestart", "oldest"))),
			has: []string{`hook 0 args ["hook" "oldest"]`, `hook 1 args ["hook" "outer"]`, `hook 2 args ["hook" "inner"]`},
		},
		{
			name: "without args and env", spec: device(node, "hooks: [{hookName: createContainer, path: "+vendorPath+"}, {hookName: createRuntime, path: "+vendorPath+"}]"),
			hide: []string{"hook"}, has: []string{"hook 0 env []", "hook 1 env []"},
		},
		{name: "spec before device", spec: specWide(), has: []string{`hook 0 args ["hook" "whole"]`, `hook 1 args ["hook" "one"]`}},
		{name: "failing", spec: device(node, hooksOf(vendor("createContainer", "quiet", "stderr=told-why", "exit=3"))), refused: "told-why"},
		{name: "failing outside", spec: device(node, hooksOf(vendor("createRuntime", "quiet", "stderr=told-why", "exit=3"))), refused: "told-why"},
		{name: "missing", spec: device(node, hooksOf(vendor("createContainer"))), bare: true, refused: vendorPath},
		{name: "slow", spec: device(node, "hooks: [{hookName: createContainer, path: "+vendorPath+", args: [hook, quiet, sleep=30s], timeout: 1}]"), refused: vendorPath},
	})
}

func specWide() string {
	return device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", hooksOf(vendor("createContainer", "one"))) +
		"containerEdits:\n  " + strings.ReplaceAll(hooksOf(vendor("createContainer", "whole")), "\n", "\n  ") + "\n"
}

// TestOwnHooksOfTheConfig pins the one difference of order: ours run before config.json's.
func TestOwnHooksOfTheConfig(t *testing.T) {
	r := row{
		spec:   device("deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]", hooksOf(vendor("createContainer", "of-cdi"))),
		bundle: func(b *bed.Bundle) { b.OwnHook("vendorhook", "of-config") },
	}
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		targets := r.prepare(t)
		for how, want := range map[string][]string{
			"native": {`args ["vendorhook" "of-config"]`, `args ["hook" "of-cdi"]`},
			"direct": {`args ["hook" "of-cdi"]`, `args ["vendorhook" "of-config"]`},
		} {
			way := mode(natively)
			if how == "direct" {
				way = directly
			}
			var got []string
			for _, l := range r.run(t, rt, way, targets).lines {
				if f := strings.SplitN(l, " ", 3); f[0] == "hook" && strings.HasPrefix(f[2], "args ") {
					got = append(got, f[2])
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s order %v, want %v", how, got, want)
			}
		}
	})
}

func TestEditsThatComeTooLate(t *testing.T) {
	const node = "deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]"
	netDevice := "netDevices: [{hostInterfaceName: lo, name: cdi0}]"
	compareAll(t, []row{
		{name: "env", spec: device(node, "env: [NEW=1, SECRET=2]"), differs: differing("-env SECRET=2", "-env NEW=1", "+env SECRET=1"), warns: []string{"NEW=1", "SECRET=2", "v.example/dev=a", "spec.yaml"}},
		{name: "env that is there", spec: device(node, "env: [SECRET=1]")},
		{name: "env that is harmless", spec: device(node, "env: [NVIDIA_VISIBLE_DEVICES=void]"), differs: without("env NVIDIA_VISIBLE_DEVICES=void")},
		{name: "groups", spec: device(node, "additionalGids: [44, 0, 44]"), differs: without("group 44"), warns: []string{"44", "v.example/dev=a"}},
		{name: "groups that are there", spec: device(node, "additionalGids: [44]"), bundle: func(b *bed.Bundle) { b.Config.Process.User.AdditionalGids = []uint32{44} }, has: []string{"group 44"}},
		{name: "startContainer hook", spec: device(node, hooksOf("- {hookName: startContainer, path: /probe, args: [hook]}")), alone: true, bare: true, warns: []string{"startContainer", "/probe"}},
		{name: "poststop hook", spec: device(node, hooksOf(vendor("poststop", "late"))), hide: []string{"hook"}, differs: without("rootfs /hooks-were-here -rw-r--r-- 0:0 10 bytes"), warns: []string{"poststop", vendorPath}},
		{name: "poststart hook", spec: device(node, hooksOf(vendor("poststart", "late"))), hide: []string{"hook"}, differs: without("rootfs /hooks-were-here -rw-r--r-- 0:0 10 bytes"), warns: []string{"poststart", vendorPath}},
		{name: "network device", spec: device(node, netDevice), alone: true, warns: []string{"lo", "v.example/dev=a"}},
		{name: "rdt", spec: device(node, "intelRdt: {closID: some}"), alone: true, warns: []string{"intelRdt", "v.example/dev=a"}},
		{name: "env alone", spec: device("env: [NEW=1]"), native: always(starts), refused: "v.example/dev=a"},
		{name: "env alone that is there", spec: device("env: [SECRET=1]")},
	})
}

func differing(lines ...string) func(bed.Runtime) []string {
	return func(bed.Runtime) []string { return lines }
}
