// Package verbs tests each verb of the command line by scripts: text, JSON, exit codes and bad input. Neither root nor a container is
// needed; what running containers have is tested elsewhere.
package verbs

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what is printed into the scripts")

// withoutFlags are the verbs that look at nothing of the host.
var withoutFlags = []string{"convert", "completion", "version", "help", "--help", "__complete"}

func TestVerbs(t *testing.T) {
	hook := hookUnderTest(t)
	// Not testing's own folder: the scripts also run the hook as a user who has no way into that.
	root, err := os.MkdirTemp("", "oci-cdi-hook-verbs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		WorkdirRoot:         root,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Deadline:            time.Now().Add(3 * time.Minute), // a hang ends there
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOOK", hook)
			env.Setenv("NO_COLOR", "")
			if err := os.Chmod(env.WorkDir, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "config.toml"), nil, 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"hook": runHook, "badfiles": makeBadFiles, "unreadable": makeUnreadable, "nobody": asNobody,
		},
	})
}

func hookUnderTest(t *testing.T) string {
	t.Helper()
	hook := os.Getenv("OCI_CDI_HOOK")
	if hook == "" {
		hook = "../../bin/oci-cdi-hook"
	}
	hook, err := filepath.Abs(hook)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(hook); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	return hook
}

// runHook is `hook CODE VERB...`: the exit code must be that one (or one of 0|1), and an error one line. What is printed lies in the files out and err, with
// HOST for the script's folder.
func runHook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: hook CODE [VERB [ARGUMENT...]]")
	}
	want := strings.Split(args[0], "|")
	args = args[1:]
	if len(args) > 0 && !slices.Contains(withoutFlags, args[0]) {
		args = slices.Insert(args, 1, "--state-dir", ts.MkAbs("state"), "--config-file", ts.Getenv("WORK")+"/config.toml")
	}
	code := 0
	if err := ts.Exec(ts.Getenv("HOOK"), args...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	out, complaints := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if !slices.Contains(want, strconv.Itoa(code)) {
		ts.Fatalf("exit %d, want %s", code, strings.Join(want, " or "))
	}
	// verify and validate say more before they come to a verdict
	if code != 0 && out == "" && !slices.Contains(args, "verify") && (strings.Count(complaints, "\n") != 1 || !strings.HasPrefix(complaints, "oci-cdi-hook: ")) {
		ts.Fatalf("an error of %d lines", strings.Count(complaints, "\n"))
	}
	for name, text := range map[string]string{"out": out, "err": complaints} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(strings.ReplaceAll(text, ts.Getenv("WORK"), "HOST")), 0o644))
	}
}

// makeBadFiles is `badfiles FOLDER SUFFIX`: what people and accidents put where a file is wanted.
func makeBadFiles(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: badfiles FOLDER SUFFIX")
	}
	in := func(name string) string { return filepath.Join(ts.MkAbs(args[0]), name+args[1]) }
	ts.Check(os.MkdirAll(in("directory"), 0o755))
	ts.Check(syscall.Mkfifo(in("fifo"), 0o644))
	ts.Check(os.WriteFile(in("binary"), []byte("\x7fELF\x02\x01\x01\x00\xff\xfe\x80"), 0o644))
	ts.Check(os.WriteFile(in("prose"), []byte("Dear reader,\nthis is no spec.\n"), 0o644))
	ts.Check(os.WriteFile(in("empty"), nil, 0o644))
	// 100 MB of what begins as it should
	ts.Check(os.WriteFile(in("big"), []byte(`{"cdiVersion":"0.6.0","ociVersion":"1.0.2","kind":"v.example/big","x":"`), 0o644))
	f, err := os.OpenFile(in("big"), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	for range 100 {
		_, err = f.WriteString(strings.Repeat("x", 1<<20))
		ts.Check(err)
	}
	ts.Check(f.Close())
}

// makeUnreadable takes all permissions from files.
func makeUnreadable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: unreadable FILE...")
	}
	for _, file := range args {
		ts.Check(os.Chmod(ts.MkAbs(file), 0))
	}
}

// asNobody is `nobody CODE VERB...`: hook, run as somebody whom permissions stop.
func asNobody(ts *testscript.TestScript, neg bool, args []string) {
	hook := ts.Getenv("HOOK")
	if os.Geteuid() == 0 {
		// a folder on the way to the program may be closed to others
		ts.Check(ts.Exec("cp", hook, ts.MkAbs("hook-for-all")))
		ts.Check(os.WriteFile(ts.MkAbs("as-nobody"), []byte("#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups "+ts.MkAbs("hook-for-all")+" \"$@\"\n"), 0o755))
		ts.Setenv("HOOK", ts.MkAbs("as-nobody"))
		defer ts.Setenv("HOOK", hook)
	}
	runHook(ts, neg, args)
}
