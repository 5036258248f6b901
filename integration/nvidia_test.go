package integration

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

const (
	driver  = "560.12.34"
	drvRoot = "/run/bed/drv"
	libs    = "/usr/lib/x86_64-linux-gnu"
)

// TestRealNVIDIAParts has the vendor's own generator write the spec, for a driver that is not there, and runs the vendor's own hooks.
func TestRealNVIDIAParts(t *testing.T) {
	left := []string{"/etc/ld.so.cache", libs + "/libcuda.so", libs + "/libcuda.so.1", libs + "/libnvidia-ml.so.1", libs}
	differs := without("env NVIDIA_CTK_LIBCUDA_DIR="+libs, "env NVIDIA_VISIBLE_DEVICES=void")
	warns := []string{"NVIDIA_CTK_LIBCUDA_DIR", "management.nvidia.com/gpu=all"}
	names := []string{"management.nvidia.com/gpu=all"}
	compareAll(t, []row{
		{name: "management", written: nvidiaSpec, devices: names, paths: left, differs: differs, warns: warns, bundle: glibcImage, has: []string{"path " + libs + "/libcuda.so l 0777 0:0 ->=libcuda.so.1 open=ok"}},
		{name: "an image without ldconfig", written: nvidiaSpec, bundle: func(b *bed.Bundle) { b.Folder("/etc") }, devices: names, paths: left, differs: differs, warns: warns},
		{
			// natively crun makes the root read-only before it runs these hooks
			name: "read-only rootfs", written: nvidiaSpec, devices: names, paths: left, differs: differs, warns: warns, native: startsOnRunc,
			bundle: func(b *bed.Bundle) { glibcImage(b); b.Config.Root.Readonly = true },
		},
		{name: "user namespace", written: nvidiaSpec, devices: names, paths: left, warns: warns, alone: true, bundle: func(b *bed.Bundle) { glibcImage(b); b.WithUserNamespace() }, has: []string{"path " + libs + "/libcuda.so l 0777 0:0 ->=libcuda.so.1 open=ok"}},
	})
}

// glibcImage has what ldconfig looks at.
func glibcImage(b *bed.Bundle) {
	b.Folder(libs)
	b.File("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
	b.Folder("/etc/ld.so.conf.d")
}

// nvidiaSpec makes a driver root of stand-ins and the spec of it.
func nvidiaSpec(t *testing.T, h *bed.Host) string {
	t.Helper()
	for name, soname := range map[string]string{"libcuda": "libcuda.so.1", "libnvidia-ml": "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler": "libnvidia-ptxjitcompiler.so.1"} {
		h.Library(drvRoot+libs+"/"+name+".so."+driver, soname)
	}
	h.File(drvRoot+"/usr/bin/nvidia-smi", "#!/bin/sh\n", 0o755)
	for path, minor := range map[string]uint32{"nvidia0": 0, "nvidiactl": 255, "nvidia-uvm": 254} {
		h.Node(drvRoot+"/dev/"+path, unix.S_IFCHR|0o666, 195, minor, 0, 0)
	}
	res := bed.Run(t, "", nil, bed.Tool("nvidia-ctk"), "cdi", "generate", "--mode=management", "--vendor=management.nvidia.com", "--driver-root", drvRoot, "--nvidia-cdi-hook-path", bed.Tool("nvidia-cdi-hook"))
	if res.Refused() {
		t.Fatalf("nvidia-ctk: exit %d: %s", res.Code, res.Stderr)
	}
	for _, word := range []string{"create-symlinks", "update-ldcache", "/dev/nvidia0"} {
		if !strings.Contains(res.Stdout, word) {
			t.Fatalf("nvidia-ctk wrote a spec without %s:\n%s", word, res.Stdout)
		}
	}
	return res.Stdout
}
