package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// TestPackages makes the packages and lives with the .deb on a Debian that has nothing of ours: it is installed, used, upgraded and removed
// while containers run.
func TestPackages(t *testing.T) {
	if bed.Cgroup() != bed.V2 {
		return // podman 5 gives v1 up
	}
	const first, second = "v0.1.0", "v0.2.0"
	at := "SOURCE_DATE_EPOCH=1700000000"
	old := bed.MakePackages(t, first, "022", at)
	t.Run("reproducible", func(t *testing.T) {
		again := bed.MakePackages(t, first, "027", at, "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8")
		requireSameFile(t, old.Deb, again.Deb)
		requireSameFile(t, old.Rpm, again.Rpm)
	})
	next := bed.MakePackages(t, second, "022", at)
	t.Run("rpm", func(t *testing.T) { testRpm(t, old.Rpm, next.Rpm) })
	t.Run("deb", func(t *testing.T) { testDeb(t, old.Deb, next.Deb) })
}

func requireSameFile(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x, y) {
		t.Errorf("%s, made twice, differs", filepath.Base(a))
	}
}

// inPackage is what a package has for whom.
var inPackage = map[string]string{
	"/usr/libexec/oci/hooks.d/oci-cdi-hook":                                      "-rwxr-xr-x",
	"/usr/bin/oci-cdi-hook":                                                      "lrwxrwxrwx",
	"/usr/share/containers/oci/hooks.d/oci-cdi-hook.json":                        "-rw-r--r--",
	"/usr/share/containers/oci/hooks.d/oci-cdi-hook-poststart.json":              "-rw-r--r--",
	"/usr/share/containers/oci/hooks.d/oci-cdi-hook-poststop.json":               "-rw-r--r--",
	"/usr/share/containers/oci-cdi-hook/precreate.d/oci-cdi-hook-precreate.json": "-rw-r--r--",
	"/usr/share/man/man8/oci-cdi-hook.8.gz":                                      "-rw-r--r--",
	"/usr/share/man/man5/oci-cdi-hook-config.toml.5.gz":                          "-rw-r--r--",
	"/usr/share/bash-completion/completions/oci-cdi-hook":                        "-rw-r--r--",
	"/usr/share/fish/vendor_completions.d/oci-cdi-hook.fish":                     "-rw-r--r--",
	"/usr/share/doc/oci-cdi-hook/config.toml.example":                            "-rw-r--r--",
	"/usr/lib/systemd/system/oci-cdi-hook-repair.service":                        "-rw-r--r--",
	"/usr/lib/systemd/system/oci-cdi-hook-repair.timer":                          "-rw-r--r--",
	"/etc/oci-cdi-hook/conf.d":                                                   "drwxr-xr-x",
}

// testRpm installs, upgrades and erases it in an empty folder: its scripts, which want a whole system, are the .deb's.
func testRpm(t *testing.T, old, next string) {
	root := t.TempDir()
	rpm := func(args ...string) string {
		t.Helper()
		res := bed.Run(t, "", nil, append([]string{"rpm", "--root", root, "--dbpath", "/db"}, args...)...)
		if res.Refused() {
			t.Fatalf("rpm %q: exit %d: %s%s", args, res.Code, res.Stdout, res.Stderr)
		}
		return res.Stdout
	}
	rpm("--initdb")
	rpm("-i", "--nodeps", "--noscripts", old)
	rpm("-V", "oci-cdi-hook")
	rpm("-U", "--nodeps", "--noscripts", next)
	for path, mode := range inPackage {
		st, err := os.Lstat(root + path)
		if err != nil {
			t.Error(err)
		} else if have := strings.Replace(st.Mode().String(), "L", "l", 1); have != mode {
			t.Errorf("%s: %s, want %s", path, have, mode)
		}
	}
	out, err := os.ReadFile(root + "/usr/share/zsh/site-functions/_oci-cdi-hook")
	if err != nil || len(out) == 0 {
		t.Errorf("zsh: %v", err)
	}
	if scripts := rpm("-q", "--scripts", "oci-cdi-hook"); !strings.Contains(scripts, "validate") || !strings.Contains(scripts, "status") {
		t.Errorf("the scripts are\n%s", scripts)
	}
	rpm("-e", "--noscripts", "oci-cdi-hook")
	for path := range inPackage {
		if _, err := os.Lstat(root + path); err == nil {
			t.Errorf("erasing leaves %s", path)
		}
	}
}

// debian is a system with podman, and the package in one of its states.
type debian struct {
	podman5
}

func (d debian) dpkg(args ...string) string {
	d.t.Helper()
	res := bed.Run(d.t, "", nil, d.x.Command(append([]string{"dpkg"}, args...)...)...)
	if res.Refused() {
		d.t.Fatalf("dpkg %q: exit %d: %s%s", args, res.Code, res.Stdout, res.Stderr)
	}
	return res.Stdout + res.Stderr
}

func (d debian) on(runtime string) debian {
	d.runtime = runtime
	d.configure()
	return d
}

func testDeb(t *testing.T, old, next string) {
	x := bareTrixie(t, device(oneNode, "env: [FROM_CDI=1]", mountOf("/opt/t/f", "/opt/f", "options: [bind, ro]"),
		hooksOf(vendor("createRuntime", "made"), vendor("poststart", "started"), vendor("poststop", "stopped"))))
	x.Copy(old, "/root/old.deb", 0o644)
	x.Copy(next, "/root/next.deb", 0o644)
	x.Write("/etc/cdi/bad.yaml", "cdiVersion: 0.6.0\nkind: v.example/bad\ndevices: []\n")
	d := debian{podman5{t: t, x: x}}

	said := d.dpkg("-i", "/root/old.deb")
	requireWords(t, "installing beside a bad spec", said, []string{"Setting up oci-cdi-hook", "/etc/cdi/bad.yaml: refused", "no devices"})
	d.requireFiles(true)
	for _, runtime := range []string{"crun", "runc"} {
		d.on(runtime).start("stays-" + runtime)
		d.on(runtime).start("goes-" + runtime)
	}

	d.upgrade()
	for _, runtime := range []string{"crun", "runc"} {
		d.requireInside("stays-"+runtime, "upgrade")
		d.must("rm", "--force", "--time", "0", "goes-"+runtime)
		requireRan(t, "stopping after an upgrade", "stopped")
	}

	said = d.removed()
	if !strings.Contains(said, "keep their devices until they stop") || strings.Count(said, "running") != 2 {
		t.Errorf("removing under two containers says\n%s", said)
	}
	d.requireFiles(false)
	for _, runtime := range []string{"crun", "runc"} {
		name := "stays-" + runtime
		d.requireInside(name, "remove")
		d.must("stop", "--time", "0", name)
		d.must("start", name)
		requireWords(t, "started without the hook", d.lookInside(name), []string{"path /dev/one ENOENT"})
		d.must("rm", "--force", "--time", "0", name)
		requireRan(t, "stopping and starting without the hook")
	}
	if _, err := os.Stat(x.Path(configFile)); err != nil {
		t.Errorf("removing takes the configuration: %v", err)
	}
	d.dpkg("--purge", "oci-cdi-hook")
	for _, path := range []string{"/etc/oci-cdi-hook", podmanState} {
		if _, err := os.Stat(x.Path(path)); err == nil {
			t.Errorf("purging leaves %s", path)
		}
	}
	bed.TakeLog(t)
}

func (d debian) start(name string) {
	d.t.Helper()
	d.must("run", "--detach", "--name", name, "--annotation", asking, image, "/busybox", "sleep", "1000")
	d.requireInside(name, "run")
	requireRan(d.t, "run", "made", "started")
}

// upgrade does it while containers start without a pause: each has its device, whichever version gave it.
func (d debian) upgrade() {
	d.t.Helper()
	const loop = `while [ ! -e /root/enough ]; do podman run --rm --annotation ` + asking + ` ` + image + ` /busybox test -c /dev/one || echo lost; echo started | tee -a /root/started; done`
	done := make(chan bed.Result)
	go func() { done <- bed.Run(d.t, "", nil, d.x.Command("sh", "-c", loop)...) }()
	bed.WaitFor(d.t, "a container while nothing happens", func() bool {
		st, err := os.Stat(d.x.Path("/root/started"))
		return err == nil && st.Size() > 0
	})
	said := d.dpkg("-i", "/root/next.deb")
	d.x.Write("/root/enough", "")
	res := <-done
	if strings.Contains(res.Stdout, "lost") || !strings.Contains(res.Stdout, "started") || res.Refused() {
		d.t.Errorf("containers that started during an upgrade: %s%s", res.Stdout, res.Stderr)
	}
	ran(d.t)
	d.t.Logf("%d containers started during an upgrade, none without its device", strings.Count(res.Stdout, "started"))
	requireWords(d.t, "upgrading", said, []string{"Unpacking oci-cdi-hook (0.2.0) over (0.1.0)"})
	if strings.Contains(said, "keep their devices until they stop") {
		d.t.Errorf("an upgrade speaks of removal: %s", said)
	}
	version := bed.Run(d.t, "", nil, d.x.Command("oci-cdi-hook", "version")...)
	requireWords(d.t, "version", version.Stdout, []string{"oci-cdi-hook v0.2.0 (commit none)"})
}

// removed removes the package and sees to it that the entries for engines go before the binary.
func (d debian) removed() string {
	d.t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, dir := range []string{directDir, "/usr/libexec/oci/hooks.d"} {
		if _, err := unix.InotifyAddWatch(fd, d.x.Path(dir), unix.IN_DELETE); err != nil {
			d.t.Fatal(err)
		}
	}
	said := d.dpkg("--remove", "oci-cdi-hook")
	buf := make([]byte, 16<<10)
	n, err := unix.Read(fd, buf)
	if err != nil {
		d.t.Fatal(err)
	}
	gone := regexp.MustCompile(`oci-cdi-hook[a-z.-]*`).FindAllString(string(buf[:n]), -1)
	if len(gone) != 4 || gone[3] != "oci-cdi-hook" {
		d.t.Errorf("removed in this order: %s", strconv.Quote(strings.Join(gone, " ")))
	}
	return said
}

func (d debian) requireFiles(there bool) {
	d.t.Helper()
	for path := range inPackage {
		if strings.HasPrefix(path, "/etc/") {
			continue // stays with the configuration in it
		}
		if _, err := os.Lstat(d.x.Path(path)); (err == nil) != there {
			d.t.Errorf("%s: %v", path, err)
		}
	}
}
