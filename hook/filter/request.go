package filter

import (
	"fmt"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"oci-cdi-hook/hook/device"
)

// containerNameKey is where the kubelet, through the CRI, puts a container's name.
const containerNameKey = "io.kubernetes.container.name"

// requested returns the names that the config asks for: those of annotations,
// then those of linux.devices, whose entries are taken out.
func (c *config) requested(prefixes []string) ([]string, error) {
	annotations, err := c.readAnnotations(prefixes)
	if err != nil {
		return nil, err
	}
	names, err := device.Requested(annotations, prefixes, annotations[containerNameKey])
	if err != nil {
		return nil, err
	}
	if c.linux, err = c.top.child("linux"); err != nil {
		return nil, err
	}
	list, err := c.linux.list("devices")
	if err != nil {
		return nil, err
	}
	nodes, err := decodeAll[struct {
		Path string `json:"path"`
	}]("linux.devices", list)
	if err != nil {
		return nil, err
	}
	for i, node := range nodes {
		if parser.IsQualifiedName(node.Path) {
			names = append(names, node.Path)
			continue
		}
		// Major holds the index: the library looks at the path alone.
		c.spec.Linux.Devices = append(c.spec.Linux.Devices, oci.LinuxDevice{Path: node.Path, Major: int64(i)})
	}
	c.devices = list
	if len(names) > 0 {
		err = c.readAllAnnotations()
	}
	return names, err
}

// readAnnotations reads those that matter: an odd one of somebody else is the
// runtime's to judge.
func (c *config) readAnnotations(prefixes []string) (map[string]string, error) {
	var err error
	if c.annotations, err = c.top.child("annotations"); err != nil {
		return nil, err
	}
	annotations := map[string]string{}
	for _, m := range c.annotations.members {
		if m.key != containerNameKey && !hasAnyPrefix(m.key, prefixes) {
			continue
		}
		value, err := c.annotation(m)
		if err != nil {
			return nil, err
		}
		annotations[m.key] = value
	}
	return annotations, nil
}

// readAllAnnotations reads what tells who asks. Here an odd one is no one's to
// pass over.
func (c *config) readAllAnnotations() error {
	c.spec.Annotations = map[string]string{}
	for _, m := range c.annotations.members {
		value, err := c.annotation(m)
		if err != nil {
			return err
		}
		c.spec.Annotations[m.key] = value
	}
	return nil
}

func (c *config) annotation(m member) (value string, err error) {
	err = decode(fmt.Sprintf("annotations[%q]", m.key), c.annotations.raw[m.start:m.end], &value)
	return value, err
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
