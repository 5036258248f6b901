// Package systemd tells the host's systemd that a scope may open devices, so that what
// package cgroups has put into the kernel stays: systemd writes device rules anew when it
// reloads, when a unit's properties change, or when it feels like it, and then knows only
// its own.
//
// A [Bus] is a connection to systemd's private socket, which needs no message bus and
// takes no address from the environment. All calls over one together may take [Patience].
//
//	DeviceAllow=/dev/char/MAJOR:MINOR   no node of that name need be there
//	DeviceAllow=char-MAJOR, char-*      all minors; all of the type
//	BPFProgram=device:PATH              249; a program that somebody pinned in bpffs
//
// What it does not do: it never makes a filter where there is none. A unit with
// DevicePolicy=auto and no DeviceAllow opens everything, and one rule more would take away
// all others: [State.Missing] is for units that filter, and [Bus.Allow] refuses others. It
// creates no units, knows only scopes, and reads nothing of what the kernel enforces: that is package
// cgroups. Users' own systemd instances, which have no say about devices, are not asked.
package systemd
