package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/specfile"
	"oci-cdi-hook/hook/trust"
)

// Validation is what there is to say about spec files.
type Validation struct {
	Files []*specfile.Report `json:"files"`
	// Conflicts are devices that no one gets, since files of one directory disagree.
	Conflicts []device.Conflict `json:"conflicts"`
	// Searched are the directories whose files were looked at.
	Searched []string `json:"searched"`
}

// Faulty tells whether something in the files is wrong.
func (v *Validation) Faulty() bool {
	return len(v.Conflicts) > 0 || slices.ContainsFunc(v.Files, func(r *specfile.Report) bool { return len(r.Errors) > 0 })
}

// Drifted tells whether this host differs from what the files say.
func (v *Validation) Drifted() bool {
	return slices.ContainsFunc(v.Files, func(r *specfile.Report) bool { return len(r.Drift) > 0 })
}

// Validate looks at spec files and at directories of them; at the spec directories where
// none are named.
func Validate(s Settings, paths []string) (*Validation, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	v := validation{settings: s, result: &Validation{Files: []*specfile.Report{}, Conflicts: []device.Conflict{}, Searched: []string{}}}
	if len(paths) == 0 {
		v.dirs(s.SpecDirs)
		return v.result, v.checker.Close()
	}
	var dirs []string
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.IsDir() {
			dirs = append(dirs, p)
			continue
		}
		v.file(p, v.shadowedIn(s.SpecDirs))
	}
	v.dirs(dirs)
	return v.result, v.checker.Close()
}

type validation struct {
	settings Settings
	result   *Validation
	checker  trust.Checker
	listed   *device.Listing // of the spec directories
}

// dirs looks at directories as an engine that has them in this order.
func (v *validation) dirs(dirs []string) {
	if len(dirs) == 0 {
		return
	}
	l := device.Registry{Dirs: dirs}.List()
	v.result.Conflicts = append(v.result.Conflicts, l.Conflicts...)
	for _, dir := range dirs {
		v.result.Searched = append(v.result.Searched, dir)
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			v.result.Files = append(v.result.Files, &specfile.Report{
				Path: dir, Devices: []string{}, Errors: []specfile.Remark{{Text: err.Error()}},
				Warnings: []specfile.Remark{}, Drift: []specfile.Remark{},
			})
		}
		for _, e := range entries {
			if !e.IsDir() && looksLikeSpec(e.Name()) {
				v.file(filepath.Join(dir, e.Name()), l)
			}
		}
	}
}

// looksLikeSpec takes also what engines pass over, most likely without its owner knowing.
func looksLikeSpec(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".yaml", ".yml":
		return true
	}
	return false
}

func (v *validation) file(name string, l *device.Listing) {
	r, f := specfile.Check(name)
	v.result.Files = append(v.result.Files, r)
	if f == nil {
		return
	}
	if v.isInSpecDir(name) {
		if err := v.checker.Check(name); err != nil {
			r.Warnings = append(r.Warnings, specfile.Remark{Text: fmt.Sprintf("refused unless trusted-specs says otherwise: %v", err)})
		}
	}
	if f.Spec == nil {
		return
	}
	var shadowed []string
	for _, d := range l.Shadowed {
		if d.Spec == filepath.Clean(name) {
			shadowed = append(shadowed, strings.TrimPrefix(d.Name, f.Spec.Kind+"="))
		}
	}
	var unknown []specfile.Remark
	r.Drift, unknown = specfile.Drift(f.Spec, shadowed)
	r.Warnings = append(r.Warnings, unknown...)
}

func (v *validation) isInSpecDir(name string) bool {
	return slices.Contains(v.settings.SpecDirs, filepath.Dir(name))
}

// shadowedIn lists the spec directories once.
func (v *validation) shadowedIn(dirs []string) *device.Listing {
	if v.listed == nil {
		v.listed = device.Registry{Dirs: dirs}.List()
	}
	return v.listed
}

// Convert writes a spec file anew, see [specfile.Convert].
func Convert(path, format string) (*specfile.Converted, error) { return specfile.Convert(path, format) }
