package policy

import (
	"encoding/json"
	"strings"
)

// Annotations that engines and the kubelet write.
const (
	managerKey       = "io.container.manager"
	namespaceKey     = "io.kubernetes.pod.namespace"
	containerTypeKey = "io.kubernetes.cri-o.ContainerType"
	criTypeKey       = "io.kubernetes.cri.container-type" // containerd's
	ownKey           = "io.kubernetes.cri-o.Annotations"
)

// Container is who asks.
type Container struct {
	Pod bool // in a pod
	// Namespace is the pod's; empty where it is not known.
	Namespace string
}

// podman is its manager on all its containers. It also marks those of its own pods as
// CRI-O does, but nobody else writes their annotations.
const podman = "libpod"

// WhoIs reads a container's annotations. One sign of a pod is enough, since whoever writes
// a pod's annotations can forge signs but take none away: CRI-O writes its own after his,
// its manager among them, so that a container of a pod cannot pass for one of podman's.
//
// The namespace is read from a label of the kubelet's, which CRI-O writes last of all.
// io.kubernetes.cri-o.Namespace is not looked at: on a container it is the pod author's
// own text.
func WhoIs(annotations map[string]string) Container {
	manager := annotations[managerKey]
	namespace, hasNamespace := annotations[namespaceKey]
	_, hasType := annotations[containerTypeKey]
	_, hasCRIType := annotations[criTypeKey]
	return Container{
		Pod: hasNamespace || hasCRIType || strings.EqualFold(manager, "cri-o") ||
			hasType && manager != podman,
		Namespace: namespace,
	}
}

// ByOrigin divides a container's annotations by who has written them. On a container that
// is in no pod all are the container's own. In a pod those are that CRI-O lists as such,
// key and value; it writes the list after the pod's annotations and before the
// container's, so that neither the list nor what is in it is the pod author's.
func ByOrigin(annotations map[string]string, who Container) map[Origin]map[string]string {
	if !who.Pod {
		return map[Origin]map[string]string{FromContainer: annotations}
	}
	var own map[string]string
	if err := json.Unmarshal([]byte(annotations[ownKey]), &own); err != nil {
		own = nil // what was read before the error is no more reliable
	}
	divided := map[Origin]map[string]string{FromContainer: {}, FromPod: {}}
	for key, value := range annotations {
		origin := FromPod
		if listed, ok := own[key]; ok && listed == value {
			origin = FromContainer
		}
		divided[origin][key] = value
	}
	return divided
}
