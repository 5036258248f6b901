package hook

import "golang.org/x/sys/unix"

var _ = unix.Getpid
var _ = unix.O_PATH
var _ = unix.CLONE_NEWNS
var _ unix.Stat_t
var _ = unix.SYS_READ
var _ = unix.Openat2
