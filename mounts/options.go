package mounts

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Options is what the words of an OCI mount's options mean. The words mean what they
// mean to runc (runtime-spec config.md, "Linux mount options"): a later word wins over
// an earlier one, and a bind with any flag word gets exactly the flags that are named,
// not those of its source as well.
type Options struct {
	Bind      bool // bind or rbind
	Recursive bool // rbind

	flags, cleared uintptr         // MS_*, set and explicitly cleared
	propagation    []uintptr       // MS_SHARED and so on, in order
	recursiveAttr  *unix.MountAttr // rro, rnosuid, ...
	idmap          bool            // map ids as the container's user namespace does
	idmapRecursive bool
	data           []string // words of the filesystem; for a bind without meaning
}

type flagWord struct {
	clear bool
	flag  uintptr
}

func flagWordOf(word string) (flagWord, bool) {
	set := func(f uintptr) (flagWord, bool) { return flagWord{false, f}, true }
	clr := func(f uintptr) (flagWord, bool) { return flagWord{true, f}, true }
	switch word {
	case "ro":
		return set(unix.MS_RDONLY)
	case "rw":
		return clr(unix.MS_RDONLY)
	case "nosuid":
		return set(unix.MS_NOSUID)
	case "suid":
		return clr(unix.MS_NOSUID)
	case "nodev":
		return set(unix.MS_NODEV)
	case "dev":
		return clr(unix.MS_NODEV)
	case "noexec":
		return set(unix.MS_NOEXEC)
	case "exec":
		return clr(unix.MS_NOEXEC)
	case "nosymfollow":
		return set(unix.MS_NOSYMFOLLOW)
	case "symfollow":
		return clr(unix.MS_NOSYMFOLLOW)
	case "noatime":
		return set(unix.MS_NOATIME)
	case "atime":
		return clr(unix.MS_NOATIME)
	case "nodiratime":
		return set(unix.MS_NODIRATIME)
	case "diratime":
		return clr(unix.MS_NODIRATIME)
	case "relatime":
		return set(unix.MS_RELATIME)
	case "norelatime":
		return clr(unix.MS_RELATIME)
	case "strictatime":
		return set(unix.MS_STRICTATIME)
	case "nostrictatime":
		return clr(unix.MS_STRICTATIME)
	}
	return superblockWordOf(word)
}

// superblockWordOf knows the words that concern a filesystem as a whole. On a bind they
// count as flag words without an effect of their own.
func superblockWordOf(word string) (flagWord, bool) {
	switch word {
	case "sync":
		return flagWord{false, unix.MS_SYNCHRONOUS}, true
	case "async":
		return flagWord{true, unix.MS_SYNCHRONOUS}, true
	case "dirsync":
		return flagWord{false, unix.MS_DIRSYNC}, true
	case "mand":
		return flagWord{false, unix.MS_MANDLOCK}, true
	case "nomand":
		return flagWord{true, unix.MS_MANDLOCK}, true
	case "lazytime":
		return flagWord{false, unix.MS_LAZYTIME}, true
	case "nolazytime":
		return flagWord{true, unix.MS_LAZYTIME}, true
	case "iversion":
		return flagWord{false, unix.MS_I_VERSION}, true
	case "noiversion":
		return flagWord{true, unix.MS_I_VERSION}, true
	case "silent":
		return flagWord{false, unix.MS_SILENT}, true
	case "loud":
		return flagWord{true, unix.MS_SILENT}, true
	}
	return flagWord{}, false
}

func propagationOf(word string) uintptr {
	kind, recursive := strings.CutPrefix(word, "r")
	var flag uintptr
	switch kind {
	case "private":
		flag = unix.MS_PRIVATE
	case "slave":
		flag = unix.MS_SLAVE
	case "shared":
		flag = unix.MS_SHARED
	case "unbindable":
		flag = unix.MS_UNBINDABLE
	default:
		return 0
	}
	if recursive {
		flag |= unix.MS_REC
	}
	return flag
}

// recursiveOf knows the words that reach the mounts below a bind too (mount_setattr(2)
// with AT_RECURSIVE).
func recursiveOf(word string) (attr uint64, clear, ok bool) {
	word, ok = strings.CutPrefix(word, "r")
	if !ok {
		return 0, false, false
	}
	switch word {
	case "ro", "rw":
		return unix.MOUNT_ATTR_RDONLY, word == "rw", true
	case "nosuid", "suid":
		return unix.MOUNT_ATTR_NOSUID, word == "suid", true
	case "nodev", "dev":
		return unix.MOUNT_ATTR_NODEV, word == "dev", true
	case "noexec", "exec":
		return unix.MOUNT_ATTR_NOEXEC, word == "exec", true
	case "nodiratime", "diratime":
		return unix.MOUNT_ATTR_NODIRATIME, word == "diratime", true
	case "relatime", "norelatime":
		return unix.MOUNT_ATTR_RELATIME, word == "norelatime", true
	case "noatime", "atime":
		return unix.MOUNT_ATTR_NOATIME, word == "atime", true
	case "strictatime", "nostrictatime":
		return unix.MOUNT_ATTR_STRICTATIME, word == "nostrictatime", true
	case "nosymfollow", "symfollow":
		return unix.MOUNT_ATTR_NOSYMFOLLOW, word == "symfollow", true
	}
	return 0, false, false
}

// ParseOptions gives words their meaning. Words that are none of the kernel's are kept
// for the filesystem; a bind ignores them.
func ParseOptions(words []string) Options {
	var o Options
	for _, w := range words {
		switch w {
		case "bind", "rbind":
			o.Bind, o.Recursive = true, o.Recursive || w == "rbind"
			continue
		case "idmap", "ridmap":
			o.idmap, o.idmapRecursive = true, w == "ridmap"
			continue
		case "defaults", "":
			continue
		}
		o.parseWord(w)
	}
	return o
}

func (o *Options) parseWord(w string) {
	if f, ok := flagWordOf(w); ok {
		if f.clear {
			o.flags, o.cleared = o.flags&^f.flag, o.cleared|f.flag
		} else {
			o.flags, o.cleared = o.flags|f.flag, o.cleared&^f.flag
		}
		return
	}
	if p := propagationOf(w); p != 0 {
		o.propagation = append(o.propagation, p)
		return
	}
	if attr, clear, ok := recursiveOf(w); ok {
		o.addRecursive(attr, clear)
		return
	}
	o.data = append(o.data, w)
}

func (o *Options) addRecursive(attr uint64, clear bool) {
	if o.recursiveAttr == nil {
		o.recursiveAttr = &unix.MountAttr{}
	}
	a := o.recursiveAttr
	if clear {
		a.Attr_set, a.Attr_clr = a.Attr_set&^attr, a.Attr_clr|attr
	} else {
		a.Attr_set, a.Attr_clr = a.Attr_set|attr, a.Attr_clr&^attr
	}
	// relatime is 0 among the access-time values: one of them always replaces all
	// (mount_setattr(2)).
	if attr&unix.MOUNT_ATTR__ATIME == attr {
		a.Attr_clr |= unix.MOUNT_ATTR__ATIME
	}
}

// namesFlags tells whether any flag word is there, so that the flags of the source do
// not simply stay.
func (o Options) namesFlags() bool { return o.flags != 0 || o.cleared != 0 }

// ReadOnly tells whether the words make the mount read-only.
func (o Options) ReadOnly() bool { return o.flags&unix.MS_RDONLY != 0 || o.ReadOnlyBelow() }

// ReadOnlyBelow tells whether they make the mounts below it read-only too.
func (o Options) ReadOnlyBelow() bool {
	return o.recursiveAttr != nil && o.recursiveAttr.Attr_set&unix.MOUNT_ATTR_RDONLY != 0
}

const atimeFlags = unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME | unix.MS_STRICTATIME

// attr is the change that mount(2) MS_REMOUNT|MS_BIND with these flags makes: the
// flags become just these, access time stays unless it is named.
func (o Options) attr() unix.MountAttr {
	a := unix.MountAttr{Attr_set: attrOf(o.flags)}
	a.Attr_clr = attrOf(unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC) &^ a.Attr_set
	if o.cleared&unix.MS_NOSYMFOLLOW != 0 {
		a.Attr_clr |= unix.MOUNT_ATTR_NOSYMFOLLOW
	}
	if o.flags&atimeFlags != 0 {
		a.Attr_clr |= unix.MOUNT_ATTR__ATIME
		if o.flags&unix.MS_NODIRATIME == 0 {
			a.Attr_clr |= unix.MOUNT_ATTR_NODIRATIME
		}
	}
	return a
}

// attrOf translates mount(2) flags to mount_setattr(2) attributes.
func attrOf(flags uintptr) (attr uint64) {
	for _, f := range []struct {
		ms   uintptr
		attr uint64
	}{
		{unix.MS_RDONLY, unix.MOUNT_ATTR_RDONLY},
		{unix.MS_NOSUID, unix.MOUNT_ATTR_NOSUID},
		{unix.MS_NODEV, unix.MOUNT_ATTR_NODEV},
		{unix.MS_NOEXEC, unix.MOUNT_ATTR_NOEXEC},
		{unix.MS_NODIRATIME, unix.MOUNT_ATTR_NODIRATIME},
		{unix.MS_NOSYMFOLLOW, unix.MOUNT_ATTR_NOSYMFOLLOW},
	} {
		if flags&f.ms != 0 {
			attr |= f.attr
		}
	}
	switch {
	case flags&unix.MS_STRICTATIME != 0:
		attr |= unix.MOUNT_ATTR_STRICTATIME
	case flags&unix.MS_NOATIME != 0:
		attr |= unix.MOUNT_ATTR_NOATIME
	}
	return attr
}
