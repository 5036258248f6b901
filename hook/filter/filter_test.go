package filter

import (
	"os"
	"strings"
	"testing"
)

// The part of the config that an edit is about, before and after.
func TestEdits(t *testing.T) {
	tests := map[string]struct{ edits, before, after string }{
		"env in place, the last of a name": {
			`{env: [PATH=/s, X=a, NEW=1]}`,
			`,"process":{"env":["PATH=/bin","X=o","H=r","X=o2"],"cwd":"/"}`,
			`,"process":{"env":["PATH=/s","X=o","H=r","X=a","NEW=1"],"cwd":"/"}`,
		},
		"env, the same": {
			`{env: [A=1]}`, `,"process":{"env":[ "\u0041=1" ]}`, `,"process":{"env":[ "\u0041=1" ]}`,
		},
		"env keeps other spellings": {
			`{env: ["B=<&>"]}`, `,"process":{"env":[ "\u0041=\u003c" ]}`, `,"process":{"env":["\u0041=\u003c","B=<&>"]}`,
		},
		"env without a process": {`{env: [A=1]}`, ``, `,"process":{"env":["A=1"]}`},
		"env instead of null":   {`{env: [A=1]}`, `,"process":{"env":null,"x":1}`, `,"process":{"env":["A=1"],"x":1}`},
		"process null":          {`{env: [A=1]}`, `,"process":null`, `,"process":{"env":["A=1"]}`},
		"env of an empty list":  {`{env: [A=1]}`, `,"process":{"env":[]}`, `,"process":{"env":["A=1"]}`},
		"gids": {
			`{additionalGids: [0, 44, 44, 5, 109]}`,
			`,"process":{"user":{"uid":1,"additionalGids":[5],"umask":18}}`,
			`,"process":{"user":{"uid":1,"additionalGids":[5,44,109],"umask":18}}`,
		},
		"owner of nodes": {
			`{deviceNodes: [{path: /dev/x, type: c, major: 1, minor: 3, fileMode: 0600}, {path: /dev/y, type: c, major: 1, minor: 3, fileMode: 0600, uid: 0, gid: 44}]}`,
			`,"process":{"user":{"uid":1000,"gid":1001}},"linux":{"resources":{"devices":[]}}`,
			`,"process":{"user":{"uid":1000,"gid":1001}},"linux":{"resources":{"devices":[{"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"}]},` +
				`"devices":[{"path":"/dev/x","type":"c","major":1,"minor":3,"fileMode":384,"uid":1000,"gid":1001},{"path":"/dev/y","type":"c","major":1,"minor":3,"fileMode":384,"uid":0,"gid":44}]}`,
		},
		"numbers of the host path": {
			`{deviceNodes: [{path: /dev/mine, hostPath: /dev/zero, fileMode: 0600, permissions: none}]}`, ``,
			`,"linux":{"devices":[{"path":"/dev/mine","type":"c","major":1,"minor":5,"fileMode":384}]}`,
		},
		"rules": {
			`{deviceNodes: [{path: /dev/x, type: c, major: 195, minor: 255, fileMode: 0}, {path: /dev/y, type: b, major: 7, permissions: r, fileMode: 0}, {path: /dev/z, type: c, major: 195, minor: 255, fileMode: 0}]}`,
			`,"linux":{"devices":[],"resources":{"devices":[{"allow":false,"access":"rwm","x":18446744073709551615}],"y":1}}`,
			`,"linux":{"devices":[{"path":"/dev/x","type":"c","major":195,"minor":255,"fileMode":0},{"path":"/dev/y","type":"b","major":7,"minor":0,"fileMode":0},{"path":"/dev/z","type":"c","major":195,"minor":255,"fileMode":0}],` +
				`"resources":{"devices":[{"allow":false,"access":"rwm","x":18446744073709551615},{"allow":true,"type":"c","major":195,"minor":255,"access":"rwm"},{"allow":true,"type":"b","major":7,"minor":0,"access":"r"}],"y":1}}`,
		},
		"a rule that is denied again": {
			`{deviceNodes: [{path: /dev/x, type: c, major: 1, minor: 3, fileMode: 0}]}`,
			`,"linux":{"devices":[{"path":"/dev/x","type":"c","major":1,"minor":3,"fileMode":0}],"resources":{"devices":[{"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"},{"allow":false}]}}`,
			`,"linux":{"devices":[{"path":"/dev/x","type":"c","major":1,"minor":3,"fileMode":0}],"resources":{"devices":[{"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"},{"allow":false},{"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"}]}}`,
		},
		"all is allowed already": {
			`{deviceNodes: [{path: /dev/x, type: p, permissions: none, fileMode: 0}]}`,
			`,"linux":{"resources":{"devices":[{"allow":true,"access":"rwm"}]}}`,
			`,"linux":{"resources":{"devices":[{"allow":true,"access":"rwm"}]},"devices":[{"path":"/dev/x","type":"p","major":0,"minor":0,"fileMode":0}]}`,
		},
		"one device a path": {
			`{deviceNodes: [{path: /dev/x, type: p, permissions: none, fileMode: 0}]}`,
			`,"linux":{"devices":[{"path":"/dev/x","type":"c"},{"path":"/dev/o","q":1.50},{"path":"/dev/x"},{"path":"/dev/x"}]}`,
			`,"linux":{"devices":[{"path":"/dev/o","q":1.50},{"path":"/dev/x","type":"p","major":0,"minor":0,"fileMode":0}]}`,
		},
		"mounts by depth, others as they were": {
			`{mounts: [{hostPath: /1, containerPath: /usr/lib/x/deep/er}, {hostPath: /2, containerPath: /usr/lib/x, options: [ro, rbind]}]}`,
			`,"mounts":[{"destination":"/proc"},{"destination":"/dev","odd":[1E2]},{"destination":"/dev/pts/"},{"destination":"/etc/hosts","options":[]},{"destination":"/data"}]`,
			`,"mounts":[{"destination":"/proc"},{"destination":"/dev","odd":[1E2]},{"destination":"/data"},{"destination":"/dev/pts/"},{"destination":"/etc/hosts","options":[]},` +
				`{"destination":"/usr/lib/x","source":"/2","options":["ro","rbind"]},{"destination":"/usr/lib/x/deep/er","source":"/1"}]`,
		},
		"a user's mount of the same destination": {
			`{mounts: [{hostPath: /1, containerPath: /data/, type: bind}, {hostPath: /2, containerPath: /dev/shm}]}`,
			`,"mounts":[{"destination":"/dev/shm","source":"a"},{"destination":"/data","source":"v"},{"destination":"/dev/shm","source":"b"}]`,
			`,"mounts":[{"destination":"/data","source":"v"},{"destination":"/data/","type":"bind","source":"/1"},{"destination":"/dev/shm","source":"b"},{"destination":"/dev/shm","source":"/2"}]`,
		},
		"id-mapped mounts": {
			`{mounts: [{hostPath: /1, containerPath: /a, options: [ro, rbind]}, {hostPath: /1, containerPath: /b, type: bind, options: [ro]}, {hostPath: /1, containerPath: /c, options: [bind, idmap]}, {hostPath: /1, containerPath: /d, type: efivarfs}]}`,
			`,"linux":{"namespaces":[{"type":"user"}],"uidMappings":[{"containerID":0,"hostID":1,"size":1}],"gidMappings":[{"containerID":0,"hostID":1,"size":1}]}`,
			`,"linux":{"namespaces":[{"type":"user"}],"uidMappings":[{"containerID":0,"hostID":1,"size":1}],"gidMappings":[{"containerID":0,"hostID":1,"size":1}]},` +
				`"mounts":[{"destination":"/a","source":"/1","options":["ro","rbind","ridmap"]},{"destination":"/b","type":"bind","source":"/1","options":["ro","idmap"]},{"destination":"/c","source":"/1","options":["bind","idmap"]},{"destination":"/d","type":"efivarfs","source":"/1"}]`,
		},
		"hooks of all stages, the same twice": {
			`{hooks: [{hookName: poststop, path: /q, timeout: 3}, {hookName: startContainer, path: /h, args: [h, "<"], env: [A=1]}, {hookName: createContainer, path: /c}, {hookName: createRuntime, path: /r}, {hookName: poststart, path: /w}, {hookName: prestart, path: /p}, {hookName: prestart, path: /p}]}`,
			`,"hooks":{"startContainer":[{"path":"/own","odd":1}],"odd":{}}`,
			`,"hooks":{"startContainer":[{"path":"/own","odd":1},{"path":"/h","args":["h","<"],"env":["A=1"]}],"odd":{},"prestart":[{"path":"/p"},{"path":"/p"}],"createRuntime":[{"path":"/r"}],"createContainer":[{"path":"/c"}],"poststart":[{"path":"/w"}],"poststop":[{"path":"/q","timeout":3}]}`,
		},
		"a hook that is there": {
			`{hooks: [{hookName: prestart, path: /p, args: [p], timeout: 3}, {hookName: createRuntime, path: /p, args: [p]}]}`,
			`,"hooks":{"prestart":[{"path":"/p","args":["p"],"env":[]}],"createRuntime":[{"path":"/p","args":["q"]}]}`,
			`,"hooks":{"prestart":[{"path":"/p","args":["p"],"env":[]}],"createRuntime":[{"path":"/p","args":["q"]},{"path":"/p","args":["p"]}]}`,
		},
		"a hook that is there once of two times, and one of another env": {
			`{hooks: [{hookName: prestart, path: /p}, {hookName: prestart, path: /p}, {hookName: prestart, path: /q, env: [A=1]}]}`,
			`,"hooks":{"prestart":[{"path":"/p"},{"path":"/q"}]}`,
			`,"hooks":{"prestart":[{"path":"/p"},{"path":"/q"},{"path":"/p"},{"path":"/q","env":["A=1"]}]}`,
		},
		"mounts that are there stay": {
			`{mounts: [{hostPath: /1, containerPath: /a, options: [ro]}, {hostPath: /2, containerPath: /b}]}`,
			`,"mounts":[{"destination":"/b","source":"/2","odd":1},{"destination":"/a","source":"/o"},{"destination":"/a","source":"/1","options":["ro"]},{"destination":"/z"}]`,
			`,"mounts":[{"destination":"/b","source":"/2","odd":1},{"destination":"/a","source":"/o"},{"destination":"/a","source":"/1","options":["ro"]},{"destination":"/z"}]`,
		},
		"mounts of which one differs": {
			`{mounts: [{hostPath: /1, containerPath: /a}, {hostPath: /2, containerPath: /b}]}`,
			`,"mounts":[{"destination":"/a","source":"/1"},{"destination":"/b","source":"/3"},{"destination":"/z"}]`,
			`,"mounts":[{"destination":"/z"},{"destination":"/a","source":"/1"},{"destination":"/b","source":"/2"}]`,
		},
		"a mount that differs in its options": {
			`{mounts: [{hostPath: /1, containerPath: /a, options: [ro, bind]}]}`,
			`,"mounts":[{"destination":"/a","source":"/1","options":["bind","ro"]}]`,
			`,"mounts":[{"destination":"/a","source":"/1","options":["ro","bind"]}]`,
		},
		"interfaces": {
			`{netDevices: [{hostInterfaceName: b, name: e1}, {hostInterfaceName: a, name: e0}, {hostInterfaceName: c, name: e2}]}`,
			`,"linux":{"netDevices":{"c":{"name":"e2","odd":1},"b":{"name":"old"}}}`,
			`,"linux":{"netDevices":{"c":{"name":"e2","odd":1},"b":{"name":"e1"},"a":{"name":"e0"}}}`,
		},
		"intelRdt":           {`{intelRdt: {closID: x, l3CacheSchema: "L3:0=f"}}`, `,"linux":{"intelRdt":{"closID":"y","odd":1}}`, `,"linux":{"intelRdt":{"closID":"x","l3CacheSchema":"L3:0=f"}}`},
		"intelRdt, the same": {`{intelRdt: {closID: x}}`, `,"linux":{"intelRdt":{"odd":1,"closID":"x"}}`, `,"linux":{"intelRdt":{"odd":1,"closID":"x"}}`},
		"white space stays":  {`{env: [A=1]}`, "\n, \"process\" : {\t\"cwd\" : \"/\"\n} , \"z\" : [ 1 , 2 ]\n", "\n, \"process\" : {\t\"cwd\" : \"/\",\"env\":[\"A=1\"]\n} , \"z\" : [ 1 , 2 ]\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := specDir(t, "{}", "a="+test.edits)
			got := filterOf(t, settings(dir), wrap(test.before))
			if want := wrap(test.after); got != want {
				t.Errorf("\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestNothingAsked(t *testing.T) {
	real, err := os.ReadFile("testdata/podman.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range []string{
		strings.Replace(string(real), "cdi.k8s.io/", "cdi.k8s.io.example/", 1),
		" \n{ \"ociVersion\":\"1.0.2\" ,\"a\":18446744073709551616.00e1,\"\\u003c\":\"\\/\xff\"}\n\n",
		`{"annotations":null,"linux":null}`,
		`{"annotations":{"a":5},"linux":{"devices":[{"path":"/dev/vendor.com/device=x"},null,{}]},"hooks":7}`,
	} {
		output, out, err := run(settings("/nonexistent"), strings.NewReader(input), initialNamespace)
		if err != nil || string(output) != input || out.Changed || len(out.Devices) > 0 {
			t.Errorf("%q: %q, %+v, %v", input, output, out, err)
		}
	}
}

func TestRequests(t *testing.T) {
	dir := specDir(t, "{env: [S=1]}", "a={env: [V=a]}", "b={env: [V=b]}", "c={env: [V=c]}")
	input := `{"annotations":{"cdi.k8s.io/z":"v.example/dev=a,v.example/dev=a","cdi.k8s.io/a":"v.example/dev=b"},` +
		`"linux":{"devices":[{"path":"/dev/o","odd":1},{"path":"v.example/dev=c","type":"","major":0}]}}`
	want := `{"annotations":{"cdi.k8s.io/z":"v.example/dev=a,v.example/dev=a","cdi.k8s.io/a":"v.example/dev=b"},` +
		`"linux":{"devices":[{"path":"/dev/o","odd":1}]},"process":{"env":["S=1","V=c"]}}`
	output, out, err := run(settings(dir), strings.NewReader(input), initialNamespace)
	if err != nil || string(output) != want {
		t.Errorf("%s, %v", output, err)
	}
	if got := strings.Join(out.Devices, " "); got != "v.example/dev=b v.example/dev=a v.example/dev=c" || !out.Changed {
		t.Errorf("devices %s, changed %v", got, out.Changed)
	}
	if got := filterOf(t, settings(dir), `{"linux":{"devices":[{"path":"v.example/dev=a"}]}}`); got != `{"linux":{"devices":[]},"process":{"env":["S=1","V=a"]}}` {
		t.Error(got)
	}
	s := settings(dir)
	s.AnnotationPrefixes = []string{"other/"}
	if got := filterOf(t, s, `{"annotations":{"other/x":"v.example/dev=a"}}`); !strings.Contains(got, "V=a") {
		t.Error(got)
	}
}

// One container of a pod is asked for by its name.
func TestContainerName(t *testing.T) {
	s := settings(specDir(t, "{}", "a={env: [V=a]}"))
	for name, isAsked := range map[string]bool{"one": true, "two": false} {
		input := `{"annotations":{"io.kubernetes.container.name":"` + name + `","cdi.k8s.io/container.one":"v.example/dev=a"}}`
		if got := filterOf(t, s, input); strings.Contains(got, "V=a") != isAsked {
			t.Errorf("%s: %s", name, got)
		}
	}
}
