package doctor

import "fmt"

// State is how bad it is.
type State string

// States.
const (
	OK      State = "ok"
	Warning State = "warning" // something works less well, or not for everybody
	Fault   State = "fault"   // the hook will not do its work
)

// Finding is one thing that was looked at.
type Finding struct {
	Subject string `json:"subject"`
	State   State  `json:"state"`
	Text    string `json:"text"`
	// Do is what to do about it; empty where nothing is wrong.
	Do string `json:"do,omitempty"`
}

// Findings are in the order in which they were looked at.
type Findings []Finding

// Faulty tells whether there is a fault among them.
func (f Findings) Faulty() bool {
	for _, one := range f {
		if one.State == Fault {
			return true
		}
	}
	return false
}

// Ok adds what is as it should be.
func (f *Findings) Ok(subject, format string, args ...any) {
	*f = append(*f, Finding{Subject: subject, State: OK, Text: fmt.Sprintf(format, args...)})
}

// Warn adds what is worse than it could be, with what to do.
func (f *Findings) Warn(subject, do, format string, args ...any) {
	*f = append(*f, Finding{Subject: subject, State: Warning, Text: fmt.Sprintf(format, args...), Do: do})
}

// Fault adds what keeps the hook from its work, with what to do.
func (f *Findings) Fault(subject, do, format string, args ...any) {
	*f = append(*f, Finding{Subject: subject, State: Fault, Text: fmt.Sprintf(format, args...), Do: do})
}
