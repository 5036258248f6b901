package integration

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
	"oci-cdi-hook/integration/report"
)

// ruling is one question of policy or trust, put to the hook by a runtime and to the filter by hand.
type ruling struct {
	name        string
	annotations map[string]string // besides the request
	request     map[string]string // empty: v.example/dev=a under the tests' own key
	config      string            // of /etc/oci-cdi-hook/config.toml; empty: there is none
	spec        string            // empty: one node
	host        func(*bed.Host)   // what else is wrong with the host
	// refused are words of the reason; without any the device is given, or
	refused []string
	nothing bool // the container starts without it
	code    int  // of a refusal, 0: 3
	warns   string
	// late: the filter does more than a hook can, and is not asked.
	late bool
}

// rule asks the runtimes' hook and the filter each question.
func rule(t *testing.T, rows []ruling) {
	rt := bed.Runtimes(t)[1] // what a runtime makes of the answer is tested elsewhere; this one shows the exit code
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			r.prepare(t)
			b := bed.NewBundle(t)
			b.Ask(report.Ask{Paths: []string{"/dev/one"}})
			maps.Copy(b.Config.Annotations, r.annotations)
			if r.request == nil {
				b.Annotate("v.example/dev=a")
			}
			maps.Copy(b.Config.Annotations, r.request)
			if !r.late {
				r.requireFiltered(t, b)
			}
			b.Register()
			r.requireHooked(t, rt, b)
		})
	}
}

func (r ruling) prepare(t *testing.T) {
	t.Helper()
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	if r.spec == "" {
		r.spec = device(oneNode)
	}
	path := bed.WriteSpec(t, "spec.yaml", r.spec)
	if r.config != "" {
		h.File(configFile, r.config, 0o644)
	}
	if strings.Contains(r.name, "leads") {
		r.host(h) // before there is a stand-in
		r.host = nil
	}
	h.StandInsFor(path)
	if r.host != nil {
		r.host(h)
	}
}

func (r ruling) requireHooked(t *testing.T, rt bed.Runtime, b *bed.Bundle) {
	t.Helper()
	b.Write()
	res, log := b.Run(rt), bed.TakeLog(t)
	switch {
	case r.refused != nil:
		requireWords(t, "the log", log, r.refused)
		requireWords(t, rt.Name, res.Stderr, []string{"exit status " + string(rune('0'+r.exit()))})
		if tree := strings.Join(b.Tree(), "\n"); strings.Contains(tree, "/one") || strings.Contains(tree, "/opt") {
			t.Errorf("a refusal leaves\n%s", tree)
		}
		requireNoState(t, "refused", bed.StateDir)
		if !res.Refused() {
			t.Errorf("the container ran: %s", res.Stdout)
		}
		if strings.Contains(log, "allow = [") {
			r.requireAdviceHelps(t, rt, b, log)
		}
	case res.Refused():
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	default:
		requireWords(t, "the log", log, []string{r.warns})
		given := strings.Contains(strings.Join(bed.ReadReport(t, res.Stdout).Lines(nil), "\n"), "path /dev/one c 10:229")
		if given == r.nothing {
			t.Errorf("given: %v", given)
		}
	}
}

func (r ruling) exit() int {
	if r.code != 0 {
		return r.code
	}
	return 3
}

var advised = regexp.MustCompile(`allow = \[\{.*\}\]`)

// requireAdviceHelps does what the refusal says.
func (r ruling) requireAdviceHelps(t *testing.T, rt bed.Runtime, b *bed.Bundle, log string) {
	t.Helper()
	if slices.ContainsFunc(r.refused, func(w string) bool { return strings.HasSuffix(w, "none") }) {
		return // allowed, it would be looked for in vain
	}
	const dir = "/etc/oci-cdi-hook/conf.d"
	for _, d := range []string{"/etc/oci-cdi-hook", dir} {
		if err := os.Mkdir(d, 0o755); err == nil {
			t.Cleanup(func() { os.RemoveAll(d) })
		}
	}
	if err := os.WriteFile(dir+"/50-more.toml", []byte(advised.FindString(log)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if res := b.Run(rt); res.Refused() {
		t.Errorf("with %s: %s", advised.FindString(log), res.Stderr)
	}
	bed.TakeLog(t)
}

func (r ruling) requireFiltered(t *testing.T, b *bed.Bundle) {
	t.Helper()
	config, err := json.Marshal(b.Config)
	if err != nil {
		t.Fatal(err)
	}
	res := bed.Run(t, string(config), nil, append([]string{bed.Hook(t)}, bed.HookArgs("precreate")...)...)
	switch log := bed.TakeLog(t); {
	case r.refused != nil:
		requireWords(t, "the filter", res.Stderr, r.refused)
		requireWords(t, "the filter's log", log, r.refused)
		if res.Code != r.exit() || res.Stdout != "" {
			t.Errorf("the filter: exit %d, %s", res.Code, res.Stdout)
		}
	case res.Refused():
		t.Errorf("the filter: exit %d: %s", res.Code, res.Stderr)
	case r.nothing:
		if res.Stdout != string(config) {
			t.Errorf("the filter changes %s\nto %s", config, res.Stdout)
		}
	default:
		requireWords(t, "the filter", res.Stdout, []string{`"/dev/one"`})
		requireWords(t, "the filter's log", log, []string{r.warns})
	}
}

func requireWords(t *testing.T, who, text string, words []string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q: %s", who, w, text)
		}
	}
}
