package integration

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// autoLog takes the tests' own log out of a hook's arguments: then it goes where a host keeps its logs.
func autoLog(args []string) []string {
	at := slices.Index(args, "--log-level")
	return slices.Delete(slices.Clone(args), at, at+4)
}

// chatty is a spec of which a hook can do a part.
func chatty() string {
	return device(oneNode, "env: [NEW=1]", "additionalGids: [44]", hooksOf(vendor("poststop", "late")))
}

const containerName = "some\nname" // of an annotation, thus of anybody

// logging is a container that asks and whose hook logs by itself.
func logging(t *testing.T, request string) *bed.Bundle {
	t.Helper()
	b := bed.NewBundle(t)
	b.Ask(report.Ask{Paths: []string{"/dev/one"}})
	b.Config.Annotations["io.kubernetes.container.name"] = containerName
	if request != "" {
		b.Annotate(request)
	}
	b.Register()
	hook := &b.Config.Hooks.CreateRuntime[0]
	hook.Args = autoLog(hook.Args)
	b.Write()
	return b
}

func logHost(t *testing.T, spec string) *bed.Host {
	t.Helper()
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	h.StandInsFor(bed.WriteSpec(t, "spec.yaml", spec))
	return h
}

func TestJournal(t *testing.T) {
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		journal := logHost(t, chatty()).Listen(bed.JournalSocket)
		for _, c := range []struct {
			request   string
			refused   bool
			said      []string // one an entry
			priority  []string
			spec, dev string
		}{
			{"v.example/dev=a", false, []string{vendorPath, "NEW=1", "44", "gave the container v.example/dev=a"}, []string{"4", "4", "4", "6"}, bed.SpecDir + "/spec.yaml", "v.example/dev=a"},
			{"v.example/dev=none", true, []string{"v.example/dev=none"}, []string{"3"}, "", "v.example/dev=none"},
			{"none at all", true, []string{"none at all"}, []string{"3"}, "", ""},
			{"", false, nil, nil, "", ""},
		} {
			b := logging(t, c.request)
			if res := b.Run(rt); res.Refused() != c.refused {
				t.Errorf("%s: exit %d: %s", c.request, res.Code, res.Stderr)
			}
			entries := journal.JournalEntries()
			if len(entries) != len(c.said) {
				t.Errorf("%s: %d entries instead of %d: %v", c.request, len(entries), len(c.said), entries)
				continue
			}
			for i, e := range entries {
				requireEntry(t, e, map[string]string{
					"CONTAINER_ID": b.ID, "CONTAINER_NAME": containerName, "OCI_STAGE": "createRuntime", "SYSLOG_IDENTIFIER": "oci-cdi-hook",
					"CDI_DEVICES": c.dev, "CDI_SPECS": c.spec, "PRIORITY": c.priority[i],
				})
				requireWords(t, "MESSAGE", e["MESSAGE"], []string{c.said[i]})
			}
		}
		bed.DropRecords(t, bed.StateDir)
	})
}

func requireEntry(t *testing.T, e, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if e[name] != value {
			t.Errorf("%s is %q, not %q", name, e[name], value)
		}
	}
	if usec, err := strconv.Atoi(e["DURATION_USEC"]); err != nil || usec <= 0 || usec > 60e6 {
		t.Errorf("DURATION_USEC is %q", e["DURATION_USEC"])
	}
}

// TestSyslog: a host without a journal.
func TestSyslog(t *testing.T) {
	rt := bed.Runtimes(t)[1]
	syslog := logHost(t, chatty()).Listen(bed.SyslogSocket)
	b := logging(t, "v.example/dev=a")
	if res := b.Run(rt); res.Refused() {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	lines := syslog.Take()
	// daemon is facility 3
	form := regexp.MustCompile(`^<(28|30)>\w+ +\d+ [\d:]+ oci-cdi-hook\[\d+\]: .* CDI_DEVICES="v.example/dev=a" CDI_SPECS="/.*spec.yaml" CONTAINER_ID="` + b.ID + `" CONTAINER_NAME="some\\nname" DURATION_USEC="\d+" OCI_STAGE="createRuntime"\n?$`)
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "<28>") || !strings.HasPrefix(lines[3], "<30>") {
		t.Errorf("%q", lines)
	}
	for _, l := range lines {
		if !form.MatchString(l) {
			t.Errorf("a line is %q", l)
		}
	}
	logging(t, "").Run(rt)
	if lines := syslog.Take(); len(lines) > 0 {
		t.Errorf("nothing was asked: %q", lines)
	}
	bed.DropRecords(t, bed.StateDir)
}

// TestNoLog: a host without any log, or with what is left of one, starts containers all the same.
func TestNoLog(t *testing.T) {
	rt := bed.Runtimes(t)[1]
	for name, remains := range map[string]func(*bed.Host){
		"none":                       func(*bed.Host) {},
		"a socket without a journal": func(h *bed.Host) { h.Dir("/run/systemd/journal"); h.Socket(bed.JournalSocket) },
		"a file for a syslog":        func(h *bed.Host) { h.File(bed.SyslogSocket, "", 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			remains(logHost(t, chatty()))
			if res := logging(t, "v.example/dev=a").Run(rt); res.Refused() {
				t.Errorf("exit %d: %s", res.Code, res.Stderr)
			}
			res := logging(t, "v.example/dev=none").Run(rt)
			if !res.Refused() || !strings.Contains(res.Stderr, "v.example/dev=none") {
				t.Errorf("exit %d: %s", res.Code, res.Stderr)
			}
		})
	}
}

// TestLogFile: a file that was asked for, and what may lie in its place.
func TestLogFile(t *testing.T) {
	h := logHost(t, chatty())
	journal := h.Listen(bed.JournalSocket)
	state := `{"id":"c","pid":99999999,"bundle":"/","status":"creating","annotations":{"cdi.k8s.io/x":"v.example/dev=none"}}`
	call := func(args ...string) bed.Result {
		return bed.Run(t, state, nil, slices.Concat([]string{bed.Hook(t)}, autoLog(bed.HookArgs("createRuntime")), args)...)
	}
	const file = bed.WorkDir + "/some.log"
	for range 2 {
		if res := call("--log-file", file); res.Code == 0 || strings.Contains(res.Stderr, "warning") {
			t.Errorf("exit %d: %s", res.Code, res.Stderr)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Count(string(raw), "\n") != 2 || strings.Count(string(raw), ` error: `) != 2 {
		t.Errorf("%v: %s", err, raw)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	h.Link(bed.WorkDir+"/link.log", file)
	h.Pipe(bed.WorkDir + "/pipe.log")
	for _, odd := range []string{bed.WorkDir + "/link.log", bed.WorkDir + "/pipe.log", bed.WorkDir + "/no/such.log", bed.WorkDir} {
		res := call("--log-file", odd)
		if !strings.Contains(res.Stderr, "warning: log:") || !strings.Contains(res.Stderr, odd) {
			t.Errorf("%s: nobody is told: %s", odd, res.Stderr)
		}
	}
	if res := call("--log-file", "some.log"); res.Code != 2 {
		t.Errorf("a relative path: exit %d: %s", res.Code, res.Stderr)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(raw) {
		t.Errorf("a link was followed: %v %s", err, again)
	}
	h.File(configFile, "log = \""+file+"\"\n", 0o644)
	call()
	if again, _ := os.ReadFile(file); strings.Count(string(again), "\n") != 3 {
		t.Errorf("the configured file has %s", again)
	}
	call("--log-file", file, "--log-level", "debug")
	if entries := journal.JournalEntries(); len(entries) > 0 {
		t.Errorf("the journal has %v", entries)
	}
}

// TestFullJournal: a journal that nobody reads costs a container half a second, not its start.
func TestFullJournal(t *testing.T) {
	const longest = 3 * time.Second // one wait, and what a loaded machine takes besides; a wait for each line would be five
	rt := bed.Runtimes(t)[1]
	logHost(t, device(oneNode, "env: [A=1, B=1, C=1, D=1, E=1, F=1, G=1, H=1, I=1]")).Listen(bed.JournalSocket).Fill()
	for request, refused := range map[string]bool{"v.example/dev=a": false, "v.example/dev=none": true} {
		b := logging(t, request)
		began := time.Now()
		res := b.Run(rt)
		if took := time.Since(began); took > longest {
			t.Errorf("%s: %v", request, took)
		}
		if res.Refused() != refused {
			t.Errorf("%s: exit %d: %s", request, res.Code, res.Stderr)
		}
	}
	bed.DropRecords(t, bed.StateDir)
}

// TestFilterLog: the filter's stdout is the config, whatever there is to say.
func TestFilterLog(t *testing.T) {
	h := logHost(t, chatty())
	h.Own(bed.SpecDir, 0, 0o777)
	h.File(configFile, "trusted-specs = \"warn\"\n", 0o644)
	journal := h.Listen(bed.JournalSocket)
	for request, said := range map[string][]string{
		"v.example/dev=a":    {"not trusted", "gave the container v.example/dev=a"},
		"v.example/dev=none": {"v.example/dev=none"},
		"":                   nil,
	} {
		b := logging(t, request)
		config, err := json.Marshal(b.Config)
		if err != nil {
			t.Fatal(err)
		}
		args := append(autoLog(bed.HookArgs("precreate")), "--log-level", "debug")
		res := bed.Run(t, string(config), nil, append([]string{bed.Hook(t)}, args...)...)
		var edited specs.Spec
		if err := json.Unmarshal([]byte(res.Stdout), &edited); err != nil && !res.Refused() {
			t.Errorf("%q: %v in %s", request, err, res.Stdout)
		}
		if res.Refused() && res.Stdout != "" {
			t.Errorf("%q: a refusal prints %s", request, res.Stdout)
		}
		entries := journal.JournalEntries()
		if len(entries) != len(said) {
			t.Errorf("%q: %d entries instead of %d: %v", request, len(entries), len(said), entries)
			continue
		}
		for i, e := range entries {
			requireWords(t, "MESSAGE", e["MESSAGE"], []string{said[i]})
			want := map[string]string{"CDI_DEVICES": request, "OCI_STAGE": "precreate", "CONTAINER_NAME": containerName}
			if !res.Refused() {
				want["CDI_SPECS"] = bed.SpecDir + "/spec.yaml"
			}
			requireEntry(t, e, want)
		}
	}
}
