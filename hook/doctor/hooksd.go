package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// entry is a file of hooks.d (oci-hooks(5)).
type entry struct {
	path    string
	Version string `json:"version"`
	Hook    struct {
		Path    string   `json:"path"`
		Args    []string `json:"args"`
		Env     []string `json:"env"`
		Timeout *int     `json:"timeout"`
	} `json:"hook"`
	When struct {
		Always      *bool             `json:"always"`
		Annotations map[string]string `json:"annotations"`
		Commands    []string          `json:"commands"`
		BindMounts  *bool             `json:"hasBindMounts"`
	} `json:"when"`
	Stages []string `json:"stages"`
}

// programName is what entries of this hook run.
const programName = "oci-cdi-hook"

func (e entry) isOurs() bool { return filepath.Base(e.Hook.Path) == programName }

// stagesOfShared are the stages that every engine knows (runtime-spec, config.md).
func stagesOfShared() []string {
	return []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
}

// hooksOf looks at the directories that an engine reads, a later one's file hiding an
// earlier one's of the same name.
func (h Host) hooksOf(c engineConf, found *Findings) {
	subject := c.engine + " hooks"
	byName := map[string]entry{}
	for _, dir := range c.hooksDirs {
		entries, err := h.entries(dir)
		for _, e := range entries {
			byName[strings.ToLower(filepath.Base(e.path))] = e
		}
		if err != nil {
			found.Fault(subject, "mend or remove it: "+c.engine+" refuses to start anything with it", "%v", err)
		}
	}
	var ours []entry
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		e := byName[name]
		if e.isOurs() {
			ours = append(ours, e)
		}
		h.checkStages(c, e, found)
	}
	where := strings.Join(c.hooksDirs, ", ")
	if len(c.from) > 0 {
		where += " (" + strings.Join(c.from, ", ") + ")"
	}
	if where == "" {
		where = "no directory"
	}
	if len(ours) == 0 {
		found.Fault(subject, h.howToInstall(c), "none of %s in %s", programName, where)
		return
	}
	for _, e := range ours {
		h.checkEntry(subject, e, found)
	}
	h.checkServed(subject, ours, found)
}

func (h Host) howToInstall(c engineConf) string {
	if h.Home != "" {
		return "set hooks_dir under [engine] in ~/.config/containers/containers.conf: rootless podman reads no directory that is not named"
	}
	return "make install, or set hooks_dir where " + c.engine + "'s configuration is"
}

// entries reads a directory; what is no entry is the error.
func (h Host) entries(dir string) (all []entry, err error) {
	files, err := os.ReadDir(h.at(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, f := range files {
		if f.IsDir() || filepath.Ext(f.Name()) != ".json" {
			continue
		}
		path := filepath.Join(dir, f.Name())
		raw, err := readRegular(h.at(path), maxConf)
		e := entry{path: path}
		if err == nil {
			err = json.Unmarshal(raw, &e)
		}
		if err == nil && e.Version != "1.0.0" {
			err = fmt.Errorf("version %q is not 1.0.0", e.Version)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
			continue
		}
		all = append(all, e)
	}
	return all, errors.Join(errs...)
}

// checkStages finds stages that an engine refuses. precreate is podman run's alone: CRI-O
// does not start with it, and podman build ends.
func (h Host) checkStages(c engineConf, e entry, found *Findings) {
	for _, stage := range e.Stages {
		switch {
		case slices.Contains(stagesOfShared(), stage):
		case stage == "precreate" && c.engine == "podman":
			if filepath.Dir(e.path) == defaultHooksDir {
				found.Warn(c.engine+" hooks", "move it to a directory of its own and name that in hooks_dir",
					"%s: stage precreate in a directory that podman build and CRI-O read too: they refuse it", e.path)
			}
		default:
			found.Fault(c.engine+" hooks", "move it out of "+filepath.Dir(e.path), "%s: %s knows no stage %q and refuses to start anything", e.path, c.engine, stage)
		}
	}
}

// checkEntry looks at one of this hook's own.
func (h Host) checkEntry(subject string, e entry, found *Findings) {
	st, err := os.Stat(h.at(e.Hook.Path))
	switch {
	case err != nil:
		found.Fault(subject, "make install: engines drop a hook without a word while its binary is missing", "%s: %v", e.path, err)
		return
	case st.IsDir() || st.Mode()&0o111 == 0:
		found.Fault(subject, "chmod 0755 "+e.Hook.Path, "%s: %s is not executable", e.path, e.Hook.Path)
		return
	}
	if e.Hook.Timeout == nil {
		found.Warn(subject, `add "timeout": 120`, "%s: no timeout: a hook that hangs would hang the engine", e.path)
	}
	for _, prefix := range h.Prefixes {
		if ok, err := e.matches(prefix + "x"); err != nil || !ok {
			found.Fault(subject, "see when.annotations in it", "%s: does not match a container with the annotation %sx (%v)", e.path, prefix, err)
			return
		}
	}
	found.Ok(subject, "%s: %s, runs %s", e.path, strings.Join(e.Stages, ", "), e.Hook.Path)
}

// matches tells whether an engine would run the entry for a container that has an
// annotation and nothing else of note. All conditions must hold (oci-hooks(5)).
func (e entry) matches(key string) (bool, error) {
	if e.When.Always != nil && !*e.When.Always {
		return false, nil
	}
	if len(e.When.Commands) > 0 || e.When.BindMounts != nil && *e.When.BindMounts {
		return false, nil
	}
	for keyPattern, valuePattern := range e.When.Annotations {
		keyOK, err := regexp.MatchString(keyPattern, key)
		if err != nil {
			return false, err
		}
		valueOK, err := regexp.MatchString(valuePattern, "vendor.com/device=myDevice")
		if err != nil || !keyOK || !valueOK {
			return false, err
		}
	}
	return len(e.When.Annotations) > 0 || e.When.Always != nil, nil
}

// checkServed looks whether the stages work together.
func (h Host) checkServed(subject string, ours []entry, found *Findings) {
	served := map[string]bool{}
	for _, e := range ours {
		for _, s := range e.Stages {
			served[s] = true
		}
	}
	if !served["createRuntime"] && !served["prestart"] && !served["precreate"] {
		found.Fault(subject, "make install", "no entry gives devices: neither createRuntime nor prestart")
	}
	for _, later := range []string{"poststart", "poststop"} {
		if !served[later] {
			found.Warn(subject, "make install", "no %s entry: vendors' hooks of that stage are not run", later)
		}
	}
}
