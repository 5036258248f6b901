package hook

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"oci-cdi-hook/hook/record"
)

// noteWait bounds what a container's end waits for others that fail at the same moment.
const noteWait = 200 * time.Millisecond

// NoteFailure keeps why a stage failed, where a container asked for something. That it
// cannot be kept changes nothing: the log has it too.
func NoteFailure(s Settings, stage string, out *Outcome, reason string, exitCode int) {
	if out == nil || out.ContainerID == "" && len(out.Asked) == 0 {
		return
	}
	devices := out.Asked
	if out.Plan != nil {
		devices = out.Plan.Devices
	}
	dir, err := record.OpenDir(s.stateDir())
	if err != nil {
		return
	}
	defer dir.Close()
	if trusted("state directory", s.stateDir()) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteWait)
	defer cancel()
	_ = dir.AddFailure(ctx, record.Failure{
		Time: time.Now().UTC().Truncate(time.Millisecond), ID: out.ContainerID, Name: out.ContainerName,
		Stage: stage, Devices: devices, Reason: reason, ExitCode: exitCode,
	})
}

// Failures are the last refusals and failures of stages, the newest first.
type Failures struct {
	Failures []record.Failure `json:"failures"`
}

// Failed lists the last failures: those of the containers that an id is or begins, by id
// or name, or all for an empty one.
func Failed(s Settings, asked string) (*Failures, error) {
	result := &Failures{Failures: []record.Failure{}}
	dir, err := record.OpenExisting(s.stateDir())
	if errors.Is(err, os.ErrNotExist) {
		return result, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	all, err := dir.Failures()
	for _, f := range all {
		if asked == "" || f.Name == asked || strings.HasPrefix(f.ID, asked) {
			result.Failures = append(result.Failures, f)
		}
	}
	return result, err
}
