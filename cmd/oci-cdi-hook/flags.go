package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/log"
	"oci-cdi-hook/hook/settings"
	"oci-cdi-hook/hook/trust"
)

// commonFlags are those of all verbs. They win over the configuration.
type commonFlags struct {
	settings   hook.Settings
	configFile string
	logFile    string
	logLevel   string
	level      log.Level
	set        *pflag.FlagSet
}

func (c *commonFlags) add(f *pflag.FlagSet) {
	c.set = f
	c.settings = hook.Defaults()
	f.StringArrayVar(&c.settings.SpecDirs, "spec-dir", c.settings.SpecDirs,
		"look for CDI specs in `DIR`; may be repeated, later ones win; replaces the default")
	f.StringVar(&c.configFile, "config-file", "", "configuration `FILE` (default "+settings.DefaultFile+", which may be missing)")
	f.StringVar(&c.settings.StateDir, "state-dir", c.settings.StateDir,
		"keep the records of what was done to containers in `DIR` (default "+hook.DefaultStateDir+", rootless the user's runtime directory)")
	f.StringVar(&c.logFile, "log-file", log.Auto, "`FILE` to log to; auto is the journal, else syslog")
	f.StringVar(&c.logLevel, "log-level", log.Info.String(), "`LEVEL` of what is logged: error, warning, info or debug")
}

func (c *commonFlags) check() (err error) {
	if c.level, err = log.ParseLevel(c.logLevel); err != nil {
		return usageError{err}
	}
	for _, dir := range append([]string{c.settings.StateDir, c.configFile}, c.settings.SpecDirs...) {
		if dir != "" && !filepath.IsAbs(dir) {
			return usageError{fmt.Errorf("%q is not an absolute path", dir)}
		}
	}
	if c.logFile != log.Auto && !filepath.IsAbs(c.logFile) {
		return usageError{fmt.Errorf("--log-file %q is neither %s nor an absolute path", c.logFile, log.Auto)}
	}
	if slices.Contains(c.settings.SpecDirs, "") {
		return usageError{errors.New("--spec-dir is empty")}
	}
	c.settings.Load = c.load
	return nil
}

// load puts the configuration where no flag says otherwise.
func (c *commonFlags) load(s *hook.Settings) error {
	var checker trust.Checker
	file, err := settings.Load(c.configFile, &checker)
	if cerr := checker.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if !c.set.Changed("spec-dir") {
		s.SpecDirs = file.SpecDirs
	}
	if !c.set.Changed("log-file") {
		c.logFile = file.Log
	}
	s.AnnotationPrefixes, s.IgnoreEnv = file.AnnotationPrefixes, file.IgnoreEnv
	s.Unsupported, s.TrustedSpecs, s.Cgroup, s.Systemd = file.Unsupported, file.TrustedSpecs, file.Cgroup, file.Systemd
	s.Policy, s.ConfigFiles = file.Policy, file.Files
	return nil
}
