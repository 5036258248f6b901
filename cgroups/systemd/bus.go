package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Socket is where systemd, and nobody else, listens to root.
const Socket = "/run/systemd/private"

// Patience is what all calls over one connection may take together.
const Patience = time.Second

// ErrNotRunning says that the host has no systemd.
var ErrNotRunning = errors.New("systemd does not run")

// ErrSilent says that systemd took the connection and does not answer.
var ErrSilent = fmt.Errorf("no answer within %v", Patience)

// Bus is a connection to systemd.
type Bus struct {
	conn   *dbus.Conn
	ctx    context.Context
	cancel context.CancelCauseFunc
	left   time.Duration
}

// Connect connects to the systemd that runs the host. Without one it costs a stat and is
// ErrNotRunning.
func Connect(ctx context.Context) (*Bus, error) { return connect(ctx, Socket) }

func connect(ctx context.Context, socket string) (*Bus, error) {
	if err := checkSocket(socket); err != nil {
		return nil, err
	}
	b := &Bus{left: Patience}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	err := b.timed(func() (err error) {
		b.conn, err = dbus.NewConnection(func() (*godbus.Conn, error) { return dial(b.ctx, socket) })
		return err
	})
	if err != nil {
		b.cancel(nil)
		return nil, fmt.Errorf("systemd at %s: %w", socket, err)
	}
	return b, nil
}

// checkSocket makes sure that root listens there, or on its own behalf the user.
func checkSocket(socket string) error {
	st, err := os.Lstat(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotRunning
	}
	if err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	if st.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("systemd at %s: not a socket", socket)
	}
	if s, ok := st.Sys().(*syscall.Stat_t); !ok || s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("systemd at %s: the socket is not root's", socket)
	}
	return nil
}

// dial is what NewSystemdConnectionContext of go-systemd does for its one path: there is
// no Hello on a connection without a message bus.
func dial(ctx context.Context, socket string) (*godbus.Conn, error) {
	conn, err := godbus.Dial("unix:path="+godbus.EscapeBusAddressValue(socket), godbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Close ends the connection; nil is closed already.
func (b *Bus) Close() {
	if b != nil {
		b.conn.Close()
		b.cancel(nil)
	}
}

// timed runs a call and breaks the connection when the patience is at its end.
func (b *Bus) timed(call func() error) error {
	if b.left <= 0 {
		return ErrSilent
	}
	began := time.Now()
	timer := time.AfterFunc(b.left, func() { b.cancel(ErrSilent) })
	err := call()
	timer.Stop()
	b.left -= time.Since(began)
	if err != nil && b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	return err
}
