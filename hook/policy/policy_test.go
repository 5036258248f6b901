package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

var (
	gpu    = []string{"nvidia.com/gpu=*"}
	hostGo = Container{}
	ml     = Container{Pod: true, Namespace: "ml"}
	noName = Container{Pod: true}
)

func inPod(names ...string) (requests []Request) {
	for _, name := range names {
		requests = append(requests, Request{name, FromPod})
	}
	return requests
}

func inContainer(names ...string) (requests []Request) {
	for _, name := range names {
		requests = append(requests, Request{name, FromContainer})
	}
	return requests
}

func TestCheck(t *testing.T) {
	allow := func(rules ...Rule) Policy { return Policy{Allow: rules} }
	deny := func(p Policy, rules ...Rule) Policy { p.Deny = rules; return p }
	gpusForML := Rule{Devices: gpu, Namespaces: []string{"ml"}}
	gpusForHost := Rule{Devices: gpu}
	tests := []struct {
		name     string
		policy   Policy
		who      Container
		requests []Request
		denied   []string
	}{
		{"host, no rules", Policy{}, hostGo, inContainer("nvidia.com/gpu=0", "v.example/x=y"), nil},
		{"host, rules for pods alone", allow(gpusForML), hostGo, inContainer("v.example/x=y"), nil},
		{"host, allowed", allow(gpusForHost), hostGo, inContainer("nvidia.com/gpu=0"), nil},
		{"host, not among the allowed", allow(gpusForHost), hostGo, inContainer("nvidia.com/gpu=0", "v.example/x=y"), []string{"v.example/x=y"}},
		{"host, allowed to pods", allow(gpusForML, Rule{Devices: []string{"v.example/x=y"}}), hostGo, inContainer("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"host, origin is the container's whatever is said", allow(Rule{Devices: gpu, Origin: FromContainer}), hostGo, inPod("nvidia.com/gpu=0"), nil},
		{"host, denied", deny(Policy{}, gpusForHost), hostGo, inContainer("nvidia.com/gpu=0", "v.example/x=y"), []string{"nvidia.com/gpu=0"}},
		{"host, denied to pods", deny(Policy{}, gpusForML), hostGo, inContainer("nvidia.com/gpu=0"), nil},

		{"pod, no rules", Policy{}, ml, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"pod, no rules, the kubelet's", Policy{}, ml, inContainer("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"pod, rules for the host alone", allow(gpusForHost), ml, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"pod, allowed", allow(gpusForML), ml, inPod("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1:2.3_x"), nil},
		{"pod of another namespace", allow(gpusForML), Container{true, "mlx"}, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"pod, namespace in another case", allow(gpusForML), Container{true, "ML"}, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"pod, glob of namespaces", allow(Rule{Devices: gpu, Namespaces: []string{"x", "team-*"}}), Container{true, "team-a"}, inPod("nvidia.com/gpu=0"), nil},
		{"pod, glob of namespaces is no prefix", allow(Rule{Devices: gpu, Namespaces: []string{"team-?"}}), Container{true, "team-ab"}, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"pod without namespace", allow(Rule{Devices: gpu, Namespaces: []string{"*"}}), noName, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"pod without namespace, rule for the host", allow(gpusForHost), noName, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"no namespaces at all", allow(Rule{Devices: gpu, Namespaces: []string{}}), ml, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},

		{"second item", allow(gpusForML), ml, inPod("nvidia.com/gpu=0", "management.nvidia.com/gpu=all"), []string{"management.nvidia.com/gpu=all"}},
		{"name in another case", allow(gpusForML), ml, inPod("NVIDIA.com/gpu=0", "nvidia.com/GPU=0"), []string{"NVIDIA.com/gpu=0", "nvidia.com/GPU=0"}},
		{"longer vendor", allow(gpusForML), ml, inPod("xnvidia.com/gpu=0", "nvidia.comx/gpu=0", "nvidia.com/gpux=0"), []string{"xnvidia.com/gpu=0", "nvidia.comx/gpu=0", "nvidia.com/gpux=0"}},
		{"exact name", allow(Rule{Devices: []string{"nvidia.com/gpu=0"}, Namespaces: []string{"ml"}}), ml, inPod("nvidia.com/gpu=0", "nvidia.com/gpu=00", "nvidia.com/gpu=1"),
			[]string{"nvidia.com/gpu=00", "nvidia.com/gpu=1"}},
		{"deny wins", deny(allow(gpusForML), Rule{Devices: []string{"nvidia.com/gpu=all"}}), ml, inPod("nvidia.com/gpu=0", "nvidia.com/gpu=all"), []string{"nvidia.com/gpu=all"}},
		{"deny in one namespace", deny(allow(Rule{Devices: gpu, Namespaces: []string{"*"}}), gpusForML), ml, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"deny in another namespace", deny(allow(Rule{Devices: gpu, Namespaces: []string{"*"}}), gpusForML), Container{true, "x"}, inPod("nvidia.com/gpu=0"), nil},
		{"deny one origin", deny(allow(gpusForML), Rule{Devices: gpu, Origin: FromPod}), ml, append(inContainer("nvidia.com/gpu=0"), inPod("nvidia.com/gpu=1")...), []string{"nvidia.com/gpu=1"}},
		{"allow one origin", allow(Rule{Devices: gpu, Namespaces: []string{"ml"}, Origin: FromContainer}), ml,
			append(inContainer("nvidia.com/gpu=0"), inPod("nvidia.com/gpu=0")...), []string{"nvidia.com/gpu=0"}},
		{"unknown origin is a pod's", allow(Rule{Devices: gpu, Namespaces: []string{"ml"}, Origin: FromContainer}), ml, []Request{{Name: "nvidia.com/gpu=0"}}, []string{"nvidia.com/gpu=0"}},
		{"repeated", Policy{}, ml, inPod("v.example/x=y", "v.example/x=y"), []string{"v.example/x=y"}},
		{"nothing", Policy{}, ml, nil, nil},
		{"no name", Policy{}, hostGo, inContainer("nvidia.com/gpu", " v.example/x=y"), []string{"nvidia.com/gpu", " v.example/x=y"}},
		{"broken rule allows nothing", allow(Rule{Devices: []string{"nvidia.com/gpu=[", "nvidia.com"}, Namespaces: []string{"ml"}}), ml, inPod("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
		{"broken rule denies", deny(Policy{}, Rule{Devices: []string{"nvidia.com/gpu=["}}), hostGo, inContainer("nvidia.com/gpu=0"), []string{"nvidia.com/gpu=0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.policy.Check(tt.requests, tt.who)
			var denied *DeniedError
			if err != nil && (!errors.As(err, &denied) || denied.ExitCode() != 3) {
				t.Fatalf("%v is no DeniedError", err)
			}
			var names []string
			if denied != nil {
				for _, item := range denied.Items {
					names = append(names, item.Name)
				}
				if strings.ContainsAny(err.Error(), "\n\r") {
					t.Errorf("more than a line: %q", err)
				}
			}
			if !slices.Equal(names, tt.denied) {
				t.Errorf("denied %q, want %q: %v", names, tt.denied, err)
			}
		})
	}
}

func TestWhoIs(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		want        Container
	}{
		{"none", nil, Container{}},
		{"podman", map[string]string{"io.container.manager": "libpod", "io.podman.annotations.label": "x"}, Container{}},
		{"CRI-O", map[string]string{"io.container.manager": "cri-o"}, Container{Pod: true}},
		{"CRI-O's spelling", map[string]string{"io.container.manager": "CRI-O"}, Container{Pod: true}},
		{"namespace", map[string]string{"io.kubernetes.pod.namespace": "ml"}, Container{true, "ml"}},
		{"empty namespace", map[string]string{"io.kubernetes.pod.namespace": ""}, Container{Pod: true}},
		{"type", map[string]string{"io.kubernetes.cri-o.ContainerType": ""}, Container{Pod: true}},
		// CRI-O writes its manager over a pod author's, so that this is podman's own pod.
		{"podman's pod", map[string]string{"io.container.manager": "libpod", "io.kubernetes.cri-o.ContainerType": "container"}, Container{}},
		{"manager forged, kubelet's label", map[string]string{"io.container.manager": "libpod", "io.kubernetes.pod.namespace": "x"}, Container{Pod: true, Namespace: "x"}},
		{"manager of another", map[string]string{"io.container.manager": "x", "io.kubernetes.cri-o.ContainerType": "container"}, Container{Pod: true}},
		{"containerd", map[string]string{"io.kubernetes.cri.container-type": "container"}, Container{Pod: true}},
		{"the pod author's namespace", map[string]string{"io.container.manager": "cri-o", "io.kubernetes.cri-o.Namespace": "kube-system",
			"io.kubernetes.pod.namespace": "ml"}, Container{true, "ml"}},
		{"the pod author's namespace alone", map[string]string{"io.container.manager": "cri-o", "io.kubernetes.cri-o.Namespace": "kube-system"}, Container{Pod: true}},
	}
	for _, tt := range tests {
		if got := WhoIs(tt.annotations); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestByOrigin(t *testing.T) {
	const key, value = "cdi.k8s.io/x", "v.example/x=y"
	tests := []struct {
		name string
		who  Container
		own  string
		want Origin
	}{
		{"podman", hostGo, "", FromContainer},
		{"podman, forged list", hostGo, "{}", FromContainer},
		{"kubelet", ml, `{"cdi.k8s.io/x":"v.example/x=y"}`, FromContainer},
		{"pod's", ml, `{"io.kubernetes.container.hash":"1"}`, FromPod},
		{"pod's, under the kubelet's key", ml, `{"cdi.k8s.io/x":"v.example/x=z"}`, FromPod},
		{"no list", ml, "", FromPod},
		{"null", ml, "null", FromPod},
		{"no JSON", ml, `{"cdi.k8s.io/x":"v.example/x=y"`, FromPod},
		{"JSON that goes wrong later", ml, `{"cdi.k8s.io/x":"v.example/x=y","z":1}`, FromPod},
		{"another case", ml, `{"CDI.k8s.io/x":"v.example/x=y"}`, FromPod},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			annotations := map[string]string{key: value, "io.kubernetes.cri-o.Annotations": tt.own}
			divided := ByOrigin(annotations, tt.who)
			if divided[tt.want][key] != value {
				t.Errorf("%v", divided)
			}
			all := maps.Clone(divided[FromContainer])
			maps.Copy(all, divided[FromPod])
			if !maps.Equal(all, annotations) || len(divided[FromContainer])+len(divided[FromPod]) != len(annotations) {
				t.Errorf("%v are not the annotations divided", divided)
			}
		})
	}
}

func TestCheckPatterns(t *testing.T) {
	good := []string{"nvidia.com/gpu=*", "v.example/x=y", "a/b=[0-9]", `a/b=\*`, "a/b=GPU-?:[^a]*", "v_1.x/c-2=a.b:c_d-e"}
	for _, pattern := range good {
		if err := CheckDevice(pattern); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	bad := map[string]string{
		"": "not of the form", "*": "not of the form", "nvidia.com/gpu": "not of the form", "nvidia.com=0": "not of the form", "/gpu=0": "not of the form",
		"nvidia.com/*=0": "after the = only", "*/gpu=0": "after the = only", "nvidia.com/gpu=": "not of the form", "3d/gpu=0": "should start with letter",
		"nvidia.com/gpu=[": "broken glob", "nvidia.com/gpu=a[b-": "broken glob", `nvidia.com/gpu=\`: "broken glob", "nvidia.com/gpu=[]": "broken glob",
		"nvidia.com/gpu=0,nvidia.com/gpu=1": `","`, "nvidia.com/gpu=0 ": `" "`, "nvidia.com/gpu=a/b": `"/"`, "nvidia.com/gpu=a=b": `"="`,
		"nvidia.com/gpu/x=0": "invalid", "nvidia.com /gpu=0": "invalid", "nvidia.com/gpu=\n": `"\n"`, "nvidia.com/gpu={a,b}": `"{"`,
	}
	for pattern, reason := range bad {
		if err := CheckDevice(pattern); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, want %q", pattern, err, reason)
		}
	}
	for pattern, reason := range map[string]string{"": "empty", "a b": `" "`, "team/x": `"/"`, "Team": `"T"`, "x[": "broken glob", "a,b": `","`, "team_a": `"_"`} {
		if err := CheckNamespace(pattern); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("namespace %q: %v, want %q", pattern, err, reason)
		}
	}
	for _, pattern := range []string{"ml", "team-*", "[a-z]?", "*"} {
		if err := CheckNamespace(pattern); err != nil {
			t.Errorf("namespace %s: %v", pattern, err)
		}
	}
	for origin, ok := range map[string]bool{"pod": true, "container": true, "": false, "Pod": false, "node": false} {
		if err := CheckOrigin(origin); (err == nil) != ok {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
}
