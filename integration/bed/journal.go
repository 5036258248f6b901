package bed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Sockets of a host's logs.
const (
	JournalSocket = "/run/systemd/journal/socket"
	SyslogSocket  = "/dev/log"
)

// LogSocket plays journald or a syslog daemon: datagrams stay in the kernel until they are taken.
type LogSocket struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

// Listen makes the socket of a log.
func (h *Host) Listen(path string) *LogSocket {
	h.t.Helper()
	h.Dir(filepath.Dir(path))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	h.must(err)
	h.undo(path)
	h.t.Cleanup(func() { conn.Close() })
	return &LogSocket{h.t, conn, path}
}

// Take takes what has come so far.
func (l *LogSocket) Take() []string {
	l.t.Helper()
	var out []string
	buf := make([]byte, 64<<10)
	for {
		// the senders are gone: what was sent is here, and needs no time
		if err := l.conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			l.t.Fatal(err)
		}
		n, err := l.conn.Read(buf)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return out
		}
		if err != nil {
			l.t.Fatal(err)
		}
		out = append(out, string(buf[:n]))
	}
}

// Fill sends until nothing more fits, so that the next one waits.
func (l *LogSocket) Fill() {
	l.t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	defer unix.Close(fd)
	for range 1 << 20 {
		err := unix.Sendto(fd, []byte("MESSAGE=full\n"), 0, &unix.SockaddrUnix{Name: l.path})
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.t.Fatal("a socket without a limit")
}

// JournalEntries takes what has come in the journal's native protocol: NAME=value, or NAME, the length (64 bits, little endian) and value.
func (l *LogSocket) JournalEntries() []map[string]string {
	l.t.Helper()
	var out []map[string]string
	for _, datagram := range l.Take() {
		entry := map[string]string{}
		for rest := []byte(datagram); len(rest) > 0; {
			line, after, found := bytes.Cut(rest, []byte("\n"))
			if !found {
				l.t.Fatalf("an entry breaks off: %q", datagram)
			}
			name, value, plain := strings.Cut(string(line), "=")
			if !plain {
				size := binary.LittleEndian.Uint64(after)
				value, after = string(after[8:8+size]), after[8+size+1:]
			}
			if _, twice := entry[name]; twice {
				l.t.Errorf("%s is there twice: %q", name, datagram)
			}
			entry[name], rest = value, after
		}
		out = append(out, entry)
	}
	return out
}
