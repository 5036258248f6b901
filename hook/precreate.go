package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/filter"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/policy"
	"oci-cdi-hook/hook/settings"
)

// Filter is the stage precreate: it edits the config on stdin and returns the one that
// belongs in its place.
func Filter(s Settings, stdin io.Reader) ([]byte, *Outcome, error) {
	out := &Outcome{}
	input, err := filter.Read(stdin)
	if err != nil {
		return nil, out, err
	}
	if asksNothing(input) {
		return input, out, nil
	}
	if err := s.load(); err != nil {
		return nil, out, err
	}
	output, done, err := filter.Run(filter.Settings{
		SpecDirs:           s.SpecDirs,
		AnnotationPrefixes: s.AnnotationPrefixes,
		Allow: func(annotations map[string]string, names []string) error {
			out.ContainerName, out.Asked = annotations[containerNameKey], names
			return s.Allow(annotations, names)
		},
		Vet: func(r *device.Resolution) (err error) {
			for _, e := range r.Edits {
				if !slices.Contains(out.Specs, e.SpecPath) {
					out.Specs = append(out.Specs, e.SpecPath)
				}
			}
			out.Warnings, err = s.Vet(r)
			return err
		},
		VetNative: s.vetNative,
	}, bytes.NewReader(input))
	if err != nil {
		out.ContainerID = idInConfig(input)
	}
	if err == nil && len(done.Devices) > 0 {
		out.Plan = &plan.Plan{Devices: done.Devices}
	}
	return output, out, err
}

// idInConfig finds the id that podman is about to give the container, which is at the end of
// its cgroup's name: machine.slice:libpod:ID, or /libpod_parent/libpod-ID.
func idInConfig(input []byte) string {
	const digits = 64
	var c struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	_ = json.Unmarshal(input, &c) // what is no config has no id
	at := len(c.Linux.CgroupsPath) - digits
	if at < 0 || strings.Trim(c.Linux.CgroupsPath[at:], "0123456789abcdef") != "" {
		return ""
	}
	return c.Linux.CgroupsPath[at:]
}

// asksNothing tells, where it is sure, that a config asks for nothing whatever the host's
// configuration says, which is not read then.
func asksNothing(input []byte) bool {
	var c struct {
		Annotations map[string]string `json:"annotations"`
		Linux       struct {
			Devices []struct {
				Path string `json:"path"`
			} `json:"devices"`
		} `json:"linux"`
	}
	text := bytes.TrimSpace(input)
	isObject := bytes.HasPrefix(text, []byte("{")) && len(bytes.Trim(text, " \t\r\n{}")) > 0
	if err := json.Unmarshal(input, &c); err != nil || !isObject || settings.Needed(c.Annotations) {
		return false
	}
	return !slices.ContainsFunc(c.Linux.Devices, func(d struct {
		Path string `json:"path"`
	}) bool {
		return device.IsName(d.Path)
	})
}

// vetNative tells whether mounts come from where they may, and whether the hooks that the
// runtime would run are root's alone.
func (s *Settings) vetNative(n *device.Native) error {
	var sources []policy.Source
	for _, m := range n.Mounts {
		switch {
		case isBind(m.Options):
			sources = append(sources, policy.Source{Device: m.Device, Path: m.Source})
		case len(s.Policy.Sources) > 0 && !slices.Contains(sourceless, m.Type):
			return &SourcedError{Type: m.Type, Target: m.Destination, Origin: m.Origin}
		}
	}
	if err := s.Policy.CheckSources(sources, filepath.EvalSymlinks); err != nil {
		return err
	}
	for _, h := range n.Hooks {
		// Those of startContainer are the container's own programs.
		if h.Stage == plan.StageStartContainer {
			continue
		}
		// One that is missing is the runtime's to report, or not, by its stage.
		if err := trusted("hook", h.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w (device %s of spec %s)", err, h.Device, h.SpecPath)
		}
	}
	return nil
}

// sourceless are the filesystems that show nothing of the host's trees.
var sourceless = []string{"tmpfs", "proc", "sysfs", "mqueue", "devpts", "cgroup", "cgroup2", "efivarfs"}

// SourcedError says that a device mounts a filesystem that brings data of the host by
// another way than a bind, on a host that says which trees may be had.
type SourcedError struct {
	Type, Target string
	device.Origin
}

func (e *SourcedError) Error() string {
	return fmt.Sprintf("device %s of spec %s: mount of a %s on %s: where [mounts] sources is set, only binds bring data of the host",
		e.Device, e.SpecPath, e.Type, e.Target)
}

// ExitCode is that of a refused request.
func (e *SourcedError) ExitCode() int { return device.ExitRequest }

func isBind(options []string) bool {
	return slices.Contains(options, "bind") || slices.Contains(options, "rbind")
}
