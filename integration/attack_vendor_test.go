package integration

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"oci-cdi-hook/integration/bed"
)

// owned is a library that leaves a mark on the host when a program loads it.
const owned = `
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void owned(void) { close(open("` + bed.CanaryDir + `/dir/owned", O_CREAT | O_WRONLY, 0600)); }
`

// TestCVE_2025_23266: the toolkit's createContainer hook ran with the container's environment, from the root file system: LD_PRELOAD
// named a library of the image, which the host's root then ran. Vendors' hooks have their own environment here and stand outside of the
// root file system; a library path in the environment of the hook itself, or of its runtime, does not reach them either.
func TestCVE_2025_23266(t *testing.T) {
	const hook, evil = "/opt/vendor/dynamic", "/run/bed/evil.so"
	for name, image := range map[string]func(*bed.Bundle){"root of the host": func(*bed.Bundle) {}, "user namespace": mapped} {
		t.Run(name, func(t *testing.T) {
			bed.Each(t, func(t *testing.T, rt bed.Runtime) {
				bed.LeavesNothing(t)
				g := race{
					edits: []string{"hooks: [{hookName: createRuntime, path: " + hook + "}, {hookName: createContainer, path: " + hook + "}]"},
					host:  func(h *bed.Host) { h.Program(hook, "int main(void) { return 0; }"); h.SharedObject(evil, owned) },
					image: func(b *bed.Bundle) {
						b.Copy(evil, "/evil.so")
						b.Copy(evil, "/lib/x86_64-linux-gnu/libc.so.6")
						b.File("/etc/ld.so.preload", "/evil.so\n")
						b.Config.Process.Env = append(b.Config.Process.Env, "LD_PRELOAD=/proc/self/cwd/evil.so", "LD_LIBRARY_PATH=/proc/self/cwd")
						image(b)
					},
				}.enter(t, rt)
				for _, path := range []string{evil, "/proc/self/cwd/evil.so", "/proc/self/cwd/rootfs/evil.so", "rootfs/evil.so"} {
					g.last = bed.Run(t, g.state, []string{"LD_PRELOAD=" + path, "LD_LIBRARY_PATH=" + g.b.Rootfs + "/lib/x86_64-linux-gnu", "LD_AUDIT=" + path}, g.program...)
					if g.last.Code != 0 {
						t.Errorf("%s: %s", path, g.last.Stderr)
					}
					g.judge("LD_PRELOAD=" + path)
					g.tidy()
				}
				t.Logf("attacked: 4 libraries to load, at 2 stages; lost: 0")
				c := exec.Command(hook)
				c.Env = []string{"LD_PRELOAD=" + evil}
				if err := c.Run(); err != nil || len(g.canary.Touched()) == 0 {
					t.Errorf("the library does nothing where it is loaded: %v", err)
				}
				g.canary.Clean()
				g.leave()
			})
		})
	}
}

// TestCVE_2025_23267, like CVE-2024-0134: the toolkit's hooks that write the image's library cache and links followed links of the image,
// and wrote to files of the host, or made them. They are the vendor's own, but it is this hook that runs them, as root.
func TestCVE_2025_23267(t *testing.T) { hostileLibraries(t, "/etc/ld.so.cache") }

// TestCVE_2024_0134: see TestCVE_2025_23267.
func TestCVE_2024_0134(t *testing.T) { hostileLibraries(t, libs, "/etc/ld.so.conf.d") }

func hostileLibraries(t *testing.T, places ...string) {
	n := 0
	runtimes := bed.Runtimes(t)
	for i, to := range []string{bed.CanaryDir + "/dir", bed.CanaryDir + "/file", "/proc/self/root" + bed.CanaryDir + "/dir", "../../../../../.." + bed.CanaryDir + "/dir"} {
		for j, userns := range []bool{false, true} {
			for k, rt := range runtimes {
				if !bed.Long() && (i+2*j+k)%len(runtimes) != 0 {
					continue
				}
				n++
				t.Run(fmt.Sprintf("%s, user namespace %v, %s", to, userns, rt.Name), func(t *testing.T) { hostileLibrary(t, rt, to, userns, places) })
			}
		}
	}
	t.Logf("attacked: a vendor's own hooks met %d links; lost: 0", n)
}

func hostileLibrary(t *testing.T, rt bed.Runtime, to string, userns bool, places []string) {
	bed.LeavesNothing(t)
	h := bed.NewHost(t)
	canary := h.Canary()
	h.StandInsFor(bed.WriteSpec(t, "nvidia.yaml", nvidiaSpec(t, h)))
	b := bed.NewBundle(t)
	b.File("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
	for _, place := range places {
		b.Link(place, to)
	}
	if userns {
		b.WithUserNamespace()
	}
	b.Annotate("management.nvidia.com/gpu=all")
	b.Live()
	b.Register()
	b.Write()
	canary.Touched()
	if res := b.Create(rt); res.Refused() && !strings.Contains(res.Stderr, "management.nvidia.com/gpu=all") {
		t.Errorf("refused: %s", res.Stderr)
	}
	if touched := canary.Touched(); len(touched) > 0 {
		t.Errorf("%s at %v: the host was touched: %s", to, places, strings.Join(touched, "\n"))
	}
	b.Delete(rt)
	bed.RemoveCgroups(t, bed.Prefix)
	bed.TakeLog(t)
}
