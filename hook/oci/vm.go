package oci

import (
	"path"
	"slices"
	"strings"
)

// runtimeHandlerKeys are where engines say which of their runtimes runs a container.
var runtimeHandlerKeys = []string{"io.kubernetes.cri-o.RuntimeHandler", "io.containerd.cri.runtime-handler"}

// monitors are the programs behind the pid of a container that runs in a virtual machine:
// the runtime's own, or the machine's.
var monitors = []string{"kata-runtime", "containerd-shim-kata-v2", "cloud-hypervisor", "firecracker", "stratovirt", "qemu-kvm"}

// VirtualMachine tells whether a state is of a container in a virtual machine, and by what
// that is known. Such a runtime (Kata) reads the annotations itself and hands the devices
// to the machine; the namespaces behind the pid are not the container's.
func VirtualMachine(s *State) (sign string, found bool) {
	for _, key := range runtimeHandlerKeys {
		if handler := s.Annotations[key]; strings.HasPrefix(handler, "kata") {
			return "runtime handler " + handler, true
		}
	}
	if s.Pid <= 1 {
		return "", false
	}
	p, err := OpenProcess(s.Pid)
	if err != nil {
		return "", false
	}
	defer p.Close()
	if p.monitorsFromOutside() {
		return "a process of the host's mount namespace with a network of its own", true
	}
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

// monitorsFromOutside tells of a process that has the container's network and the host's
// files, as that of a virtual machine has: there is no container file system behind it.
func (p *Process) monitorsFromOutside() bool {
	files, err := p.SharesNamespace("mnt")
	if err != nil || !files {
		return false
	}
	network, err := p.SharesNamespace("net")
	return err == nil && !network
}
