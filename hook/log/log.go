// Package log sends a line about a container to where a host keeps its logs: the journal,
// else syslog, or a file. Runtimes lose what a hook prints (crun), or show it only on
// failure (runc).
//
// It keeps nothing open, rotates nothing, and never holds up a container: a log that does
// not take a line at once loses it.
package log

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Level is how much a line matters, in syslog's numbers (syslog(3)).
type Level int

// Levels, the weightiest first.
const (
	Error   Level = 3
	Warning Level = 4
	Info    Level = 6
	Debug   Level = 7
)

// ParseLevel knows error, warning, info and debug.
func ParseLevel(name string) (Level, error) {
	for _, l := range []Level{Error, Warning, Info, Debug} {
		if l.String() == name {
			return l, nil
		}
	}
	return 0, fmt.Errorf("log level %q is none of error, warning, info, debug", name)
}

func (l Level) String() string {
	switch l {
	case Error:
		return "error"
	case Warning:
		return "warning"
	case Info:
		return "info"
	case Debug:
		return "debug"
	}
	return fmt.Sprint(int(l))
}

// Entry is one line and what it is about. Fields have the journal's form of names.
type Entry struct {
	Level   Level
	Message string
	Fields  map[string]string
}

// Names of fields.
const (
	FieldContainer = "CONTAINER_ID"
	FieldName      = "CONTAINER_NAME"
	FieldStage     = "OCI_STAGE"
	FieldDevices   = "CDI_DEVICES"
	FieldSpecs     = "CDI_SPECS"
	FieldDuration  = "DURATION_USEC"
)

// Auto means the journal, else syslog.
const Auto = "auto"

const identifier = "oci-cdi-hook"

// Errors of a log.
var (
	// ErrNoLog says that the host has neither a journal nor syslog.
	ErrNoLog = errors.New("no journal and no syslog here")
	// ErrSlow says that the log did not take a line in time; the next would wait as long.
	ErrSlow = errors.New("the log did not take a line in time")
)

// Send sends one entry to where says: Auto or the absolute path of a file.
func Send(where string, e Entry) error {
	e.Message = oneLine(e.Message)
	if where != Auto {
		return appendTo(where, e)
	}
	err := sendTo(journalSocket, e.journal())
	if !isAbsent(err) {
		return err
	}
	if err = sendTo(syslogSocket, e.syslog()); isAbsent(err) {
		return ErrNoLog
	}
	return err
}

// appendTo appends a line to a file that it makes if need be, never through a link.
func appendTo(name string, e Entry) error {
	if !filepath.IsAbs(name) {
		return fmt.Errorf("log file %q: not an absolute path", name)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s %s: %s\n", time.Now().Format(time.RFC3339), e.Level, e.text())
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
