package integration

import (
	"os"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
)

// TestUnits has systemd read the units that make install puts in place, and finds them disabled.
func TestUnits(t *testing.T) {
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	h.Install(bed.Hook(t))
	if _, err := os.Stat("/run/systemd"); os.IsNotExist(err) {
		t.Cleanup(func() { _ = os.RemoveAll("/run/systemd") }) // it caches what it read
	}
	const dir = "/usr/lib/systemd/system/oci-cdi-hook-repair."
	res := bed.Run(t, "", nil, "systemd-analyze", "verify", "--man=no", dir+"service", dir+"timer")
	if res.Refused() || strings.Contains(res.Stderr, "oci-cdi-hook") {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	// as the service calls it, on a host that has given nothing
	raw, err := os.ReadFile(dir + "service")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), "ExecStart=")
	line, _, _ := strings.Cut(after, "\n")
	if res := bed.Run(t, "", nil, strings.Fields(line)...); res.Code != 0 || res.Stdout+res.Stderr != "" {
		t.Errorf("%s: exit %d: %s%s", line, res.Code, res.Stdout, res.Stderr)
	}
	if links := bed.Run(t, "", nil, "find", "/etc/systemd", "-name", "oci-cdi-hook*"); links.Stdout != "" {
		t.Errorf("enabled: %s", links.Stdout)
	}
}
