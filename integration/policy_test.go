package integration

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

const oneNode = "deviceNodes: [{path: /dev/one, hostPath: /dev/fuse}]"

// pod has the annotations that CRI-O gives a container of a namespace, and further ones.
func pod(namespace string, further ...string) map[string]string {
	m := map[string]string{
		"io.container.manager": "cri-o", "io.kubernetes.cri-o.ContainerType": "container",
		"io.kubernetes.pod.namespace": namespace, "io.kubernetes.container.name": "main",
	}
	maps.Copy(m, texts(further...))
	return m
}

func texts(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// kubelet is a request that CRI-O lists as the container's own.
func kubelet(text string) []string { return []string{"io.kubernetes.cri-o.Annotations", text} }

const (
	allowML   = "[[allow]]\ndevices = [\"v.example/dev=*\"]\nnamespaces = [\"ml\", \"team-*\"]\n"
	allowHost = "[[allow]]\ndevices = [\"v.example/dev=a\"]\n"
	allowAll  = "[[allow]]\ndevices = [\"v.example/dev=a\"]\nnamespaces = [\"*\"]\n"
	allowOwn  = allowAll + "origin = \"container\"\n"
	denyA     = "[[deny]]\ndevices = [\"v.example/dev=a\"]\n"
	denyInML  = denyA + "namespaces = [\"ml\"]\n"
)

func TestPolicy(t *testing.T) {
	const dev, advice = "v.example/dev=a", "to allow it"
	rule(t, []ruling{
		{name: "a container and no rules"},
		{name: "a container of podman's and no rules", annotations: texts("io.container.manager", "libpod")},
		{name: "a pod and no rules", annotations: pod("ml"), refused: []string{dev, "ml", advice, "/etc/oci-cdi-hook/conf.d"}},
		{name: "a pod of containerd's", annotations: texts("io.kubernetes.cri.container-type", "container"), refused: []string{dev}},
		{name: "a pod by its namespace alone", annotations: texts("io.kubernetes.pod.namespace", "ml"), refused: []string{dev, advice}},
		{name: "a pod that says it is podman's", annotations: pod("ml", "io.container.manager", "libpod"), refused: []string{dev}},
		{name: "a pod of podman's", annotations: texts("io.container.manager", "libpod", "io.kubernetes.cri-o.ContainerType", "container")},

		{name: "a namespace that is allowed", annotations: pod("ml"), config: allowML},
		{name: "a namespace by a glob", annotations: pod("team-a"), config: allowML},
		{name: "a namespace beside a glob", annotations: pod("xteam-a"), config: allowML, refused: []string{dev, "xteam-a", advice}},
		{name: "a namespace of the author's", annotations: pod("bad", "io.kubernetes.cri-o.Namespace", "ml"), config: allowML, refused: []string{`"bad"`}},
		{name: "no namespace, and all are allowed", annotations: texts("io.container.manager", "cri-o"), config: allowAll, refused: []string{"io.kubernetes.pod.namespace"}},
		{name: "a pod and a rule for containers", annotations: pod("ml"), config: allowHost, refused: []string{dev, advice}},
		{name: "a container and a rule for it", config: allowHost},
		{name: "a container and rules for pods", config: allowML},
		{name: "a container and a rule for another device", config: strings.ReplaceAll(allowHost, "=a", "=b"), refused: []string{dev, advice}},

		{name: "deny wins", config: allowHost + denyA, refused: []string{dev, "[[deny]]", "config.toml, deny 1"}},
		{name: "deny wins in a pod", annotations: pod("ml"), config: denyInML + allowML, refused: []string{dev, "[[deny]]", "config.toml, deny 1"}},
		{name: "deny elsewhere", annotations: pod("team-a"), config: denyInML + allowML},
		{name: "one of two is denied", request: texts("cdi.k8s.io/x", dev+",v.example/dev=b"), config: strings.ReplaceAll(denyA, "=a", "=b"), refused: []string{"v.example/dev=b"}},

		{name: "the kubelet's and a rule for it", annotations: pod("ml", kubelet(`{"cdi.k8s.io/x":"v.example/dev=a"}`)...), config: allowOwn},
		{name: "the author's and a rule for the kubelet", annotations: pod("ml"), config: allowOwn, refused: []string{dev, "on the pod"}},
		{name: "the author's over the kubelet's", annotations: pod("ml", kubelet(`{"cdi.k8s.io/x":"v.example/dev=b"}`)...), config: allowOwn, refused: []string{dev}},
		{name: "a list of the kubelet's that breaks off", annotations: pod("ml", kubelet(`{"cdi.k8s.io/x":"v.example/dev=a"`)...), config: allowOwn, refused: []string{dev}},

		{name: "for this container", annotations: pod("ml"), request: texts("cdi.k8s.io/container.main", dev), config: allowML},
		{name: "for another container", annotations: pod("ml"), request: texts("cdi.k8s.io/container.side", dev), config: allowML, nothing: true},
		{name: "for another container, and no rules", annotations: pod("ml"), request: texts("cdi.k8s.io/container.side", dev), nothing: true},
		{name: "by a prefix of the host's own", request: texts("my.corp/gpu", dev), config: "annotation-prefixes = [\"my.corp/\"]\n"},
		{name: "by the prefix that it replaces", config: "annotation-prefixes = [\"my.corp/\"]\n", nothing: true},

		// what is not allowed is not looked for: who asks learns nothing of the host
		{name: "a device that is not there", annotations: pod("ml"), request: texts("cdi.k8s.io/x", "v.example/dev=none"), refused: []string{"v.example/dev=none", advice}},
	})
}

func TestPolicyOfEdits(t *testing.T) {
	mount := device(oneNode, mountOf("/opt/t/f", "/opt/f", "options: [bind, ro]"))
	sources := func(trees string) string { return "[mounts]\nsources = [" + trees + "]\n" }
	linked := func(h *bed.Host) { h.File("/opt/other/f", "", 0o644); h.Link("/opt/t/f", "/opt/other/f") }
	rule(t, []ruling{
		{name: "a source below a tree", spec: mount, config: sources(`"/usr", "/opt/t"`)},
		{name: "a source beside a tree", spec: mount, config: sources(`"/usr", "/opt/t/ff"`), refused: []string{"v.example/dev=a", "/opt/t/f", "[mounts]"}},
		{name: "a source that leads out of a tree", spec: mount, host: linked, config: sources(`"/opt/t"`), refused: []string{"/opt/t/f, which is /opt/other/f"}},
		{name: "a source that leads into a tree", spec: mount, host: linked, config: sources(`"/opt/other"`)},

		{name: "an edit that cannot be made", spec: device(oneNode, "env: [NEW=1]"), config: "unsupported = \"fail\"\n", refused: []string{"unsupported", "NEW=1", "v.example/dev=a"}, late: true},
		{name: "an edit that is made already", spec: device(oneNode, "env: [SECRET=1]"), config: "unsupported = \"fail\"\n"},
		{name: "an edit that nobody misses", spec: device(oneNode, "env: [NEW=1]"), config: "unsupported = \"fail\"\nignore-env = [\"NEW=1\"]\n", late: true},
	})
}

func TestConfigFile(t *testing.T) {
	file := func(mode os.FileMode, uid int) func(*bed.Host) {
		return func(h *bed.Host) { h.File(configFile, allowHost, mode); h.Own(configFile, uid, mode) }
	}
	rule(t, []ruling{
		{name: "broken", config: "spec-dirs = [\n", refused: []string{configFile}, code: 1},
		{name: "an unknown key", config: "# x\nspec-dir = [\"/etc/cdi\"]\n", refused: []string{configFile + ":2", "spec-dir"}, code: 1},
		{name: "a wrong type", config: "\n\nunsupported = 3\n", refused: []string{configFile + ":3", "unsupported"}, code: 1},
		{name: "a wrong word", config: "cgroup = \"never\"\n", refused: []string{configFile + ":1", "cgroup", "never"}, code: 1},
		{name: "a broken glob", config: strings.ReplaceAll(allowHost, "=a", "=[a"), refused: []string{configFile + ":2", "devices", "[a"}, code: 1},
		{name: "writable by all", host: file(0o646, 0), refused: []string{configFile, "not trusted", "chmod o-w"}, code: 1},
		{name: "a user's", host: file(0o644, 1000), refused: []string{configFile, "not trusted", "1000"}, code: 1},
		{name: "in a folder of all", host: func(h *bed.Host) {
			h.File(configFile, allowHost, 0o644)
			h.Own("/etc/oci-cdi-hook", 0, 0o777)
		}, refused: []string{"/etc/oci-cdi-hook", "not trusted"}, code: 1},
		{name: "nobody asks of it", config: "spec-dirs = [\n", request: texts("other", "x"), nothing: true, late: true},
	})
}

func TestTrust(t *testing.T) {
	const spec = bed.SpecDir + "/spec.yaml"
	own := func(path string, uid int, mode os.FileMode) func(*bed.Host) {
		return func(h *bed.Host) { h.Own(path, uid, mode) }
	}
	home := func(h *bed.Host) {
		text, err := os.ReadFile(spec)
		if err == nil {
			err = os.Remove(spec)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.File("/opt/home/u/spec.yaml", string(text), 0o644)
		h.Own("/opt/home/u", 1000, 0o755)
		h.Link(spec, "/opt/home/u/spec.yaml")
	}
	hook := device(oneNode, hooksOf(vendor("createRuntime", "x")))
	var rows []ruling
	for _, r := range []ruling{
		{name: "a spec folder that all may write", host: own(bed.SpecDir, 0, 0o777), warns: bed.SpecDir},
		{name: "a spec of a user's", host: own(spec, 1000, 0o644), warns: "uid 1000"},
		{name: "a spec that all may write", host: own(spec, 0, 0o666), warns: spec},
		{name: "a spec in a home", host: home, warns: "/opt/home/u"},
	} {
		warned, strict := r, r
		warned.name, warned.config = r.name+", warn", "trusted-specs = \"warn\"\n"
		strict.warns, strict.refused, strict.code = "", []string{"not trusted", r.warns, "v.example/dev=a", "to mend it: "}, 1
		rows = append(rows, warned, strict)
	}
	rule(t, append(rows,
		ruling{name: "a folder with the sticky bit", host: own(bed.SpecDir, 0, 0o777|os.ModeSticky)},
		ruling{name: "a vendor's hook of a user's", spec: hook, host: own(vendorPath, 1000, 0o755), refused: []string{vendorPath, "not trusted"}, code: 1},
		ruling{name: "a vendor's hook that all may write, warn", spec: hook, config: "trusted-specs = \"warn\"\n", host: own(vendorPath, 0, 0o777), refused: []string{vendorPath, "not trusted"}, code: 1},
	))
}

// TestPodmanPolicy: what podman says of its containers, and what its users add.
func TestPodmanPolicy(t *testing.T) {
	rt := bed.Runtimes(t)[1]
	h, hooks := podmanHost(t, device(oneNode))
	e := newEngine(t, rt, hooks)
	filter := e
	filter.args = append(slices.Clone(e.args[:len(e.args)-1]), installFilter(t, h)) // instead of the direct entry
	for _, c := range []struct {
		config, forged string
		refused        bool
	}{
		{"", "", false},
		{allowHost, "", false},
		{allowML, "", false},
		{strings.ReplaceAll(allowHost, "=a", "=b"), "", true},
		{allowHost + denyA, "", true},
		{"", "io.kubernetes.pod.namespace=ml", true},
		{allowML, "io.kubernetes.pod.namespace=ml", false},
		{allowML, "io.kubernetes.cri-o.Namespace=ml", false}, // no sign of a pod
	} {
		if err := os.WriteFile(configFile, []byte("log = \""+bed.LogFile+"\"\n"+c.config), 0o644); err != nil {
			t.Fatal(err)
		}
		flags := []string{"--annotation", asking}
		if c.forged != "" {
			flags = append(flags, "--annotation", c.forged)
		}
		for name, e := range map[string]engine{"direct": e, "filter": filter} {
			res, log := e.run(rt, report.Ask{Paths: []string{"/dev/one"}}, flags...), bed.TakeLog(t)
			if res.Refused() != c.refused {
				t.Errorf("%s: config %q, forged %q: exit %d: %s", name, c.config, c.forged, res.Code, res.Stderr)
			}
			if c.refused {
				requireWords(t, name+"'s log", log, []string{"error", "v.example/dev=a"})
			} else {
				requireWords(t, name, res.Stdout, []string{`"10:229"`})
			}
		}
	}
	os.RemoveAll(podmanState)
}
