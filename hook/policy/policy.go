// Package policy decides who may have which device, and from where on the host a device
// may bring mounts. Deciding is pure: requests, annotations and rules in, an error out,
// and the error says which lines in the configuration would change the answer.
//
// A container on a host without pods has been started by somebody who could start any
// container: without rules he is given what he asks for. An annotation of a pod comes from
// anyone who may create pods: without a rule that allows it, nothing is given.
//
// What this package does not do: it reads no files, does not know which devices there are,
// and authenticates nobody. It believes the engine that annotations which only an engine
// writes are the engine's, see [WhoIs] and [ByOrigin].
package policy

import (
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
)

// Policy is the rules of a host. The zero Policy has none.
type Policy struct {
	Allow, Deny []Rule
	// Sources are the host trees that mounts may come from; any, where empty.
	Sources []string
	// AddTo is the directory that a rule could be added in, for errors.
	AddTo string
}

// Rule is about devices and whoever asks for them.
type Rule struct {
	Devices []string // qualified names, whose name part may be a glob
	// Namespaces makes it a rule about pods of these namespaces, which may be globs.
	// Without (nil), an allowing rule is about containers that are no pods, and a denying
	// rule about all containers.
	Namespaces []string
	Origin     Origin // empty: of any origin
	Where      string // place in the configuration, for errors
}

// Origin tells who has written an annotation.
type Origin string

// The origins. One that is not known is taken for the less trusted, FromPod.
const (
	FromPod       Origin = "pod"       // on the pod: its author
	FromContainer Origin = "container" // on the container: who starts it; in Kubernetes the kubelet and device plugins
)

// Origins are all origins, in order.
func Origins() []Origin { return []Origin{FromContainer, FromPod} }

// Request is a device that is asked for.
type Request struct {
	Name   string // qualified
	Origin Origin
}

// Check tells whether a container may have all that is asked for it. If not, the error is
// a [*DeniedError] that has every request that is denied.
func (p *Policy) Check(requests []Request, who Container) error {
	var denied []Denied
	seen := map[Request]bool{}
	for _, r := range requests {
		if !who.Pod {
			r.Origin = FromContainer
		} else if r.Origin != FromContainer {
			r.Origin = FromPod
		}
		if seen[r] {
			continue
		}
		seen[r] = true
		if reason, rule := p.verdict(r, who); reason != "" {
			denied = append(denied, Denied{Request: r, Reason: reason, Rule: rule})
		}
	}
	if denied == nil {
		return nil
	}
	return &DeniedError{Items: denied, Who: who, AddTo: p.AddTo}
}

// CheckDenied tells whether [Policy.Deny] forbids names for a container to whoever asks,
// be it the administrator of the host: nothing needs to be allowed to him. Only rules about
// the annotations of a pod (FromPod) are not about him.
func (p *Policy) CheckDenied(names []string, who Container) error {
	var denied []Denied
	for _, name := range names {
		request := Request{Name: name, Origin: FromContainer}
		for i := range p.Deny {
			if rule := &p.Deny[i]; rule.denies(request, who) {
				denied = append(denied, Denied{Request: request, Reason: "denied by " + rule.describe("deny"), Rule: rule})
				break
			}
		}
	}
	if denied == nil {
		return nil
	}
	return &DeniedError{Items: denied, Who: who, AddTo: p.AddTo}
}

// verdict gives no reason where the request is fine, and the rule that denies it, if any.
func (p *Policy) verdict(r Request, who Container) (string, *Rule) {
	if !parser.IsQualifiedName(r.Name) {
		return "no qualified name", nil
	}
	for i := range p.Deny {
		if rule := &p.Deny[i]; rule.denies(r, who) {
			return "denied by " + rule.describe("deny"), rule
		}
	}
	for i := range p.Allow {
		if p.Allow[i].allows(r, who) {
			return "", nil
		}
	}
	switch {
	case who.Pod && who.Namespace == "":
		return "in a pod without " + namespaceKey + ", which no [[allow]] can match", nil
	case who.Pod:
		return fmt.Sprintf("asked for on the %s, in a pod of namespace %q to which no [[allow]] gives it", r.Origin, cut(who.Namespace)), nil
	case slices.ContainsFunc(p.Allow, forHost):
		return "there are [[allow]] rules for containers that are no pods, and none gives it", nil
	}
	return "", nil
}

func forHost(r Rule) bool { return r.Namespaces == nil }

// denies errs on the side of denying: a broken pattern matches.
func (r *Rule) denies(request Request, who Container) bool {
	switch {
	case r.Namespaces == nil:
	case !who.Pod || !r.hasNamespace(who, true):
		return false
	}
	return r.hasOrigin(request.Origin) && r.hasDevice(request.Name, true)
}

// allows errs on the side of not allowing: a broken pattern matches nothing.
func (r *Rule) allows(request Request, who Container) bool {
	switch {
	case who.Pod && (r.Namespaces == nil || !r.hasNamespace(who, false)):
		return false
	case !who.Pod && r.Namespaces != nil:
		return false
	}
	return r.hasOrigin(request.Origin) && r.hasDevice(request.Name, false)
}

func (r *Rule) hasOrigin(o Origin) bool { return r.Origin == "" || r.Origin == o }

// hasNamespace is false for a pod without a namespace, "*" or not.
func (r *Rule) hasNamespace(who Container, ifBroken bool) bool {
	return who.Namespace != "" && slices.ContainsFunc(r.Namespaces, func(pattern string) bool {
		return matches(pattern, who.Namespace, ifBroken)
	})
}

func (r *Rule) hasDevice(name string, ifBroken bool) bool {
	return slices.ContainsFunc(r.Devices, func(pattern string) bool {
		return matchesDevice(pattern, name, ifBroken)
	})
}

func (r *Rule) describe(table string) string {
	text := "[[" + table + "]] devices = " + tomlList(r.Devices)
	if r.Namespaces != nil {
		text += ", namespaces = " + tomlList(r.Namespaces)
	}
	if r.Origin != "" {
		text += ", origin = " + tomlString(string(r.Origin))
	}
	if r.Where != "" {
		text += " (" + r.Where + ")"
	}
	return text
}

func tomlList(items []string) string {
	var quoted []string
	for _, item := range items {
		quoted = append(quoted, tomlString(item))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
