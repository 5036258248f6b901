// Package bed makes the places that the tests run in: a private mount namespace with a /dev, /run, /usr, /etc and /opt of its own, the
// cgroup tree of one version, runtimes built or found, and bundles for them.
//
// It knows CDI only as far as the reference library does; it judges nothing and compares nothing, but for what was left behind. A
// bed is not a sandbox: processes, cgroups and networks are the machine's own, and are tidied by name.
package bed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Version is a cgroup version: what tells one bed from another.
type Version int

// The beds, in the order they run.
const (
	V1 Version = 1 // each v1 hierarchy, without the unified mount: crun 1.8 refuses a hybrid tree
	V2 Version = 2
)

const (
	versionEnv = "OCI_CDI_HOOK_BED"
	toolsEnv   = "OCI_CDI_HOOK_TOOLS"
	runEnv     = "OCI_CDI_HOOK_RUN"  // tells runs beside each other apart
	onlyEnv    = "OCI_CDI_HOOK_BEDS" // "1" or "2": run one bed alone
)

func (v Version) String() string { return fmt.Sprintf("v%d", int(v)) }

// current is the bed that this process runs in.
var current Version

// Main runs the tests once in each bed and returns the exit code. The test binary runs itself again for it, so that nothing of a bed can
// reach the namespace that go test was started in.
func Main(tests func() int) int {
	if os.Getenv(versionEnv) == "" {
		return outside()
	}
	if _, err := fmt.Sscanf(os.Getenv(versionEnv), "v%d", &current); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", versionEnv, err)
		return 1
	}
	if err := enter(current, os.Getenv(toolsEnv)); err != nil {
		fmt.Fprintf(os.Stderr, "integration: bed %v: %v\n", current, err)
		return 1
	}
	return tests()
}

func outside() int {
	if os.Geteuid() != 0 {
		fmt.Println("integration: skipped, real containers need root")
		return 0
	}
	code := 0
	fail := func(err error) { fmt.Fprintln(os.Stderr, "integration:", err); code = 1 }
	tools, err := buildTools()
	if err != nil {
		fail(err)
		return code
	}
	before, err := takeOutside()
	if err != nil {
		fail(err)
		return code
	}
	for _, v := range []Version{V1, V2} {
		if only := os.Getenv(onlyEnv); only != "" && only != fmt.Sprint(int(v)) {
			continue
		}
		if err := runIn(v, tools); err != nil {
			fail(fmt.Errorf("bed %v: %w", v, err))
		}
	}
	after, err := takeOutside()
	if err != nil {
		fail(err)
	}
	for _, line := range before.diff(after) {
		fail(errors.New("left on the host: " + line))
	}
	return code
}

func runIn(v Version, tools string) error {
	var args []string
	for _, a := range os.Args[1:] {
		if !strings.HasPrefix(a, "-test.testlogfile") {
			args = append(args, a)
		}
	}
	c := exec.Command("/proc/self/exe", args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), versionEnv+"="+v.String(), toolsEnv+"="+tools, runEnv+"="+runName())
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return c.Run()
}
