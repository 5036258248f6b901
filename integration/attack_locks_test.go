package integration

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

const lockedDir = "/run/bed/src"

// TestLocks has containers that may mount, in a user namespace of their own, take the flags away that the host's mounts have: those are
// the host's to give (mount_namespaces(7), "Restrictions"). As natively, but for crun, which mounts from outside and locks nothing.
func TestLocks(t *testing.T) {
	var rows []row
	for _, host := range []struct {
		name  string
		flags uintptr
		still []string
	}{
		{"read-only", unix.MS_RDONLY, []string{"ro"}},
		{"nosuid and nodev", unix.MS_NOSUID | unix.MS_NODEV, []string{"nosuid", "nodev"}},
	} {
		for _, words := range []string{"bind", "bind, ro", "rbind, ro, nosuid, nodev, noexec", "rbind, rslave", "rbind, rshared", "bind, idmap", "rbind, ridmap, ro"} {
			r := lockedRow(words+" of what is "+host.name, words, host.flags)
			for _, flag := range host.still {
				r.has = append(r.has, "write remount /opt/d is still "+flag)
			}
			r.differs = crunUnlocks(host.still)
			if host.flags != unix.MS_RDONLY && strings.HasSuffix(words, "ro") {
				r.native = notOnRunc11
			}
			rows = append(rows, r)
		}
		r := lockedRow("words that take away what is "+host.name, "bind, rw, suid, dev", host.flags)
		r.has, r.alone, r.refused = nil, true, host.still[0]
		rows = append(rows, r)
	}
	// what the spec alone asks for is no lock, here as natively: who may remount may write
	own := lockedRow("ro of what is writable", "bind, ro", 0)
	own.has = []string{"write remount /opt/d rw ok", "write /opt/d ok"}
	compareAll(t, append(rows, own))
	t.Logf("attacked: %d mounts, each by taking four flags away one by one and at once, on each runtime; lost: 0", len(rows))
}

func lockedRow(name, words string, flags uintptr) row {
	return row{
		name: name, spec: device(mountOf(lockedDir, "/opt/d", "options: ["+words+"]")), bundle: mapped,
		host: func(h *bed.Host) {
			h.Dir(lockedDir)
			h.Mount("src", lockedDir, "tmpfs", 0, "mode=0777")
			h.File(lockedDir+"/f", "of the host", 0o666)
			h.Flags(lockedDir, flags)
		},
		remounting: []string{"/opt/d"}, writable: []string{"/opt/d"},
		hide: []string{"path /opt/d", "mount /opt/d"}, // idmaps, which TestUserNamespace is about
	}
}

func crunUnlocks(still []string) func(bed.Runtime) []string {
	return func(rt bed.Runtime) []string {
		switch {
		case !rt.IsCrun():
			return nil
		case slices.Contains(still, "ro"):
			return []string{
				"-write remount /opt/d rw ok", "+write remount /opt/d rw EPERM", "-write remount /opt/d without flags ok", "-write /opt/d ok",
				"+write remount /opt/d without flags EPERM", "+write remount /opt/d is still ro", "+write /opt/d EROFS",
			}
		}
		return []string{
			"-write remount /opt/d suid ok", "-write remount /opt/d dev ok", "+write remount /opt/d suid EPERM", "+write remount /opt/d dev EPERM",
			"-write remount /opt/d without flags ok", "+write remount /opt/d without flags EPERM", "+write remount /opt/d is still nosuid", "+write remount /opt/d is still nodev",
		}
	}
}

// TestLockedMountsBelow has such a container unmount what lies on a folder of the host's: what the host has hidden below stays hidden.
func TestLockedMountsBelow(t *testing.T) {
	const tree = "/run/bed/tree"
	compareAll(t, []row{{
		name: "a tree", spec: device(mountOf(tree, "/opt/tree", "options: [rbind]")), bundle: mapped, alone: true,
		host: func(h *bed.Host) {
			h.File(tree+"/sub/secret", "of the host", 0o644)
			h.Mount("cover", tree+"/sub", "tmpfs", 0, "mode=0755")
		},
		unmounting: []string{"/opt/tree/sub"}, has: []string{"write unmount /opt/tree/sub EINVAL", "write in /opt/tree/sub []"},
	}})
}

// TestHostMountsStay has containers mount inside of what they were given, on hosts where all is shared, and in roots whose propagation the
// config changes. None of it may come to the host, meanwhile or when the container is gone.
func TestHostMountsStay(t *testing.T) {
	n := 0
	for _, root := range []string{"", "shared", "rshared", "slave", "rslave", "private"} {
		for _, words := range []string{"bind", "rbind", "rbind, rslave", "rbind, rshared", "bind, shared"} {
			n++
			if !bed.Long() && (n%4 != 0 || bed.Cgroup() == bed.V1) {
				continue
			}
			t.Run("root "+root+", "+words, func(t *testing.T) {
				bed.Each(t, func(t *testing.T, rt bed.Runtime) { mountInside(t, rt, root, words) })
			})
		}
	}
}

func mountInside(t *testing.T, rt bed.Runtime, root, words string) {
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	treeWithInner(h)
	canary := h.Canary()
	h.StandInsFor(bed.WriteSpec(t, "spec.yaml", device(mountOf("/opt/t/tree", "/opt/tree", "options: ["+words+"]"), "deviceNodes: [{path: /opt/n/one, hostPath: /dev/fuse}]")))
	b := bed.NewBundle(t)
	b.Config.Linux.RootfsPropagation = root
	b.Annotate("v.example/dev=a")
	b.Register()
	b.LiveMounting("/opt/tree/inner", "/opt/tree", "/opt/n")
	b.Write()
	if res := b.Create(rt); res.Refused() {
		t.Fatal(res.Stderr)
	}
	b.Must(rt, "start", b.ID)
	b.WaitMounted(life{t, b, rt}.pid(), 3)
	if touched := canary.Touched(); len(touched) > 0 {
		t.Errorf("while it runs: %s", strings.Join(touched, "\n"))
	}
	b.Delete(rt)
	if touched := canary.Touched(); len(touched) > 0 {
		t.Errorf("when it is gone: %s", strings.Join(touched, "\n"))
	}
	bed.TakeLog(t)
}
