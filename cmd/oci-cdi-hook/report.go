package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"oci-cdi-hook/hook"
	"oci-cdi-hook/hook/log"
)

// report tells what a stage did: warnings to stderr, which an engine may show, and all of
// it to the log. The error itself goes to stderr at the very end of the program.
type report struct {
	s     streams
	flags *commonFlags
	stage string
	began time.Time

	gaveUp bool // on a log that takes no lines: the container waits for each
}

func (r *report) tell(out *hook.Outcome, err error) {
	if out == nil {
		out = &hook.Outcome{}
	}
	for _, w := range out.Warnings {
		if r.flags.level >= log.Warning {
			fmt.Fprintln(r.s.err, "oci-cdi-hook: warning:", w)
		}
		r.log(log.Warning, w, out)
	}
	switch {
	case err != nil:
		r.log(log.Error, err.Error(), out)
		hook.NoteFailure(r.flags.settings, r.stage, out, oneLine(err), exitCode(err))
	case out.LeftAlone != "":
		r.log(log.Info, "left alone: "+out.LeftAlone, out)
	case out.Already:
		r.log(log.Debug, "was done already", out)
	case out.Plan != nil && isLater(r.stage):
		r.log(log.Debug, "ran the vendors' hooks of "+r.stage, out)
	case out.Plan != nil && r.stage == "detach":
		r.log(log.Info, "took from the container "+strings.Join(out.Plan.Devices, ", "), out)
	case out.Plan != nil && r.stage == "repair":
		r.log(log.Info, "mended what the container was given: "+strings.Join(out.Plan.Devices, ", "), out)
	case out.Plan != nil:
		r.log(log.Info, "gave the container "+strings.Join(out.Plan.Devices, ", "), out)
	}
	// A container that asks for nothing leaves no word anywhere.
}

func (r *report) log(level log.Level, message string, out *hook.Outcome) {
	if level > r.flags.level || r.gaveUp {
		return
	}
	fields := map[string]string{
		log.FieldContainer: out.ContainerID,
		log.FieldName:      out.ContainerName,
		log.FieldStage:     r.stage,
		log.FieldDuration:  strconv.FormatInt(time.Since(r.began).Microseconds(), 10),
	}
	devices, specs := out.Asked, slices.Clone(out.Specs)
	if p := out.Plan; p != nil {
		devices = p.Devices
		for _, a := range p.Actions {
			if !slices.Contains(specs, a.Spec) {
				specs = append(specs, a.Spec)
			}
		}
	}
	fields[log.FieldDevices], fields[log.FieldSpecs] = strings.Join(devices, ","), strings.Join(specs, ",")
	err := log.Send(r.flags.logFile, log.Entry{Level: level, Message: message, Fields: fields})
	r.gaveUp = errors.Is(err, log.ErrSlow)
	// A host without any log has none to miss; a file that was asked for is another matter.
	if err != nil && r.flags.logFile != log.Auto {
		fmt.Fprintln(r.s.err, "oci-cdi-hook: warning: log:", err)
	}
}
