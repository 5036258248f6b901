package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
)

const (
	longID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	acts   = `[{"kind":"mount","device":"v.example/dev=a","spec":"/etc/cdi/v.yaml","mount":{"source":"/usr/lib/x","target":"/opt/x","options":["ro","bind"],"bind":true}},
		{"kind":"node","device":"v.example/dev=a","spec":"/etc/cdi/v.yaml","node":{"path":"/dev/x","hostPath":"/dev/fuse","type":"c","major":10,"minor":229,"mode":"0660","uid":0,"gid":44}},
		{"kind":"rule","device":"v.example/dev=a","spec":"/etc/cdi/v.yaml","rule":{"type":"c","major":10,"minor":229,"access":"rwm"}}]`
	without = `[{"edit":"env","value":"A=1","device":"v.example/dev=a","spec":"/etc/cdi/v.yaml","reason":"the environment is fixed"},
		{"edit":"env","value":"Q=1","device":"v.example/dev=a","spec":"/etc/cdi/v.yaml","reason":"the environment is fixed","quiet":true}]`
)

// stateDir makes a state directory with records of containers: one that runs, one that is
// being worked on, one that has ended, one that is cut short, and one of a newer version.
func stateDir(t *testing.T) (dir string, normal func(string) string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	d, err := record.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	boot, err := oci.BootID()
	if err != nil {
		t.Fatal(err)
	}
	self, err := oci.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	lives := record.Record{Pid: self.Pid, StartTime: self.StartTime, BootID: boot, Time: at, Devices: []string{"v.example/dev=a"}, Actions: json.RawMessage(acts)}
	runs, busy, ended := lives, lives, lives
	runs.ID, runs.Bundle, runs.Done, runs.Name, runs.Pod, runs.Engine = longID, "/b/1", true, "main", "ml/train", "cri-o"
	runs.Unsupported = json.RawMessage(without)
	busy.ID, busy.Bundle = "c-busy", "/b/2"
	ended.ID, ended.Bundle, ended.Done, ended.BootID, ended.Name = "c-ended", "/b/3", true, "another", "e\x1b[31m\tvil"
	for _, r := range []record.Record{runs, busy, ended} {
		e, err := d.Lock(t.Context(), r.ID, r.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Write(&r); err != nil {
			t.Fatal(err)
		}
		if err := e.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"c-cut-0123456789abcdef.json": `{"version":1,"id":"c-c`, "c-newer-0123456789abcdef.json": `{"version":99,"id":"c-newer"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []record.Failure{
		{Time: at, ID: longID, Name: "main", Stage: "createRuntime", Devices: []string{"v.example/dev=a", "v.example/dev=b"}, Reason: "device v.example/dev=b: <denied>", ExitCode: 3},
		{Time: at.Add(time.Minute), Stage: "precreate", Devices: []string{}, Reason: "config.toml:1: no\tsuch key", ExitCode: 1},
	} {
		if err := d.AddFailure(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	pid := strconv.Itoa(self.Pid)
	return dir, func(text string) string {
		return strings.NewReplacer(dir, "/run/oci-cdi-hook", `"pid": `+pid, `"pid": 4242`, " "+pid+",", " 4242,").Replace(text)
	}
}

func inUTC(t *testing.T) {
	t.Helper()
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
}

func TestStatusGolden(t *testing.T) {
	inUTC(t)
	dir, normal := stateDir(t)
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"status.json":        {[]string{"status", "--json"}, 0},
		"status-one.txt":     {[]string{"status", "0123"}, 0},
		"status-one.json":    {[]string{"status", "main", "--json"}, 0},
		"status-broken.txt":  {[]string{"status", "c-cut"}, 1},
		"status-unknown.txt": {[]string{"status", "c-none"}, 3},
		"status-several.txt": {[]string{"status", "c-"}, 3},
		"failed.txt":         {[]string{"status", "--failed"}, 0},
		"failed.json":        {[]string{"status", "--failed", "--json"}, 0},
		"failed-one.json":    {[]string{"status", "--failed", "01", "--json"}, 0},
		"verify-broken.txt":  {[]string{"verify"}, 1},
		"verify-broken.json": {[]string{"verify", "--json"}, 1},
		"verify-ended.txt":   {[]string{"verify", "c-ended"}, 1},
		"verify-unknown.txt": {[]string{"verify", "c-none"}, 3},
		"repair-broken.txt":  {[]string{"repair", "--all"}, 1},
		"repair-broken.json": {[]string{"repair", "--all", "--json"}, 1},
		"repair-ended.txt":   {[]string{"repair", "c-ended"}, 1},
		"repair-unknown.txt": {[]string{"repair", "c-none"}, 3},
		"repair-nothing.txt": {[]string{"repair"}, 2},
		"repair-both.txt":    {[]string{"repair", "c-ended", "--all"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := runWith(t, "", append(c.args, "--state-dir", dir)...)
			if r.code != c.code {
				t.Errorf("exit %d", r.code)
			}
			text := r.out
			if r.err != "" && !strings.HasSuffix(name, ".json") {
				text += "--- stderr\n" + r.err
			}
			wantGolden(t, name, normal(text))
		})
	}
}

// The width of a column is that of the longest pid: this one is the same everywhere.
func TestStatusTable(t *testing.T) {
	inUTC(t)
	dir, _ := stateDir(t)
	report, err := hook.Status(hook.Settings{StateDir: dir}, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range report.Containers {
		report.Containers[i].Pid = 4242
	}
	var out bytes.Buffer
	printStatus(&out, report)
	wantGolden(t, "status.txt", out.String())
	r := runWith(t, "", "status", "--state-dir", dir)
	if r.code != 0 || strings.Count(r.out, "\n") != 4 || strings.Count(r.err, "\n") != 2 {
		t.Errorf("%+v", r)
	}
}

// verification is what the tests cannot have without containers.
var verification = &hook.Verification{
	Containers: []hook.Verified{
		{ID: "c-fine", Pid: 41, State: hook.StateAsGiven, Devices: []string{"v.example/dev=a"}, Faults: []hook.Fault{}, Unchecked: []string{}},
		{
			ID: longID, Name: "main", Pod: "ml/train", Pid: 42, State: hook.StateDiffers, Devices: []string{"v.example/dev=a"},
			Faults: []hook.Fault{
				{Kind: plan.KindNode, Origin: plan.Origin{Device: "v.example/dev=a", Spec: "/etc/cdi/v.yaml"}, What: "/dev/x", Fault: hook.FaultStale, Text: "given c 509:0, the host's /dev/x is c 511:0"},
				{Kind: plan.KindRule, Origin: plan.Origin{Device: "v.example/dev=a", Spec: "/etc/cdi/v.yaml"}, What: "c 509:0 rwm", Fault: hook.FaultDenied, Text: "cgroup /sys/fs/cgroup/x denies it", Cgroup: "/sys/fs/cgroup/x"},
			},
			Unchecked: []string{"open in root /opt/x: permission denied (device v.example/dev=a of spec /etc/cdi/v.yaml)"},
		},
		{ID: "c-ended", Pid: 43, State: hook.StateGone, Devices: []string{}, Faults: []hook.Fault{}, Unchecked: []string{}},
	},
	Errors: []hook.BrokenRecord{},
}

func TestVerifyGolden(t *testing.T) {
	var out, complaints, asJSON bytes.Buffer
	printVerification(streams{out: &out, err: &complaints}, verification)
	wantGolden(t, "verify.txt", out.String()+"--- stderr\n"+complaints.String())
	if err := printJSON(&asJSON, verification); err != nil {
		t.Fatal(err)
	}
	wantGolden(t, "verify.json", asJSON.String())
	if code := exitCode(verification.Err()); code != 4 {
		t.Errorf("exit %d", code)
	}
}

func TestStatusOfNothing(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir() + "/empty"} {
		if strings.HasSuffix(dir, "empty") {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			args []string
			want ran
		}{
			{[]string{"status"}, ran{err: "no container has a record\n"}},
			{[]string{"status", "--json"}, ran{out: "{\n  \"containers\": [],\n  \"errors\": []\n}\n"}},
			{[]string{"status", "--failed"}, ran{err: "no failure is kept\n"}},
			{[]string{"status", "--failed", "--json"}, ran{out: "{\n  \"failures\": []\n}\n"}},
			{[]string{"verify"}, ran{}},
			{[]string{"verify", "--json"}, ran{out: "{\n  \"containers\": [],\n  \"errors\": []\n}\n"}},
		} {
			if r := runWith(t, "", append(c.args, "--state-dir", dir)...); r != c.want {
				t.Errorf("%q: %+v", c.args, r)
			}
		}
		if r := runWith(t, "", "status", "x", "--state-dir", dir); r.code != 3 {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(dir); err == nil != strings.HasSuffix(dir, "empty") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// What a stage refuses can be asked for later, and a stage that is asked for nothing
// leaves nothing.
func TestFailuresAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	flags := []string{"--state-dir", dir, "--log-file", filepath.Join(t.TempDir(), "log"), "--spec-dir", t.TempDir()}
	for _, stdin := range []string{`{"id":"c1","pid":0}`, `{`} {
		runWith(t, stdin, append([]string{"createRuntime"}, flags...)...)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a state directory for nothing")
	}
	runWith(t, strings.Replace(askingState, "=a", "=a,", 1), append([]string{"createRuntime"}, flags...)...)
	runWith(t, `{"annotations":{"cdi.k8s.io/x":"v.example/dev=b"},"linux":{"cgroupsPath":"machine.slice:libpod:`+longID+`"}}`, append([]string{"precreate"}, flags...)...)
	r := runWith(t, "", "status", "--failed", "--json", "--state-dir", dir)
	var list struct{ Failures []record.Failure }
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list.Failures) != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	first, second := list.Failures[1], list.Failures[0]
	if first.ID != "c1" || first.Stage != "createRuntime" || first.ExitCode != 3 || !strings.Contains(first.Reason, "cdi.k8s.io/x") {
		t.Errorf("%+v", first)
	}
	if second.ID != longID || second.Stage != "precreate" || second.ExitCode != 3 || !strings.Contains(second.Reason, "v.example/dev=b") || time.Since(second.Time) > time.Hour {
		t.Errorf("%+v", second)
	}
}
