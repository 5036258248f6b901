package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Where the logs of a host listen (systemd-journald.service(8), syslog(3)). The datagrams
// are written here, not by a library: those bring package net along, which would cost
// every container's start, also of those that log nothing.
const (
	journalSocket = "/run/systemd/journal/socket"
	syslogSocket  = "/dev/log"
)

// Reachable tells which of the host's logs listens.
func Reachable() (socket string, ok bool) {
	for _, socket := range []string{journalSocket, syslogSocket} {
		if st, err := os.Stat(socket); err == nil && st.Mode().Type() == os.ModeSocket {
			return socket, true
		}
	}
	return "", false
}

// patience bounds how long a log may take.
const patience = 500 * time.Millisecond

// maxDatagram bounds what is sent at once, below the default of net.core.wmem_max.
const maxDatagram = 128 << 10

// sendTo sends one datagram to a socket in the file system. A syslog that takes a stream
// instead gets one.
func sendTo(socket string, data []byte) error {
	data = data[:min(len(data), maxDatagram)]
	err := send(socket, unix.SOCK_DGRAM, data)
	if errors.Is(err, unix.EPROTOTYPE) {
		err = send(socket, unix.SOCK_STREAM, data)
	}
	if errors.Is(err, unix.EAGAIN) {
		return ErrSlow
	}
	if err != nil {
		return &os.PathError{Op: "send", Path: socket, Err: err}
	}
	return nil
}

func send(socket string, kind int, data []byte) error {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		return err
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		if err == nil {
			_, err = unix.SendmsgN(fd, data, nil, nil, unix.MSG_NOSIGNAL)
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isAbsent tells that nobody listens.
func isAbsent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOTSOCK)
}

// journal is the entry in the journal's native protocol
// (systemd.io, "Native Journal Protocol"): a field a line, a value of several lines behind
// its length.
func (e Entry) journal() []byte {
	b := fmt.Appendf(nil, "SYSLOG_IDENTIFIER=%s\nPRIORITY=%d\nMESSAGE=%s\n", identifier, e.Level, e.Message)
	for _, name := range e.names() {
		value := e.Fields[name]
		if !strings.Contains(value, "\n") {
			b = fmt.Appendf(b, "%s=%s\n", name, value)
			continue
		}
		b = binary.LittleEndian.AppendUint64(append(b, name+"\n"...), uint64(len(value)))
		b = append(append(b, value...), '\n')
	}
	return b
}

// daemon is syslog's facility LOG_DAEMON.
const daemon = 3 << 3

// syslog is the entry as syslog(3) writes it to the local socket.
func (e Entry) syslog() []byte {
	return fmt.Appendf(nil, "<%d>%s %s[%d]: %s\n", daemon|int(e.Level), time.Now().Format(time.Stamp), identifier, os.Getpid(), e.text())
}

// names lists the fields that have a value, in order.
func (e Entry) names() []string {
	var names []string
	for name, value := range e.Fields {
		if value != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// text is the message with its fields, for logs that know only lines.
func (e Entry) text() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, name := range e.names() {
		fmt.Fprintf(&b, " %s=%q", name, e.Fields[name])
	}
	return b.String()
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}
