package oci

import (
	"path"
	"slices"
	"strings"
)

// runtimeHandlerKey is where CRI-O says which of its runtimes runs a container.
const runtimeHandlerKey = "io.kubernetes.cri-o.RuntimeHandler"

// monitors are the programs behind the pid of a container that runs in a virtual machine:
// the runtime's own, or the machine's.
var monitors = []string{"kata-runtime", "containerd-shim-kata-v2", "cloud-hypervisor", "firecracker", "stratovirt", "qemu-kvm"}

// VirtualMachine tells whether a state is of a container in a virtual machine, and by what
// that is known. Such a runtime (Kata) reads the annotations itself and hands the devices
// to the machine; the namespaces behind the pid are not the container's.
func VirtualMachine(s *State) (sign string, found bool) {
	if handler := s.Annotations[runtimeHandlerKey]; strings.HasPrefix(handler, "kata") {
		return "runtime handler " + handler, true
	}
	if s.Pid <= 1 {
		return "", false
	}
	p, err := OpenProcess(s.Pid)
	if err != nil {
		return "", false
	}
	defer p.Close()
	program, err := p.readlink("exe")
	if err != nil {
		return "", false
	}
	name := strings.TrimSuffix(path.Base(program), " (deleted)")
	if slices.Contains(monitors, name) || strings.HasPrefix(name, "qemu-system-") {
		return "process " + name, true
	}
	return "", false
}
