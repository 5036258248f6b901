// Package cgroups lets one cgroup open devices that it may not open yet.
//
// A [Cgroup] is a directory descriptor; all is done through it. On cgroup v1 a rule is a
// line in devices.allow. On cgroup v2 access is decided by BPF programs, and all that are
// attached must agree: so each program of the cgroup is replaced by itself with our rules
// in front. No program is built anew from nothing, and nothing gets narrower.
//
// Kernel interfaces and what serves where they are missing:
//
//	BPF_CGROUP_DEVICE                 4.15  none: cgroup v2 has no device control before
//	BPF_F_REPLACE                     5.6   (EINVAL) attach the new one, then detach the old
//	memory of programs not charged    5.11  RLIMIT_MEMLOCK raised for one call
//	expected revision of an attach    6.17  no guard where a program is attached without flags
//
// What it does not do: it never touches an ancestor, since that would widen every
// neighbour ([Cgroup.Denying] only names the one that denies). It neither creates nor
// removes cgroups, does not tell systemd (which may put its own program back), replaces
// no program that a BPF link holds, none that uses maps or calls, and none that it cannot
// read unless it is told what it said. It takes no lock: two callers on one cgroup do not
// harm each other where the kernel has BPF_F_REPLACE, but may where it lacks it.
//
// On cgroup v1 a cgroup that allows by default lists no exceptions: it is taken at its
// word, that it allows all.
package cgroups
