package specfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"oci-cdi-hook/hook/device"
)

// level is one kind of mapping in a spec (specs-go of the CDI library).
type level struct {
	keys  []string
	below map[string]*level             // of keys whose value is a mapping, or a list of them
	check func(*linter, node, fieldMap) // what is looked at beside the keys; may be nil
}

func specLevel() *level {
	edits := &level{
		keys: []string{"env", "deviceNodes", "netDevices", "hooks", "mounts", "intelRdt", "additionalGids"},
		below: map[string]*level{
			"deviceNodes": {
				keys:  []string{"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"},
				check: (*linter).deviceNode,
			},
			"netDevices": {keys: []string{"hostInterfaceName", "name"}},
			"hooks":      {keys: []string{"hookName", "path", "args", "env", "timeout"}, check: (*linter).hook},
			"mounts":     {keys: []string{"hostPath", "containerPath", "options", "type"}, check: (*linter).mount},
			"intelRdt":   {keys: []string{"closID", "l3CacheSchema", "memBwSchema", "schemata", "enableMonitoring"}},
		},
	}
	return &level{
		keys: []string{"cdiVersion", "kind", "annotations", "devices", "containerEdits"},
		below: map[string]*level{
			"containerEdits": edits,
			"devices": {
				keys:  []string{"name", "annotations", "containerEdits"},
				below: map[string]*level{"containerEdits": edits},
			},
		},
	}
}

// node is a mapping and where it is.
type node struct {
	*yaml.Node
	where string
}

// fieldMap is a mapping by its keys.
type fieldMap map[string]*yaml.Node

type linter struct {
	report *Report
	seen   map[*yaml.Node]bool // of mappings that aliases lead to
}

func (l *linter) mapping(n *yaml.Node, where string, lv *level) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode || l.seen[n] {
		return
	}
	l.seen[n] = true
	fields := fieldMap{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Value == "<<" {
			l.mapping(value, where, lv)
			continue
		}
		if !slices.Contains(lv.keys, key.Value) {
			l.unknownKey(key, where, lv.keys)
			continue
		}
		fields[key.Value] = value
		if below := lv.below[key.Value]; below != nil {
			l.value(value, join(where, key.Value), below)
		}
	}
	if lv.check != nil {
		lv.check(l, node{n, where}, fields)
	}
}

func (l *linter) value(v *yaml.Node, where string, lv *level) {
	if v.Kind == yaml.AliasNode {
		v = v.Alias
	}
	if v.Kind != yaml.SequenceNode {
		l.mapping(v, where, lv)
		return
	}
	for i, item := range v.Content {
		l.mapping(item, fmt.Sprintf("%s[%d]", where, i), lv)
	}
}

func join(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

// unknownKey is beside the library's verdict, which names neither the place nor the
// spelling that was meant.
func (l *linter) unknownKey(key *yaml.Node, where string, known []string) {
	name := device.OneLine(key.Value)
	text := fmt.Sprintf("unknown field %q", name)
	for _, k := range known {
		if strings.EqualFold(k, key.Value) {
			l.warn(key, where, text+": it is spelled "+k)
			return
		}
	}
	if meant := device.Near(key.Value, known); len(meant) > 0 {
		text += ": did you mean " + strings.Join(meant, " or ") + "?"
	}
	l.warn(key, where, text)
}

func (l *linter) warn(at *yaml.Node, where, text string) {
	l.report.Warnings = append(l.report.Warnings, Remark{Line: at.Line, Where: where, Text: text})
}

func (l *linter) fault(at *yaml.Node, where, text string) {
	l.report.Errors = append(l.report.Errors, Remark{Line: at.Line, Where: where, Text: text})
}
