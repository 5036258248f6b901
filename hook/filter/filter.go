package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/moby/sys/userns"
	oci "github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/hook/device"
)

// Settings are what the filter needs to know of the host's.
type Settings struct {
	SpecDirs           []string
	AnnotationPrefixes []string
	// Allow is asked, where it is set, whether a container with these annotations may have
	// these names, before any spec is opened.
	Allow func(annotations map[string]string, names []string) error
	// Vet is asked, where it is set, about what the names resolve to, before it is used.
	Vet func(*device.Resolution) error
	// VetNative is asked, where it is set, about what would be written into the config.
	VetNative func(*device.Native) error
}

// Outcome is what was asked and done.
type Outcome struct {
	// Devices are the qualified names that were asked for, once each.
	Devices []string
	// Changed says that the output is not the input.
	Changed bool
}

// maxConfig bounds a config. Engines write some ten kilobytes, a tenth of a
// megabyte with many mounts.
const maxConfig = 16 << 20

// Run reads a config to its end and returns what belongs in its place. On an
// error that is nothing, and a request that cannot be met is a
// [*device.RequestError].
func Run(s Settings, stdin io.Reader) ([]byte, *Outcome, error) {
	return run(s, stdin, userns.RunningInUserNS)
}

func run(s Settings, stdin io.Reader, inUserNamespace func() bool) ([]byte, *Outcome, error) {
	out := &Outcome{}
	input, err := Read(stdin)
	if err != nil {
		return nil, out, err
	}
	c, err := open(input)
	if err != nil {
		return nil, out, err
	}
	names, err := c.requested(s.AnnotationPrefixes)
	if err != nil {
		return nil, out, err
	}
	if len(names) == 0 {
		return input, out, nil
	}
	if s.Allow != nil {
		if err := s.Allow(c.spec.Annotations, names); err != nil {
			return nil, out, err
		}
	}
	resolution, err := device.Registry{Dirs: s.SpecDirs}.Resolve(names)
	if err == nil && s.Vet != nil {
		err = s.Vet(resolution)
	}
	if err != nil {
		return nil, out, err
	}
	out.Devices = resolution.Devices
	if err := c.decode(); err != nil {
		return nil, out, err
	}
	a := application{config: c, bindNodes: c.userNamespace || inUserNamespace()}
	if err := a.apply(resolution); err != nil {
		return nil, out, err
	}
	if s.VetNative != nil {
		if err := s.VetNative(a.native); err != nil {
			return nil, out, err
		}
	}
	if err := a.put(); err != nil {
		return nil, out, err
	}
	if !c.top.changed() {
		return input, out, nil
	}
	out.Changed = true
	return c.write(), out, nil
}

// Read takes all of stdin, also of what is too much: an engine may not expect
// that its pipe breaks.
func Read(stdin io.Reader) ([]byte, error) {
	input, err := io.ReadAll(io.LimitReader(stdin, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("config: stdin: %w", err)
	}
	if len(input) > maxConfig {
		// Who writes more than this does not stop.
		if _, err := io.CopyN(io.Discard, stdin, 1<<30); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("config: stdin: %w", err)
		}
		return nil, fmt.Errorf("config: larger than %d MiB", maxConfig>>20)
	}
	return input, nil
}

// open checks that the input is a config in JSON, as far as that can be told.
func open(input []byte) (*config, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		return nil, errors.New("config: stdin is empty")
	}
	if !json.Valid(input) {
		return nil, invalid(input)
	}
	first := skipSpace(input, 0)
	top, err := parseObject("", input[first:skipValue(input, first)])
	if err != nil {
		return nil, err
	}
	if len(top.members) == 0 {
		// podman ends in a panic when it gets one back.
		return nil, errors.New("config: an empty object")
	}
	c := &config{top: top, before: input[:first], after: input[first+len(top.raw):]}
	c.spec.Process, c.spec.Linux = &oci.Process{}, &oci.Linux{}
	return c, nil
}

func invalid(input []byte) error {
	err := json.Unmarshal(input, new(json.RawMessage))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("config: not JSON: %w, at byte %d of %d", err, syntax.Offset, len(input))
	}
	return fmt.Errorf("config: not JSON: %w", err)
}
