package main

import (
	"golang.org/x/sys/unix"
)

// remount takes the flags of a mount away one by one, in the new way, and all of them in the old one; what the kernel says is reported.
func remount(path string) (out []string) {
	for _, f := range []struct {
		word string
		flag uint64
	}{
		{"rw", unix.MOUNT_ATTR_RDONLY}, {"suid", unix.MOUNT_ATTR_NOSUID}, {"dev", unix.MOUNT_ATTR_NODEV}, {"exec", unix.MOUNT_ATTR_NOEXEC},
	} {
		err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: f.flag})
		out = append(out, "remount "+path+" "+f.word+" "+outcome(err))
	}
	err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, "")
	out = append(out, "remount "+path+" without flags "+outcome(err))
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return append(out, "remount "+path+" "+errno(err))
	}
	for _, f := range []struct {
		word string
		flag int64
	}{{"ro", unix.ST_RDONLY}, {"nosuid", unix.ST_NOSUID}, {"nodev", unix.ST_NODEV}, {"noexec", unix.ST_NOEXEC}} {
		if st.Flags&f.flag != 0 {
			out = append(out, "remount "+path+" is still "+f.word)
		}
	}
	return out
}
