// Command vendorhook stands in for the hook programs of device vendors. It notes how it was called in report.TraceFile, leaves a
// mark in the rootfs, and ends as its arguments say: exit=N, stderr=TEXT, sleep=DURATION,
// hold=FIFO, state=FILE (a copy of the state), quiet (no note, no mark).
//
// It does none of what a vendor's program does.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/report"
)

func main() {
	t := observe()
	if !slices.Contains(os.Args, "quiet") {
		if err := note(t); err != nil {
			fmt.Fprintln(os.Stderr, "vendorhook:", err)
			os.Exit(99)
		}
	}
	os.Exit(obey(os.Args))
}

func obey(args []string) int {
	code := 0
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "exit":
			code, _ = strconv.Atoi(value)
		case "stderr":
			fmt.Fprintln(os.Stderr, value)
		case "hold":
			hold(value)
		case "sleep":
			d, _ := time.ParseDuration(value)
			time.Sleep(d)
		}
	}
	return code
}

func saveState(args []string, raw []byte) {
	for _, a := range args {
		if path, found := strings.CutPrefix(a, "state="); found {
			err := os.WriteFile(path+".new", raw, 0o600)
			if err == nil {
				err = os.Rename(path+".new", path)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "vendorhook:", err)
			}
		}
	}
}

// hold waits until someone opens and closes the FIFO: the container stays at this hook's moment.
func hold(fifo string) {
	f, err := os.Open(fifo)
	if err == nil {
		_, err = io.Copy(io.Discard, f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vendorhook:", err)
		os.Exit(99)
	}
}

func observe() report.Trace {
	t := report.Trace{Args: os.Args, Env: os.Environ(), UID: os.Getuid(), GID: os.Getgid(), Cgroups: map[string]string{}, Extra: extra()}
	t.Dir, _ = os.Getwd()
	old := unix.Umask(0)
	unix.Umask(old)
	t.Umask, t.Caps = fmt.Sprintf("%04o", old), field("/proc/thread-self/status", "CapEff:")
	raw, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = json.Unmarshal(raw, &t.State)
	}
	if t.State == nil {
		t.State = map[string]any{}
	}
	if err != nil {
		t.StateError = fmt.Sprintf("%v in %.80q", err, raw)
	}
	saveState(os.Args, raw)
	t.State["pid"] = describePid(t.State["pid"])
	t.Container = foreign()
	t.Cgroups = cgroups()
	root := rootfs(t.State)
	t.Rootfs, t.Under = list(filepath.Join(root, "dev")), under(root)
	return t
}

// describePid hides the number but keeps what matters: 0 and 1 are said, another is the container's first process or a stranger.
func describePid(v any) string {
	n, _ := v.(float64)
	if n <= 1 {
		return fmt.Sprint(n)
	}
	mine, host := namespaces(fmt.Sprintf("/proc/%d/ns", int(n))), hostNamespaces()
	if mine["pid"] != "" && mine["pid"] != host["pid"] && field(fmt.Sprintf("/proc/%d/status", int(n)), "NSpid:") != "" {
		return "of the container"
	}
	return "of a stranger"
}

func rootfs(state map[string]any) string {
	bundle, _ := state["bundle"].(string)
	var config struct{ Root struct{ Path string } }
	raw, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil || json.Unmarshal(raw, &config) != nil {
		return "/nonexistent"
	}
	if filepath.IsAbs(config.Root.Path) {
		return config.Root.Path
	}
	return filepath.Join(bundle, config.Root.Path)
}

func note(t report.Trace) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := appendTo(report.TraceFile, append(b, '\n')); err != nil {
		return err
	}
	mark := filepath.Join(rootfs(t.State), "hooks-were-here")
	return appendTo(mark, []byte(strings.Join(t.Args, " ")+"\n"))
}

func appendTo(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(b)
	return err
}

func foreign() []string {
	mine, host := namespaces("/proc/thread-self/ns"), hostNamespaces()
	var out []string
	for _, k := range report.NamespaceKinds {
		if mine[k] != host[k] {
			out = append(out, k)
		}
	}
	return out
}

func namespaces(dir string) map[string]string {
	m := map[string]string{}
	for _, k := range report.NamespaceKinds {
		m[k], _ = os.Readlink(filepath.Join(dir, k))
	}
	return m
}

func hostNamespaces() map[string]string {
	m := map[string]string{}
	raw, err := os.ReadFile(report.HostNamespaces)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vendorhook:", err)
	}
	return m
}

func cgroups() map[string]string {
	m := map[string]string{}
	raw, _ := os.ReadFile("/proc/thread-self/cgroup")
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) == 3 && (f[1] == "devices" || f[1] == "") {
			m[f[1]] = f[2]
		}
	}
	return m
}

func field(file, key string) string {
	raw, _ := os.ReadFile(file)
	for _, line := range strings.Split(string(raw), "\n") {
		if v, found := strings.CutPrefix(line, key); found {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func list(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var n []string
	for _, e := range entries {
		n = append(n, e.Name())
	}
	sort.Strings(n)
	return strings.Join(n, " ")
}

func under(root string) []string {
	raw, _ := os.ReadFile("/proc/thread-self/mountinfo")
	mounts, _ := report.ParseMountinfo(string(raw))
	var out []string
	for _, m := range mounts {
		if rest, found := strings.CutPrefix(m.Point, root+"/"); found {
			out = append(out, "/"+rest)
		}
	}
	sort.Strings(out)
	return out
}

var cpuLimit = regexp.MustCompile(`/cpu\.(cfs_quota_us|cfs_period_us|max)$`)

// extra are the descriptors beyond the three that this program was given: its own runtime opens an epoll, and on cgroup v1 the files of its CPU
// limit, before main.
func extra() []string {
	entries, _ := os.ReadDir("/proc/thread-self/fd")
	var out []string
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		to, err := os.Readlink("/proc/thread-self/fd/" + e.Name())
		ours := strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/proc/") || cpuLimit.MatchString(to)
		if n > 2 && err == nil && !ours {
			out = append(out, to)
		}
	}
	return out
}
