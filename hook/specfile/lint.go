package specfile

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/plan"
)

func (l *linter) deviceNode(n node, f fieldMap) {
	l.literalPath(n, f, "path", "hostPath")
	l.absolute(n, f, "path", "hostPath")
	if mode := f["fileMode"]; mode != nil {
		if text := suspectMode(mode); text != "" {
			l.warn(mode, n.where, text)
		}
	}
}

// suspectMode tells of a mode in decimal digits that was most likely meant as octal.
func suspectMode(mode *yaml.Node) string {
	const permissions = 0o777
	if mode.Kind != yaml.ScalarNode || strings.HasPrefix(mode.Value, "0") || strings.Trim(mode.Value, "01234567") != "" {
		return ""
	}
	decimal, err := strconv.ParseUint(mode.Value, 10, 32)
	if err != nil {
		return ""
	}
	octal, err := strconv.ParseUint(mode.Value, 8, 32)
	// 432 is 0660 and fine; 444 is 0674 in decimal, which nobody wants.
	oddlyGroup := decimal&0o070 > decimal>>3&0o070
	if err != nil || octal > permissions || decimal <= permissions && !oddlyGroup {
		return ""
	}
	return fmt.Sprintf("fileMode %s is decimal, which is mode %04o: write 0%s for octal", mode.Value, decimal, mode.Value)
}

func (l *linter) mount(n node, f fieldMap) {
	l.literalPath(n, f, "hostPath", "containerPath")
	l.absolute(n, f, "containerPath")
	kind := scalar(f["type"])
	bind := kind == "bind"
	for _, word := range words(f["options"]) {
		bind = bind || word.Value == "bind" || word.Value == "rbind"
	}
	if !bind && (kind == "" || kind == "none") {
		l.warn(n.Node, n.where, "neither bind nor rbind among the options and no filesystem type: runtimes refuse such a mount")
		return
	}
	if !bind {
		return // options of a filesystem are its own
	}
	l.absolute(n, f, "hostPath")
	for _, word := range words(f["options"]) {
		if !plan.KnownOption(word.Value) {
			l.warn(word, n.where, fmt.Sprintf("option %q means nothing on a bind and is ignored", device.OneLine(word.Value)))
		}
	}
}

func (l *linter) hook(n node, f fieldMap) {
	l.literalPath(n, f, "path")
	if p := f["path"]; p != nil && !path.IsAbs(p.Value) {
		l.fault(p, n.where, fmt.Sprintf("hook path %q is not absolute: no runtime runs it", device.OneLine(p.Value)))
	}
	if t := f["timeout"]; t != nil {
		if seconds, err := strconv.Atoi(t.Value); err == nil && seconds <= 0 {
			l.fault(t, n.where, fmt.Sprintf("timeout %d: it has to be more than 0 seconds; leave it out for none", seconds))
		}
	}
}

// literalPath warns of shell patterns: paths are taken as they are.
func (l *linter) literalPath(n node, f fieldMap, keys ...string) {
	for _, key := range keys {
		if v := f[key]; v != nil && strings.ContainsAny(v.Value, "*?[") {
			l.warn(v, n.where, fmt.Sprintf("%s %q is taken literally: there are no patterns in a spec", key, device.OneLine(v.Value)))
		}
	}
}

func (l *linter) absolute(n node, f fieldMap, keys ...string) {
	for _, key := range keys {
		if v := f[key]; v != nil && v.Value != "" && !path.IsAbs(v.Value) {
			l.warn(v, n.where, fmt.Sprintf("%s %q is not absolute", key, device.OneLine(v.Value)))
		}
	}
}

func scalar(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

func words(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Content
}
