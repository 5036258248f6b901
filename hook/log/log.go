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
	"log/syslog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
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

var levelNames = map[string]Level{"error": Error, "warning": Warning, "info": Info, "debug": Debug}

// ParseLevel knows error, warning, info and debug.
func ParseLevel(name string) (Level, error) {
	if l, ok := levelNames[name]; ok {
		return l, nil
	}
	return 0, fmt.Errorf("log level %q is none of error, warning, info, debug", name)
}

func (l Level) String() string {
	for name, level := range levelNames {
		if level == l {
			return name
		}
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

// patience bounds how long a log may take.
const patience = 500 * time.Millisecond

// ErrNoLog says that the host has neither a journal nor syslog.
var ErrNoLog = errors.New("no journal and no syslog here")

// ErrSlow says that the log did not take a line in time; the next one would wait as long.
var ErrSlow = fmt.Errorf("log did not take a line in %v", patience)

// Send sends one entry to where says: Auto or the absolute path of a file.
func Send(where string, e Entry) error {
	e.Message = oneLine(e.Message)
	if where != Auto {
		return appendTo(where, e)
	}
	done := make(chan error, 1)
	go func() { done <- sendAuto(e) }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return ErrSlow
	}
}

func sendAuto(e Entry) error {
	if journal.Enabled() {
		fields := map[string]string{"SYSLOG_IDENTIFIER": identifier}
		for name, value := range e.Fields {
			fields[name] = value
		}
		return journal.Send(e.Message, journal.Priority(e.Level), fields)
	}
	w, err := syslog.New(syslog.Priority(e.Level)|syslog.LOG_DAEMON, identifier)
	if err != nil {
		return ErrNoLog
	}
	_, err = w.Write([]byte(e.text()))
	return errors.Join(err, w.Close())
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

// text is the message with its fields, for logs that know only lines.
func (e Entry) text() string {
	var b strings.Builder
	b.WriteString(e.Message)
	var names []string
	for name := range e.Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if v := e.Fields[name]; v != "" {
			fmt.Fprintf(&b, " %s=%q", name, v)
		}
	}
	return b.String()
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}
