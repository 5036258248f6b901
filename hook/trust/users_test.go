package trust

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAsAPlainUser: a user trusts root and himself, and nobody else.
func TestAsAPlainUser(t *testing.T) {
	if dir, child := os.LookupEnv(childVariable); child {
		for name, want := range map[string]bool{"mine": true, "roots": true, "theirs": false} {
			if err := check(t, dir+"/"+name); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
		return
	}
	needRoot(t)
	x := openTree(t)
	x.file("mine", 0o600)
	x.chown("mine", plainUser)
	x.file("roots", 0o644)
	x.file("theirs", 0o644)
	x.chown("theirs", plainUser+1)
	inChild(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plainUser, Gid: plainUser}}, x.dir)
}

// TestUserNamespace: root's files show the overflow uid in there.
func TestUserNamespace(t *testing.T) {
	if dir, child := os.LookupEnv(childVariable); child {
		var st unix.Stat_t
		if err := unix.Stat(dir+"/roots", &st); err != nil || st.Uid == 0 {
			t.Fatalf("root's file has owner %d here, %v", st.Uid, err)
		}
		for name, want := range map[string]bool{"mine": true, "roots": true, "link": true, "mapped": false, "loose": false, "overflow": false,
			"tmp": true, "tmp/of-anyone": false, "tmp/mine": true, "tmp/link": false} {
			if err := check(t, dir+"/"+name); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := check(t, "/etc/passwd"); err != nil {
			t.Error(err)
		}
		return
	}
	needRoot(t)
	const first, overflow = 1_000_000, 65534
	x := openTree(t)
	x.file("mine", 0o600)
	x.chown("mine", first)
	x.file("roots", 0o644)
	x.link("link", "roots")
	x.file("loose", 0o666)
	x.file("mapped", 0o644)
	x.chown("mapped", first+plainUser)
	x.file("overflow", 0o644) // shows the overflow uid, but is of a user in there
	x.chown("overflow", first+overflow)
	x.mkdir("tmp", 0o777|os.ModeSticky)
	x.file("tmp/of-anyone", 0o644)
	x.link("tmp/link", "../roots")
	x.file("tmp/mine", 0o644)
	x.chown("tmp/mine", first)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: 65536}}
	inChild(t, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
		Credential: &syscall.Credential{Uid: 0, Gid: 0},
	}, x.dir)
}

// openTree is a tree that other users can enter, with no directory before it that they
// can write.
func openTree(t *testing.T) tree {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "trust-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return tree{t, dir}
}
