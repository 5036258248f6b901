// Package mounts puts device nodes, binds and filesystems into the root file system of
// a container that exists but has not started, without ever acting on a path that the
// container's image could bend.
//
// A container's root is held as a descriptor ([Root]); targets are resolved beneath it
// with openat2(2) RESOLVE_IN_ROOT (or what securejoin's pathrs-lite does where the
// kernel lacks it) and from there on only descriptors are used. Sources are paths of
// the host, trusted as far as whoever named them.
//
// Every function that changes something returns its [Undo], which removes just what
// the call made. All functions act in the calling thread's mount namespace: run them on
// a thread that joined the container's (package nsthread).
//
// Kernel interfaces and what serves where they are missing (ENOSYS):
//
//	open_tree, move_mount    5.2    mount(2) MS_BIND through /proc/thread-self/fd
//	openat2                  5.6    pathrs-lite's own walk
//	statx mount id, root     5.8    /proc/thread-self/fdinfo, mountinfo
//	mount_setattr            5.12   mount(2) MS_REMOUNT|MS_BIND after attaching
//	MOUNT_ATTR_NOSYMFOLLOW   5.14   left alone unless asked for
//	fsopen, fsmount          5.2    mount(2)
//	fchmodat2                6.6    chmod(2) of /proc/thread-self/fd
//
// What it does not do: it never relabels, never changes what lies on the host, does not
// mount proc, sysfs, mqueue, devpts or cgroup (their content depends on who mounts them),
// does not unmount what others mounted, and cannot protect from somebody who can write
// the mount sources. Between a check and the deed the image may change; then the deed
// fails, or acts inside the root all the same.
package mounts
