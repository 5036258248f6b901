package integration

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
)

// quickStart are the README's commands, a block each, as printed.
func quickStart(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- test: quickstart -->"
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)"+mark+"\n```sh\n(.*?\n)```\n").FindAllStringSubmatch(string(raw), -1) {
		blocks = append(blocks, m[1])
	}
	if marks := strings.Count(string(raw), mark); marks == 0 || marks != len(blocks) {
		t.Fatalf("README.md: %d marks, %d blocks", marks, len(blocks))
	}
	return blocks
}

// TestReadme does what the README tells its reader to do, with the program that this builds. What the reader has and a bed has not comes
// from outside the commands: a checkout to write to, an image, podman's settings.
func TestReadme(t *testing.T) {
	blocks, want := quickStart(t), shown(t)
	bed.Each(t, func(t *testing.T, rt bed.Runtime) {
		bed.LeavesNothing(t)
		h := bed.NewHost(t)
		h.Dir("/usr/libexec") // everybody's
		before := installed(t)
		t.Cleanup(func() {
			for _, path := range installed(t, before...) { // folders; when a command failed, all
				if err := os.RemoveAll(path); err != nil {
					t.Error(err)
				}
			}
		})
		checkout, env := freshCheckout(t, h), readersPodman(t, h, rt)
		var printed strings.Builder
		for _, block := range blocks {
			res := bed.Run(t, "", env, "env", "-C", checkout, "sh", "-e", "-c", block)
			if res.Refused() || strings.Contains(res.Stderr, "oci-cdi-hook") {
				t.Fatalf("exit %d: %s%s\nof\n%s", res.Code, res.Stdout, res.Stderr, block)
			}
			printed.WriteString(res.Stdout)
		}
		if !want.MatchString(printed.String()) {
			t.Errorf("printed\n%swhich is not like\n%s", printed.String(), want)
		}
		for _, path := range installed(t, before...) {
			if st, err := os.Lstat(path); err != nil || !st.IsDir() || strings.Contains(path, "oci-cdi-hook") {
				t.Errorf("uninstalling leaves %s", path)
			}
		}
	})
}

// shown is what the reader sees, in this order.
func shown(t *testing.T) *regexp.Regexp {
	t.Helper()
	release, err := os.ReadFile("/usr/lib/os-release")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(release), "\n")
	return regexp.MustCompile("(?s)\ninstalled /usr/libexec/oci/hooks.d/oci-cdi-hook\n.*" +
		"\nvendor.com/device=myDevice +/etc/cdi/vendor.yaml\n" + // list
		"device vendor.com/device=myDevice\n.* /opt/host-os-release .* /dev/myDevice .*" + // plan
		"\ncrw[^\n]* /dev/myDevice\nit opens\n" + regexp.QuoteMeta(line) + "\n")
}

// freshCheckout is this checkout as it is, without what was built.
func freshCheckout(t *testing.T, h *bed.Host) string {
	t.Helper()
	const dir, upper, scratch = bed.WorkDir + "/checkout", bed.WorkDir + "/changed", bed.WorkDir + "/scratch"
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, upper, scratch} {
		h.Dir(d)
	}
	h.Mount("overlay", dir, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", top, upper, scratch))
	if err := os.RemoveAll(dir + "/bin"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readersPodman gives podman the image that the README names, and settings for a machine with no controllers, systemd and network. The
// folder of hooks is podman's own choice.
func readersPodman(t *testing.T, h *bed.Host, rt bed.Runtime) []string {
	t.Helper()
	const dir = bed.WorkDir + "/podman"
	var limits []string
	for _, flag := range bed.PodmanLimits(t) {
		if flag != "--ulimit" {
			limits = append(limits, strconv.Quote(flag))
		}
	}
	conf := []string{"[containers]", "pids_limit = 0", `netns = "none"`, `log_driver = "k8s-file"`}
	conf = append(conf, "default_ulimits = ["+strings.Join(limits, ", ")+"]")
	if strings.HasPrefix(rt.Name, "runc-1.5") {
		conf = append(conf, `seccomp_profile = "unconfined"`) // ours is built without libseccomp
	}
	conf = append(conf, "[network]", `network_config_dir = "`+dir+`/networks"`)
	conf = append(conf, "[engine]", `runtime = "`+rt.Path+`"`, `cgroup_manager = "cgroupfs"`, `events_logger = "file"`, `tmp_dir = "`+dir+`/tmp"`)
	h.Dir(dir)
	h.File(dir+"/containers.conf", strings.Join(conf, "\n")+"\n", 0o644)
	h.File(dir+"/storage.conf", fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", dir+"/root", dir+"/run"), 0o644)
	// a cgroup of this run is the one thing that no setting gives
	path, err := exec.LookPath("podman")
	if err != nil {
		t.Fatalf("podman is needed here (Debian: apt-get install podman): %v", err)
	}
	const inCgroup = "#!/bin/sh\n[ \"$1\" != run ] || { shift; set -- run --cgroup-parent '/%s' \"$@\"; }\nexec '%s' \"$@\"\n"
	h.File(dir+"/bin/podman", fmt.Sprintf(inCgroup, podmanCgroup(), path), 0o755)
	env := []string{
		"PATH=" + dir + "/bin:" + os.Getenv("PATH"),
		"CONTAINERS_CONF=" + dir + "/containers.conf", "CONTAINERS_STORAGE_CONF=" + dir + "/storage.conf",
		"GO=go", "PREFIX=/usr", "DESTDIR=", "MAKEFLAGS=", "LC_ALL=C", // nothing of a make that runs the tests
	}
	h.Mount("tmpfs", "/var/lib", "tmpfs", 0, "mode=0755") // podman remembers images outside its storage, too
	const image = `mkdir -p tree/bin; cp /bin/busybox tree; for p in $(busybox --list); do ln -s ../busybox tree/bin/$p; done
		tar -cf image.tar -C tree .; podman import image.tar busybox`
	if res := bed.Run(t, "", env, "env", "-C", dir, "sh", "-e", "-c", image); res.Refused() {
		t.Fatalf("no image: %s", res.Stderr)
	}
	t.Cleanup(func() { bed.RemoveCgroups(t, podmanCgroup()) })
	t.Cleanup(func() { bed.Run(t, "", env, "podman", "rm", "--all", "--force") })
	return env
}

// installed is what is in the folders that the README's commands write to, but for what was there before.
func installed(t *testing.T, before ...string) []string {
	t.Helper()
	var out []string
	for _, top := range []string{"/etc/cdi", "/usr/libexec/oci", "/usr/share/containers", "/usr/share/doc/oci-cdi-hook", "/run/oci-cdi-hook",
		"/usr/bin/oci-cdi-hook", "/usr/share/bash-completion", "/usr/share/zsh", "/usr/share/fish", "/usr/share/man/man5", "/usr/share/man/man8"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && !slices.Contains(before, path) {
				out = append(out, path)
			}
			if os.IsNotExist(err) {
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
