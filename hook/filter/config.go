package filter

import (
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// config is the config that came in: its bytes, and what the library looks at.
type config struct {
	top           *object
	before, after []byte // white space

	annotations, process, user, linux, resources, hooks *object

	env, gids, mounts, devices, rules [][]byte // as they were
	hookLists                         map[string][][]byte

	spec          oci.Spec // for the library, see decode
	oldEnv        []string
	oldMounts     []mount
	oldRules      []oci.LinuxDeviceCgroup
	oldHooks      map[string][]hook // by stage
	userNamespace bool
}

// mount and hook are what equal ones have in common; of the rest of them nothing
// is read.
type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type hook struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

// decode reads what the library looks at into a config for it. Where it only
// adds (rules, hooks, interfaces), that config has none at first.
func (c *config) decode() error {
	for _, step := range []func() error{c.decodeProcess, c.decodeMounts, c.decodeLinux, c.decodeRules, c.decodeHooks} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *config) decodeProcess() (err error) {
	if c.process, err = c.top.child("process"); err != nil {
		return err
	}
	if c.user, err = c.process.child("user"); err != nil {
		return err
	}
	if c.env, err = c.process.list("env"); err != nil {
		return err
	}
	if c.gids, err = c.user.list("additionalGids"); err != nil {
		return err
	}
	process := c.spec.Process
	if process.Env, err = decodeAll[string]("process.env", c.env); err != nil {
		return err
	}
	c.oldEnv = slices.Clone(process.Env)
	if process.User.AdditionalGids, err = decodeAll[uint32]("process.user.additionalGids", c.gids); err != nil {
		return err
	}
	if err := c.decodeID("uid", &process.User.UID); err != nil {
		return err
	}
	return c.decodeID("gid", &process.User.GID)
}

func (c *config) decodeID(key string, id *uint32) error {
	raw, err := c.user.get(key)
	if raw == nil || err != nil {
		return err
	}
	return decode("process.user."+key, raw, id)
}

func (c *config) decodeMounts() (err error) {
	if c.mounts, err = c.top.list("mounts"); err != nil {
		return err
	}
	c.oldMounts, err = decodeAll[mount]("mounts", c.mounts)
	for i, m := range c.oldMounts {
		c.spec.Mounts = append(c.spec.Mounts, oci.Mount{Destination: m.Destination, UIDMappings: indexMark(i)})
	}
	return err
}

// indexMark marks a mount of the config with its index, in a field that the
// library neither looks at nor sets.
func indexMark(i int) []oci.LinuxIDMapping { return []oci.LinuxIDMapping{{Size: uint32(i)}} }

// markedIndex returns the index of a mount that was there before.
func markedIndex(m oci.Mount) (int, bool) {
	if len(m.UIDMappings) == 0 {
		return 0, false
	}
	return int(m.UIDMappings[0].Size), true
}

func (c *config) decodeLinux() (err error) {
	linux := c.spec.Linux
	if linux.UIDMappings, err = c.mappings("uidMappings"); err != nil {
		return err
	}
	if linux.GIDMappings, err = c.mappings("gidMappings"); err != nil {
		return err
	}
	list, err := c.linux.list("namespaces")
	if err != nil {
		return err
	}
	namespaces, err := decodeAll[struct {
		Type string `json:"type"`
	}]("linux.namespaces", list)
	if err != nil {
		return err
	}
	for _, ns := range namespaces {
		if ns.Type == string(oci.UserNamespace) {
			c.userNamespace = true
			linux.Namespaces = []oci.LinuxNamespace{{Type: oci.UserNamespace}}
		}
	}
	return nil
}

func (c *config) mappings(key string) ([]oci.LinuxIDMapping, error) {
	list, err := c.linux.list(key)
	if err != nil {
		return nil, err
	}
	return decodeAll[oci.LinuxIDMapping]("linux."+key, list)
}

func (c *config) decodeRules() (err error) {
	if c.resources, err = c.linux.child("resources"); err != nil {
		return err
	}
	if c.rules, err = c.resources.list("devices"); err != nil {
		return err
	}
	c.oldRules, err = decodeAll[oci.LinuxDeviceCgroup]("linux.resources.devices", c.rules)
	return err
}

func (c *config) decodeHooks() (err error) {
	if c.hooks, err = c.top.child("hooks"); err != nil {
		return err
	}
	c.hookLists, c.oldHooks = map[string][][]byte{}, map[string][]hook{}
	for _, stage := range hookStages {
		list, err := c.hooks.list(stage)
		if err != nil {
			return err
		}
		c.hookLists[stage] = list
		if c.oldHooks[stage], err = decodeAll[hook]("hooks."+stage, list); err != nil {
			return err
		}
	}
	return nil
}

// write returns the config with its changes.
func (c *config) write() []byte {
	out := make([]byte, 0, len(c.before)+2*len(c.top.raw)+len(c.after))
	out = append(out, c.before...)
	out = c.top.appendTo(out)
	return append(out, c.after...)
}
