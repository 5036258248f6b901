package specfile

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func driftOf(t *testing.T, text string, skip ...string) (differs, unknown []string) {
	t.Helper()
	_, f := Check(write(t, "a.yaml", text))
	if f.Spec == nil {
		t.Fatal(f.Err)
	}
	d, u := Drift(f.Spec, skip)
	return texts(d), texts(u)
}

func TestDrift(t *testing.T) {
	dir := t.TempDir()
	program, plain, link := filepath.Join(dir, "program"), filepath.Join(dir, "plain"), filepath.Join(dir, "link")
	for name, mode := range map[string]os.FileMode{program: 0o755, plain: 0o644} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	var null unix.Stat_t
	if err := unix.Stat("/dev/null", &null); err != nil {
		t.Fatal(err)
	}
	asHost := fmt.Sprintf("type: c, major: 1, minor: 3, uid: %d, gid: %d, fileMode: 0%o", null.Uid, null.Gid, null.Mode&0o777)
	for name, c := range map[string]struct {
		edits string
		want  []string
	}{
		"all there": {edits: "{deviceNodes: [{path: /dev/null}, {path: /x, hostPath: /dev/null, " + asHost + "}]," +
			" mounts: [{hostPath: /etc, containerPath: /e, options: [rbind]}], hooks: [{hookName: prestart, path: " + program + "}]}"},
		"node gone":        {"{deviceNodes: [{path: /dev/none}]}", []string{"devices[0] (a): node /dev/none: no such file"}},
		"host path counts": {"{deviceNodes: [{path: /dev/null, hostPath: /dev/none}]}", []string{"node /dev/none: no such file"}},
		"numbers":          {"{deviceNodes: [{path: /dev/null, type: c, major: 509, minor: 0}]}", []string{"node /dev/null: spec 509:0, host 1:3"}},
		"type":             {"{deviceNodes: [{path: /dev/null, type: b, major: 1, minor: 3}]}", []string{"type b in the spec, c on the host"}},
		"gid":              {"{deviceNodes: [{path: /dev/null, gid: 4242}]}", []string{fmt.Sprintf("spec gid 4242, host gid %d", null.Gid)}},
		"uid":              {"{deviceNodes: [{path: /dev/null, uid: 4242}]}", []string{fmt.Sprintf("spec uid 4242, host uid %d", null.Uid)}},
		"mode":             {"{deviceNodes: [{path: /dev/null, fileMode: 0600}]}", []string{"spec mode 0600, host mode 0"}},
		"no node":          {"{deviceNodes: [{path: " + plain + "}]}", []string{"not a device node"}},
		"link":             {"{deviceNodes: [{path: " + link + "}]}", []string{"not a device node"}},
		"link, numbers":    {edits: "{deviceNodes: [{path: " + link + ", type: c, major: 1, minor: 3}]}"},
		"source gone":      {"{mounts: [{hostPath: /no/lib.so, containerPath: /e, options: [bind]}]}", []string{"mount source /no/lib.so: no such file"}},
		"filesystem":       {edits: "{mounts: [{hostPath: tmpfs, containerPath: /e, type: tmpfs}]}"},
		"hook gone":        {"{hooks: [{hookName: prestart, path: /no/hook}]}", []string{"hook /no/hook: no such file"}},
		"hook is no program": {"{hooks: [{hookName: prestart, path: " + plain + "}, {hookName: prestart, path: /etc}]}",
			[]string{plain + ": not executable", "/etc: not executable"}},
		"once": {"{hooks: [{hookName: prestart, path: /no/hook}, {hookName: poststop, path: /no/hook}]}", []string{"/no/hook"}},
	} {
		t.Run(name, func(t *testing.T) {
			differs, unknown := driftOf(t, edits(c.edits))
			wantLines(t, "drift", differs, c.want)
			wantLines(t, "unknown", unknown, nil)
		})
	}
}

func TestDriftOfShadowedDevices(t *testing.T) {
	text := edits("{deviceNodes: [{path: /dev/none}]}") + "- name: b\n  containerEdits: {deviceNodes: [{path: /dev/nothing}]}\n" +
		"containerEdits: {deviceNodes: [{path: /dev/for-all}]}\n"
	differs, _ := driftOf(t, text, "a")
	wantLines(t, "drift", differs, []string{"/dev/nothing", "/dev/for-all"})
	differs, _ = driftOf(t, text, "a", "b")
	wantLines(t, "drift", differs, nil)
}

// What a user may not look at is neither there nor gone.
func TestDriftUnseen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root is needed to look as somebody else")
	}
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, f := Check(write(t, "a.yaml", edits("{deviceNodes: [{path: "+closed+"/n}], mounts: [{hostPath: "+closed+"/m, containerPath: /m, options: [bind]}]}")))
	done := make(chan [2][]string)
	go func() {
		// the thread keeps the id and ends with the goroutine: it is never unlocked
		lockThread()
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0); e != 0 {
			t.Error(e)
		}
		d, u := Drift(f.Spec, nil)
		done <- [2][]string{texts(d), texts(u)}
	}()
	got := <-done
	wantLines(t, "drift", got[0], nil)
	wantLines(t, "unknown", got[1], []string{"may not look there", "may not look there"})
}
