package integration

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"oci-cdi-hook/integration/bed"
)

// TestFixtures gives what vendors' generators write, of every vendor whose form is known.
func TestFixtures(t *testing.T) {
	compareAll(t, []row{
		{name: "nvidia one", fixture: "nvidia-dgpu.yaml", devices: []string{"nvidia.com/gpu=0"}, sweep: true, differs: without("env NVIDIA_VISIBLE_DEVICES=void")},
		{name: "nvidia all", fixture: "nvidia-dgpu.yaml", devices: []string{"nvidia.com/gpu=all"}, differs: without("env NVIDIA_VISIBLE_DEVICES=void")},
		{
			name: "nvidia overlapping", fixture: "nvidia-dgpu.yaml", sweep: true,
			devices: []string{"nvidia.com/gpu=all", "nvidia.com/gpu=0", "nvidia.com/gpu=GPU-00000000-1111-2222-3333-444444444441"},
			differs: without("env NVIDIA_VISIBLE_DEVICES=void"),
		},
		{name: "nvidia mig", fixture: "nvidia-mig.yaml", devices: []string{"nvidia.com/gpu=0:0"}, sweep: true, host: migNodes, paths: []string{"/dev/nvidia-caps"}, hide: noEnv, has: []string{"hook 0 env []"}, differs: without("env NVIDIA_VISIBLE_DEVICES=void")},
		{
			name: "nvidia mig twice the same", fixture: "nvidia-mig.yaml", host: migNodes, paths: []string{"/dev/nvidia-caps"}, hide: noEnv,
			devices: []string{"nvidia.com/gpu=0:1", "nvidia.com/gpu=0:0", "nvidia.com/gpu=MIG-00000000-aaaa-bbbb-cccc-000000000000"},
			differs: without("env NVIDIA_VISIBLE_DEVICES=void"),
		},
		{name: "nvidia wsl", fixture: "nvidia-wsl.yaml", devices: []string{"nvidia.com/gpu=all"}, hide: noEnv, has: []string{"hook 0 env []", "hook 1 env []"}, differs: without("env NVIDIA_VISIBLE_DEVICES=void")},
		{name: "amd one", fixture: "amd.json", devices: []string{"amd.com/gpu=0"}, sweep: true},
		{name: "amd sharing a node", fixture: "amd.json", devices: []string{"amd.com/gpu=0", "amd.com/gpu=1"}, sweep: true},
		{name: "amd all", fixture: "amd.json", devices: []string{"amd.com/gpu=all"}, sweep: true},
		{
			name: "ascend", fixture: "ascend.json", devices: []string{"ascend.example.com/npu=0", "ascend.example.com/npu=1"}, host: ascendFolders,
			differs: without("env LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64/common:/usr/local/Ascend/driver/lib64/driver:/usr/lib64"),
			warns:   []string{"LD_LIBRARY_PATH", "ascend.example.com/npu=0", "ascend.json"},
		},
		{name: "intel gaudi nodes", fixture: "intel-gaudi.yaml", devices: []string{"intel.com/gaudi=0000-b3-00-0-0x1020"}, sweep: true, paths: []string{"/dev/accel", "/dev/infiniband"}},
		{
			name: "intel gaudi hook", fixture: "intel-gaudi.yaml", devices: []string{"intel.com/gaudi=11111111-2222-3333-4444-555555555555"},
			differs: without("env HABANA_VISIBLE_DEVICES=0", "env HABANA_VISIBLE_MODULES=0"), warns: []string{"HABANA_VISIBLE_DEVICES=0", "HABANA_VISIBLE_MODULES=0"},
		},
		{
			name: "intel gpu", fixture: "intel-gpu.yaml", devices: []string{"intel.com/gpu=0000-03-00-0-0x56c0"}, host: byPathLinks, sweep: true,
			paths: []string{"/dev/dri", "/dev/dri/by-path"}, differs: runc11KeepsNosuid("/dev/dri/by-path/pci-0000:03:00.0-card", "/dri/card1", "/dev/dri/by-path/pci-0000:03:00.0-render", "/dri/renderD128"),
		},
		{
			name: "intel gpu folder of links", fixture: "intel-gpu.yaml", devices: []string{"intel.com/gpu=gpu0"}, host: byPathLinks,
			paths: []string{"/dev/dri/by-path", "/dev/dri/by-path/pci-0000:03:00.0-card"}, differs: runc11KeepsNosuid("/dev/dri/by-path", "/dri/by-path"),
			has: []string{"path /dev/dri/by-path/pci-0000:03:00.0-card l 0777 0:0 ->=../card1 open=ok"},
		},
		{
			name: "nothing but env", fixture: "k8s.gpu.example.com-gpu_9d3f0c1a-0000-4000-8000-0123456789ab.yaml",
			devices: []string{"k8s.gpu.example.com/gpu=9d3f0c1a-0000-4000-8000-0123456789ab-gpu-0"},
			native:  always(starts), refused: "9d3f0c1a-0000-4000-8000-0123456789ab-gpu-0",
		},
		{name: "draft form", fixture: "draft-form.json", devices: []string{"vendor.com/device=myDevice"}, refused: "vendor.com/device=myDevice"},
		{name: "wrong case", fixture: "rbln-legacy-case.yaml", devices: []string{"rebellions.ai/npu=runtime"}, refused: "hookname", host: rblnFolder},
	})
}

// noEnv: where a spec gives a hook no env, each runtime has its own idea of it; ours is none.
var noEnv = []string{"hook 0 env", "hook 1 env"}

// runc11KeepsNosuid: to the others rw is a word that takes the host's flags away.
func runc11KeepsNosuid(pairs ...string) func(bed.Runtime) []string {
	return func(rt bed.Runtime) []string {
		if !runc11Alone(rt) {
			return nil
		}
		var out []string
		for sign, flags := range map[string]string{"-": "rw,nosuid,relatime", "+": "rw,relatime"} {
			for i := 0; i < len(pairs); i += 2 {
				out = append(out, sign+"mount "+pairs[i]+" on=/dev root="+pairs[i+1]+" "+flags+" slave tmpfs dev rw,mode=755")
			}
		}
		return inOrder(out)
	}
}

// inOrder sorts a difference as report.Diff prints it: what is gone, then what is new, each by name.
func inOrder(lines []string) []string {
	slices.SortStableFunc(lines, func(a, b string) int {
		if a[0] != b[0] {
			return int(b[0]) - int(a[0]) // "-" is behind "+" in ASCII
		}
		return strings.Compare(a, b)
	})
	return lines
}

// compareAll runs rows on every runtime.
func compareAll(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { bed.Each(t, r.compare) })
	}
}

// without lists lines that only the native twin has.
func without(lines ...string) func(bed.Runtime) []string {
	for i := range lines {
		lines[i] = "-" + lines[i]
	}
	return func(bed.Runtime) []string { return lines }
}

func always(v verdict) func(bed.Runtime) verdict {
	return func(bed.Runtime) verdict { return v }
}

// migNodes have modes of their own, as the driver makes them.
func migNodes(h *bed.Host) {
	h.AnyNode("/dev/nvidia0", 0o666)
	h.AnyNode("/dev/nvidia-caps/nvidia-cap66", 0o444)
	h.AnyNode("/dev/nvidia-caps/nvidia-cap67", 0o400)
	h.AnyNode("/dev/nvidia-caps/nvidia-cap75", 0o444)
}

func ascendFolders(h *bed.Host) {
	for _, d := range []string{"/usr/local/dcmi", "/usr/local/Ascend/driver/lib64/common"} {
		h.File(d+"/lib.so", "stand-in of "+d, 0o644)
	}
}

func byPathLinks(h *bed.Host) {
	h.AnyNode("/dev/dri/card1", unix.S_IRUSR|unix.S_IWUSR|unix.S_IRGRP|unix.S_IWGRP)
	h.Link("/dev/dri/by-path/pci-0000:03:00.0-card", "../card1")
	h.AnyNode("/dev/dri/renderD128", 0o666)
	h.Link("/dev/dri/by-path/pci-0000:03:00.0-render", "../renderD128")
}

func rblnFolder(h *bed.Host) { h.File("/usr/lib/rbln/lib.so", "", 0o644) }
