package hook

import (
	"oci-cdi-hook/cgroups"
	"oci-cdi-hook/hook/oci"
)

// runtimeDevices are what every runtime allows besides the config's rules
// (runtime-spec, config-linux.md, "Default Devices"): making any node, and the pseudo
// devices and terminals.
var runtimeDevices = []cgroups.Rule{
	{Type: 'c', Major: cgroups.Any, Minor: cgroups.Any, Access: "m"},
	{Type: 'b', Major: cgroups.Any, Minor: cgroups.Any, Access: "m"},
	{Type: 'c', Major: 1, Minor: 3, Access: "rwm"},
	{Type: 'c', Major: 1, Minor: 5, Access: "rwm"},
	{Type: 'c', Major: 1, Minor: 7, Access: "rwm"},
	{Type: 'c', Major: 1, Minor: 8, Access: "rwm"},
	{Type: 'c', Major: 1, Minor: 9, Access: "rwm"},
	{Type: 'c', Major: 5, Minor: 0, Access: "rwm"},
	{Type: 'c', Major: 5, Minor: 2, Access: "rwm"},
	{Type: 'c', Major: 136, Minor: cgroups.Any, Access: "rwm"},
}

// tun is what runc allows besides, up to 1.1. Its versions cannot be told apart here, and a
// program that is built anew must not take a device away.
var tun = cgroups.Rule{Type: 'c', Major: 10, Minor: 200, Access: "rwm"}

// deviceDecisions is what a runtime was asked for and does by itself, for the case that
// its program cannot be read. Without a config nothing is known.
func deviceDecisions(c *oci.Container) []cgroups.Decision {
	config := c.Config
	if config == nil {
		return nil
	}
	all := []cgroups.Decision{}
	if l := config.Linux; l != nil && l.Resources != nil {
		for _, d := range l.Resources.Devices {
			kind := byte('a')
			if d.Type != "" {
				kind = d.Type[0]
			}
			r := cgroups.Rule{Type: kind, Major: cgroups.Any, Minor: cgroups.Any, Access: d.Access}
			if d.Major != nil {
				r.Major = *d.Major
			}
			if d.Minor != nil {
				r.Minor = *d.Minor
			}
			if r.Access == "" {
				r.Access = "rwm"
			}
			all = append(all, cgroups.Decision{Allow: d.Allow, Rule: r})
		}
	}
	defaults := runtimeDevices
	if c.Root == "" { // not crun
		defaults = append(defaults[:len(defaults):len(defaults)], tun)
	}
	for _, r := range defaults {
		all = append(all, cgroups.Decision{Allow: true, Rule: r})
	}
	return all
}
