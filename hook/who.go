package hook

// Annotations that engines write about a container.
const (
	// containerNameKey is where the kubelet, through the CRI, puts a container's name.
	containerNameKey = "io.kubernetes.container.name"
	podNameKey       = "io.kubernetes.pod.name"
	podNamespaceKey  = "io.kubernetes.pod.namespace"
	managerKey       = "io.container.manager"
)

// who is what people call a container, for them to read: nothing is decided by it.
type who struct{ engine, name, pod string }

func whoIs(annotations map[string]string) who {
	w := who{name: annotations[containerNameKey], engine: annotations[managerKey]}
	if w.engine == "libpod" {
		w.engine = "podman"
	}
	if pod := annotations[podNameKey]; pod != "" {
		w.pod = annotations[podNamespaceKey] + "/" + pod
	}
	return w
}
