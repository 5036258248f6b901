package hook

import (
	"encoding/json"
	"time"

	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/record"
)

// StateRunning is a container that runs; see [StateGone], [StateUnderWay].
const StateRunning = "running"

// StatusReport is what the records say that containers were given.
type StatusReport struct {
	Containers []Given        `json:"containers"`
	Errors     []BrokenRecord `json:"errors"`
}

// Given is what one container was given, and for which of its devices something was left
// out.
type Given struct {
	ID          string             `json:"id"`
	Name        string             `json:"name,omitempty"`
	Engine      string             `json:"engine,omitempty"`
	Pod         string             `json:"pod,omitempty"`
	Bundle      string             `json:"bundle"`
	Pid         int                `json:"pid"`
	State       string             `json:"state"`
	Time        time.Time          `json:"time,omitzero"`
	Devices     []string           `json:"devices"`
	Actions     []plan.Action      `json:"actions"`
	Unsupported []plan.Unsupported `json:"unsupported"`
}

// Status tells what containers were given: those that an id means, or all for an empty one.
// An id is the container's, the beginning of one, or its name where the engine tells that.
func Status(s Settings, id string) (*StatusReport, error) {
	spareGC()
	found, err := s.choose(id)
	if err != nil {
		return nil, err
	}
	result := &StatusReport{Containers: []Given{}, Errors: append([]BrokenRecord{}, found.broken...)}
	for _, n := range found.found {
		g, err := given(n.record)
		if err != nil {
			result.Errors = append(result.Errors, BrokenRecord{ID: n.record.ID, Error: err.Error()})
			continue
		}
		result.Containers = append(result.Containers, g)
	}
	return result, nil
}

func given(r *record.Record) (Given, error) {
	g := Given{
		ID: r.ID, Name: r.Name, Engine: r.Engine, Pod: r.Pod, Bundle: r.Bundle, Pid: r.Pid, Time: r.Time,
		Devices: append([]string{}, r.Devices...), Actions: []plan.Action{}, Unsupported: []plan.Unsupported{},
	}
	switch {
	case isGone(r):
		g.State = StateGone
	case !r.Done:
		g.State = StateUnderWay
	default:
		g.State = StateRunning
	}
	actions, err := recordedActions(r)
	if err != nil {
		return g, err
	}
	g.Actions = append(g.Actions, actions...)
	if len(r.Unsupported) > 0 {
		err = json.Unmarshal(r.Unsupported, &g.Unsupported)
	}
	return g, err
}
