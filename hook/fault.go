package hook

import (
	"fmt"

	"oci-cdi-hook/hook/plan"
)

// What can have become of something that a container was given.
const (
	FaultMissing   = "missing"   // nothing is there
	FaultOther     = "other"     // something else is there
	FaultStale     = "stale"     // it is there, but the host has another by now, or none
	FaultDenied    = "denied"    // a cgroup denies it
	FaultForgotten = "forgotten" // systemd does not know of it any more
)

// Fault is one thing that a container was given and that is not as it was given.
type Fault struct {
	// Action is its index in the record's actions.
	Action int `json:"-"`
	// Kind is that of the action: mount, node or rule.
	Kind string `json:"kind"`
	plan.Origin
	// What is the path in the container, or the rule: "c 10:229 rwm".
	What string `json:"what"`
	// Fault is one of the words above, and Text says more.
	Fault string `json:"fault"`
	Text  string `json:"text"`
	// Cgroup denies the rule, or Unit has forgotten it.
	Cgroup string `json:"cgroup,omitempty"`
	Unit   string `json:"unit,omitempty"`
}

// String is one line about it, without the container.
func (f Fault) String() string {
	return fmt.Sprintf("device %s: %s %s: %s", f.Device, f.Kind, f.What, f.Text)
}
