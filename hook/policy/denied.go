package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tags.cncf.io/container-device-interface/pkg/parser"
)

// ExitDenied is the exit code of a refused request, see [DeniedError].
const ExitDenied = 3

// Limits of an error's text, all of which may come from annotations.
const (
	maxItems = 32
	maxShown = 253 // the longest name of anything in Kubernetes
)

// DeniedError says that some of what was asked for may not be had. Nothing is given then.
type DeniedError struct {
	Items []Denied // in the order of the requests
	Who   Container
	AddTo string // as in [Policy]
}

// Denied is a request that is denied.
type Denied struct {
	Request
	Reason string
	Rule   *Rule // the rule that denies it; nil where one that allows it is missing
}

// ExitCode returns [ExitDenied].
func (e *DeniedError) ExitCode() int { return ExitDenied }

// Error returns one line: every device, why, and what to add to the configuration.
func (e *DeniedError) Error() string {
	var parts []string
	for _, item := range e.Items[:min(len(e.Items), maxItems)] {
		parts = append(parts, "device "+shown(item.Name)+": "+item.Reason)
	}
	if more := len(e.Items) - maxItems; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(append(parts, e.advice()...), "; ")
}

func (e *DeniedError) advice() []string {
	var advice []string
	if rules := e.missing(); len(rules) > 0 {
		var tables []string
		for _, rule := range rules {
			tables = append(tables, rule.inline())
		}
		place := "a .toml file of its own among the configuration's"
		if e.AddTo != "" {
			place = "a .toml file of its own in " + e.AddTo
		}
		advice = append(advice, fmt.Sprintf("to allow it, put this line into %s: allow = [%s]", place, strings.Join(tables, ", ")))
	}
	if e.Who.Pod && e.Who.Namespace == "" {
		advice = append(advice, "on an engine without Kubernetes set the annotation "+namespaceKey+" and allow its value")
	}
	if slices.ContainsFunc(e.Items, func(d Denied) bool { return d.Rule != nil }) {
		advice = append(advice, "a [[deny]] wins over every [[allow]]: only changing it helps")
	}
	return advice
}

// Lines returns what could be added to a configuration file, as it is usually written:
// empty where no rule would help.
func (e *DeniedError) Lines() []string {
	var lines []string
	for _, rule := range e.missing() {
		lines = append(lines, "[[allow]]", "devices = "+tomlList(rule.Devices))
		if rule.Namespaces != nil {
			lines = append(lines, "namespaces = "+tomlList(rule.Namespaces))
		}
		if rule.Origin != "" {
			lines = append(lines, "origin = "+tomlString(string(rule.Origin)))
		}
	}
	return lines
}

// missing are the narrowest rules that would allow what none allows. What a kubelet asks
// for is not opened to pod authors by the way.
func (e *DeniedError) missing() []Rule {
	base := Rule{}
	if e.Who.Pod {
		if !isNamespace(e.Who.Namespace) {
			return nil
		}
		base.Namespaces = []string{e.Who.Namespace}
	}
	var rules []Rule
	for _, origin := range Origins() {
		rule := base
		rule.Devices = e.lacking(origin)
		if e.Who.Pod && origin == FromContainer {
			rule.Origin = origin
		}
		if len(rule.Devices) > 0 {
			rules = append(rules, rule)
		}
	}
	return rules
}

func (e *DeniedError) lacking(o Origin) []string {
	var names []string
	for _, item := range e.Items[:min(len(e.Items), maxItems)] {
		if item.Rule == nil && item.Origin == o && parser.IsQualifiedName(item.Name) && len(item.Name) <= maxShown {
			names = append(names, item.Name)
		}
	}
	return names
}

// inline returns the rule as a TOML inline table.
func (r *Rule) inline() string {
	text := "{devices = " + tomlList(r.Devices)
	if r.Namespaces != nil {
		text += ", namespaces = " + tomlList(r.Namespaces)
	}
	if r.Origin != "" {
		text += ", origin = " + tomlString(string(r.Origin))
	}
	return text + "}"
}

func isNamespace(name string) bool {
	return name != "" && len(name) <= maxShown && !strings.ContainsFunc(name, func(r rune) bool { return !isNamespaceRune(r) })
}

// tomlString quotes what has passed this package's checks. Other text is quoted as Go
// does, which differs from TOML only where it is no longer to be pasted.
func tomlString(s string) string { return strconv.Quote(cut(s)) }

// shown returns text as it is where that is harmless, else quoted.
func shown(unsafe string) string {
	text := cut(unsafe)
	if unsafe == "" || strconv.Quote(text) != `"`+text+`"` || strings.ContainsFunc(text, unicode.IsSpace) {
		return strconv.Quote(text)
	}
	return text
}

// cut shortens what somebody else chose the length of.
func cut(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return s[:maxShown] + "..."
}
