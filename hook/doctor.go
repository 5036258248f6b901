package hook

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/doctor"
	"oci-cdi-hook/hook/log"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/record"
	"oci-cdi-hook/hook/trust"
	"oci-cdi-hook/mounts"
)

// Examination is what [Doctor] found.
type Examination struct {
	Checks doctor.Findings `json:"checks"`
}

// Doctor looks for what would keep the hook from working on this host; it changes nothing.
func Doctor(ctx context.Context, s Settings, host doctor.Host) *Examination {
	var found doctor.Findings
	configured := s.load()
	examineKernel(&found)
	examineCgroups(&found)
	host.Prefixes, host.SpecDirs = s.AnnotationPrefixes, s.SpecDirs
	found = append(found, host.Engines(ctx)...)
	if configured != nil {
		found.Fault("configuration", "mend it: until then every container that asks for a device is refused", "%v", configured)
	} else {
		found.Ok("configuration", "%s", s.describe())
		s.examinePolicy(&found)
	}
	s.examineSpecs(&found)
	s.examineState(&found)
	if socket, ok := log.Reachable(); ok {
		found.Ok("log", "%s", socket)
	} else {
		found.Warn("log", "start journald or syslog, or set log to a file", "neither journal nor syslog listens: crun shows users only an exit code")
	}
	if os.Geteuid() != 0 {
		found.Warn("user", "run it as root for a host's engine", "not root: what is said is for the engine of uid %d", os.Geteuid())
	}
	return &Examination{Checks: found}
}

func (s Settings) describe() string {
	if len(s.ConfigFiles) == 0 {
		return "no file, the defaults hold"
	}
	return strings.Join(s.ConfigFiles, ", ")
}

func examineKernel(found *doctor.Findings) {
	release := "unknown"
	if raw, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		release = strings.TrimSpace(string(raw))
	}
	var have []string
	for _, f := range mounts.Features() {
		switch {
		case f.Present:
			have = append(have, f.Name)
		case f.Err != nil:
			found.Warn("kernel", "look as root", "%s: %s could not be tried: %v", release, f.Name, f.Err)
		default:
			found.Warn("kernel", "nothing: "+f.Instead+" does it", "%s has no %s (Linux %s)", release, f.Name, f.Since)
		}
	}
	found.Ok("kernel", "%s: %s", release, strings.Join(have, ", "))
}

func examineCgroups(found *doctor.Findings) {
	const subject = "cgroups"
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		found.Fault(subject, "mount proc", "%v", err)
		return
	}
	table, err := oci.OpenMountinfo()
	if err != nil {
		found.Fault(subject, "mount proc", "%v", err)
		return
	}
	defer table.Close()
	dir, version, err := cgroups.Find(own, table)
	if err != nil {
		found.Warn(subject, "mount cgroup v2, or the devices controller of v1", "%v: no rules, every device may be opened", err)
		return
	}
	if version == cgroups.V2 && examineBPF(found, subject, dir) != nil {
		return
	}
	systemd := ""
	if _, err := os.Stat("/run/systemd/private"); err == nil {
		systemd = ", systemd is told of devices too"
	}
	found.Ok(subject, "version %d%s", version, systemd)
}

func examineBPF(found *doctor.Findings, subject, dir string) error {
	c, err := cgroups.Open(dir)
	if err != nil {
		found.Fault(subject, "see what is mounted there", "%v", err)
		return err
	}
	defer c.Close()
	if _, _, err := c.Allows([]cgroups.Rule{{Type: 'c', Major: 1, Minor: 3, Access: "rwm"}}); err != nil {
		found.Warn(subject, "run as root; in a container's user namespace rules are not needed", "device programs cannot be read: %v", err)
		return err
	}
	if raw, err := os.ReadFile("/proc/sys/net/core/bpf_jit_harden"); err == nil && strings.TrimSpace(string(raw)) == "2" {
		found.Warn(subject, "nothing, or sysctl net.core.bpf_jit_harden=1", "the kernel hides device programs: they are rebuilt from a container's config")
	}
	return nil
}

func (s Settings) examinePolicy(found *doctor.Findings) {
	const subject = "policy"
	allow, deny := len(s.Policy.Allow), len(s.Policy.Deny)
	switch allow {
	case 0:
		found.Ok(subject, "containers outside pods get what they ask for, pods get nothing (no [[allow]] rule), %d deny rules", deny)
	default:
		found.Ok(subject, "%d allow and %d deny rules", allow, deny)
	}
}

func (s Settings) examineSpecs(found *doctor.Findings) {
	const subject = "specs"
	l := device.Registry{Dirs: s.SpecDirs}.List()
	for _, e := range l.Errors {
		found.Warn(subject, "oci-cdi-hook validate", "%s: %s", e.Path, e.Reason())
	}
	for _, c := range l.Conflicts {
		found.Warn(subject, "leave it in one of them", "nobody can have %s: it is in %s", c.Name, strings.Join(c.Specs, " and "))
	}
	var checker trust.Checker
	defer checker.Close()
	seen := map[string]bool{}
	for _, d := range l.Devices {
		if seen[d.Spec] {
			continue
		}
		seen[d.Spec] = true
		if err := checker.Check(d.Spec); err != nil {
			found.Warn(subject, "make it root's alone", "%v", err)
		}
	}
	dirs := strings.Join(s.SpecDirs, ", ")
	if len(l.Devices) == 0 {
		found.Warn(subject, "have the vendor's tool write one, as in nvidia-ctk cdi generate", "no device is defined in %s", dirs)
		return
	}
	found.Ok(subject, "%d devices of %d files in %s", len(l.Devices), len(seen), dirs)
}

func (s Settings) examineState(found *doctor.Findings) {
	const subject = "records"
	name := s.stateDir()
	dir, err := record.OpenExisting(name)
	if errors.Is(err, fs.ErrNotExist) {
		if st, err := os.Stat(filepath.Dir(name)); err != nil || !st.IsDir() {
			found.Fault(subject, "set --state-dir in hooks.d, or make the directory", "%s cannot be made: its parent is not there", name)
			return
		}
		found.Ok(subject, "%s will be made", name)
		return
	}
	if err == nil {
		err = errors.Join(trusted("state directory", name), dir.Close())
	}
	if err != nil {
		found.Fault(subject, "remove it: it is made anew", "%v", err)
		return
	}
	found.Ok(subject, "%s", name)
}
