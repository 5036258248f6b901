package bed

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/integration/report"
)

// Fixed places of a test, so that twins differ in nothing: each is made anew for every container.
const (
	SpecDir  = work + "/cdi"
	StateDir = work + "/state"
	bundle   = work + "/bundle"
	roots    = work + "/runtime"

	hooksStderr = work + "/hooks.stderr"
	logFile     = work + "/hook.log"
)

// Bundle is an OCI bundle whose rootfs holds the probe and nothing else.
type Bundle struct {
	t      *testing.T
	Dir    string
	Rootfs string
	ID     string
	Config *specs.Spec
}

// NewBundle makes one at the fixed place.
func NewBundle(t *testing.T) *Bundle {
	t.Helper()
	return newBundle(t, bundle, fmt.Sprintf("%s%v", Prefix, current))
}

// NewBundleBeside makes another, for a container that the first one has nothing to do with.
func NewBundleBeside(t *testing.T) *Bundle {
	t.Helper()
	return newBundle(t, bundle+"-beside", fmt.Sprintf("%s%v-beside", Prefix, current))
}

func newBundle(t *testing.T, dir, id string) *Bundle {
	t.Helper()
	b := &Bundle{t: t, Dir: dir, Rootfs: dir + "/rootfs", ID: id, Config: baseConfig(id)}
	b.must(os.RemoveAll(dir))
	b.must(os.MkdirAll(b.Rootfs, 0o755))
	b.must(os.MkdirAll(roots, 0o700))
	b.must(os.Link(Tool(toolProbe), filepath.Join(b.Rootfs, "probe")))
	return b
}

// Ask sets the container's process: the probe, with these questions.
func (b *Bundle) Ask(ask report.Ask) {
	b.t.Helper()
	raw, err := json.Marshal(ask)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Config.Process.Args = []string{"/probe", string(raw)}
}

// Write puts config.json where a runtime looks for it.
func (b *Bundle) Write() {
	b.t.Helper()
	raw, err := json.MarshalIndent(b.Config, "", " ")
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "config.json"), raw, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Run runs the container to its end and takes away what a refused one leaves with the runtime.
func (b *Bundle) Run(r Runtime) Result {
	b.t.Helper()
	res := b.Call(r, "run", "--bundle", b.Dir, b.ID)
	if res.Refused() {
		b.Delete(r)
	}
	res.Stderr += b.hooksSaid()
	return res
}

// hooksSaid is what crun wrote of its hooks' stderr; runc shows that itself when one fails.
func (b *Bundle) hooksSaid() string {
	b.t.Helper()
	raw, err := os.ReadFile(hooksStderr)
	if os.IsNotExist(err) {
		return ""
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.Remove(hooksStderr); err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

// Call runs a command of the runtime with the bundle's own runtime state folder.
func (b *Bundle) Call(r Runtime, args ...string) Result {
	b.t.Helper()
	return Run(b.t, "", nil, append([]string{r.Path, "--root", roots}, args...)...)
}

// Delete ends the container, if there is one.
func (b *Bundle) Delete(r Runtime) {
	b.t.Helper()
	b.Call(r, "delete", "--force", b.ID)
}

// Report runs the container and reads what the probe printed; a refusal ends the test.
func (b *Bundle) Report(r Runtime) report.Report {
	b.t.Helper()
	res := b.Run(r)
	if res.Refused() {
		b.t.Fatalf("%s: exit %d: %s", r.Name, res.Code, res.Stderr)
	}
	return ReadReport(b.t, res.Stdout)
}

// ReadReport reads what a probe printed.
func ReadReport(t *testing.T, printed string) report.Report {
	t.Helper()
	var rep report.Report
	if err := json.Unmarshal([]byte(printed), &rep); err != nil {
		t.Fatalf("probe printed %q: %v", printed, err)
	}
	return rep
}

// Traces reads and takes away what vendor hook stand-ins noted.
func Traces(t *testing.T) []report.Trace {
	t.Helper()
	raw, err := os.ReadFile(report.TraceFile)
	if err == nil {
		err = os.Truncate(report.TraceFile, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) == 0 {
		return nil
	}
	var out []report.Trace
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var tr report.Trace
		if err := json.Unmarshal([]byte(line), &tr); err != nil {
			t.Fatal(err)
		}
		out = append(out, tr)
	}
	return out
}

// own gives the rootfs, but not the shared probe, to an owner.
func (b *Bundle) own(uid, gid int) {
	b.t.Helper()
	err := filepath.WalkDir(b.Rootfs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "probe" {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
