package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"oci-cdi-hook/hook/policy"
)

// key is a key of a table, and what takes its value.
type key struct {
	name string
	set  func(value any) error
}

// keys are the keys of a file.
func (s *Settings) keys() []key {
	return []key{
		{"spec-dirs", list(&s.SpecDirs, 1, checkPath)},
		{"annotation-prefixes", list(&s.AnnotationPrefixes, 1, checkPrefix)},
		{"unsupported", word(&s.Unsupported, Warn, Fail)},
		{"ignore-env", list(&s.IgnoreEnv, 0, checkVariable)},
		{"cgroup", word(&s.Cgroup, Auto, Require, Skip)},
		{"systemd", word(&s.Systemd, Auto, Skip)},
		{"trusted-specs", word(&s.TrustedSpecs, Require, Warn)},
		{"log", text(&s.Log, checkLog)},
	}
}

func (s *Settings) mountKeys() []key {
	return []key{{"sources", list(&s.Policy.Sources, 0, checkPath)}}
}

func ruleKeys(r *policy.Rule) []key {
	return []key{
		{"devices", list(&r.Devices, 1, policy.CheckDevice)},
		{"namespaces", list(&r.Namespaces, 1, policy.CheckNamespace)},
		{"origin", text((*string)(&r.Origin), policy.CheckOrigin)},
	}
}

// Names of the tables.
const (
	allowTable  = "allow"
	denyTable   = "deny"
	mountsTable = "mounts"
)

// decode adds what a file says. Where it returns an error, s is of no more use.
func (s *Settings) decode(file, input string) error {
	var document map[string]any
	if err := toml.Unmarshal([]byte(input), &document); err != nil {
		return syntaxError(file, err)
	}
	d := decoder{file: file, input: input}
	top := s.keys()
	for _, table := range []struct {
		name  string
		rules *[]policy.Rule
	}{{allowTable, &s.Policy.Allow}, {denyTable, &s.Policy.Deny}} {
		top = append(top, key{table.name, func(value any) error { return d.rules(table.name, value, table.rules) }})
	}
	top = append(top, key{mountsTable, func(value any) error { return d.mounts(s, value) }})
	d.table(place{}, document, top)
	return d.err()
}

// decoder collects what is wrong in a file.
type decoder struct {
	file, input string
	wrong       []mistake
}

type mistake struct {
	at   place
	line int
	err  error
}

func (d *decoder) blame(at place, err error) {
	d.wrong = append(d.wrong, mistake{at: at, err: err})
}

// table hands each value to its key. Unknown keys are mistakes, and so are those of
// another case, which some libraries let pass.
func (d *decoder) table(at place, values map[string]any, keys []key) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		here := at
		here.key = name
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			d.blame(here, fmt.Errorf("unknown key, known here are %s", namesOf(keys)))
			continue
		}
		if err := keys[i].set(values[name]); err != nil {
			d.blame(here, err)
		}
	}
}

func (d *decoder) rules(table string, value any, rules *[]policy.Rule) error {
	items, ok := tables(value)
	if !ok {
		return fmt.Errorf("%s where tables belong: write [[%s]]", kind(value), table)
	}
	for i, item := range items {
		at := place{table: table, index: i}
		r := policy.Rule{Where: fmt.Sprintf("%s, %s %d", d.file, table, i+1)}
		before := len(d.wrong)
		d.table(at, item, ruleKeys(&r))
		if len(d.wrong) == before {
			if err := checkRule(table, &r); err != nil {
				d.blame(place{table: table, index: i, whole: true}, err)
			}
		}
		*rules = append(*rules, r)
	}
	return nil
}

func checkRule(table string, r *policy.Rule) error {
	switch {
	case r.Devices == nil:
		return errors.New("no devices")
	case table == allowTable && r.Namespaces == nil && r.Origin == policy.FromPod:
		return errors.New(`without namespaces it is about containers that are no pods, so origin = "pod" matches nothing`)
	}
	return nil
}

func (d *decoder) mounts(s *Settings, value any) error {
	values, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s where a table belongs: write [%s]", kind(value), mountsTable)
	}
	d.table(place{table: mountsTable}, values, s.mountKeys())
	return nil
}

func tables(value any) ([]map[string]any, bool) {
	values, ok := value.([]any)
	if !ok {
		return nil, false
	}
	var items []map[string]any
	for _, v := range values {
		item, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

func namesOf(keys []key) string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}
