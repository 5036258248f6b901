// Package settings reads what the administrator of a host has configured: a file of TOML
// and the files of the folder conf.d beside it. What is wrong in there is an error that
// names file, line and key, and nothing is used then: a rule that is misspelt must not
// become a rule that is not there.
//
// The files are trusted with devices, so they must be root's alone, see package trust.
//
// What this package does not do: it applies nothing, does not look whether directories
// that are named exist, knows no command line, and keeps nothing between calls. It does
// no work before [Load] is called; [Needed] tells, without any file, whether to.
package settings

import (
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"oci-cdi-hook/hook/policy"
)

// DefaultFile is the file where no other is named. It may be missing.
const DefaultFile = "/etc/oci-cdi-hook/config.toml"

// DefaultPrefix is the prefix of annotation keys that ask for devices.
const DefaultPrefix = "cdi.k8s.io/"

// Values of settings that are one of a few words.
const (
	Auto    = "auto"
	Fail    = "fail"
	Require = "require"
	Skip    = "skip"
	Warn    = "warn"
)

// Settings is a configuration. Every field has a key of the same name.
type Settings struct {
	// SpecDirs are the directories of CDI specs, absolute; later ones win.
	SpecDirs []string
	// AnnotationPrefixes end in "/".
	AnnotationPrefixes []string
	// Unsupported is what becomes of edits that cannot be made: Warn or Fail.
	Unsupported string
	// IgnoreEnv lists variables, NAME=value, that nobody needs to be warned about.
	IgnoreEnv []string
	// Cgroup is Auto, Require or Skip.
	Cgroup string
	// Systemd is Auto or Skip.
	Systemd string
	// TrustedSpecs is what becomes of a spec that is not root's alone: Require or Warn.
	TrustedSpecs string
	// Log is Auto or the absolute path of a file.
	Log string
	// Policy has the rules and mount sources.
	Policy policy.Policy
	// Files are the files that were read, in order.
	Files []string
}

// Defaults are the settings where no file says otherwise.
func Defaults() *Settings {
	return &Settings{
		SpecDirs:           []string{"/etc/cdi", "/var/run/cdi"},
		AnnotationPrefixes: []string{DefaultPrefix},
		Unsupported:        Warn,
		IgnoreEnv:          []string{"NVIDIA_VISIBLE_DEVICES=void"},
		Cgroup:             Auto,
		Systemd:            Auto,
		TrustedSpecs:       Require,
		Log:                Auto,
	}
}

// Needed tells whether a container's annotations can ask for anything under any
// configuration: by a key of the default prefix, or by a value that names a device. It is
// what spares most containers the reading of files. Malformed values alone, under a prefix
// of the administrator's own, count as nothing.
func Needed(annotations map[string]string) bool {
	for key, value := range annotations {
		if strings.HasPrefix(key, DefaultPrefix) || namesDevice(value) {
			return true
		}
	}
	return false
}

func namesDevice(value string) bool {
	for item := range strings.SplitSeq(value, ",") {
		// The first look is cheap; the second makes an error for what is no name.
		if slash := strings.IndexByte(item, '/'); slash > 0 && strings.IndexByte(item[slash:], '=') > 0 && parser.IsQualifiedName(strings.TrimSpace(item)) {
			return true
		}
	}
	return false
}
