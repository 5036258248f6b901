package filter

import (
	"maps"
	"reflect"
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// hookStages are those of OCI, in the order of the runtime's.
var hookStages = []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}

// put puts what the library has changed into the config.
func (a *application) put() error {
	a.putEnv()
	a.putGIDs()
	a.putMounts()
	a.putDevices()
	a.putRules()
	a.putHooks()
	if err := a.putNetDevices(); err != nil {
		return err
	}
	return a.putIntelRdt()
}

func (a *application) putEnv() {
	list, isChanged := slices.Clone(a.env), false
	for i, entry := range a.spec.Process.Env {
		switch {
		case i >= len(list):
			list = append(list, encode(entry))
		case entry != a.oldEnv[i]:
			list[i] = encode(entry)
		default:
			continue
		}
		isChanged = true
	}
	if isChanged {
		a.process.set("env", array(list))
	}
}

func (a *application) putGIDs() {
	list := a.gids
	for _, gid := range a.spec.Process.User.AdditionalGids[len(a.gids):] {
		list = append(list, encode(gid))
	}
	putLonger(a.user, "additionalGids", a.gids, list)
}

// putLonger sets a list that can only have grown.
func putLonger(o *object, key string, before, after [][]byte) {
	if len(after) > len(before) {
		o.set(key, array(after))
	}
}

func (a *application) putMounts() {
	var list [][]byte
	isSame := len(a.spec.Mounts) == len(a.mounts)
	for i, m := range a.spec.Mounts {
		old, ok := markedIndex(m)
		if !ok {
			list, isSame = append(list, encode(m)), false
			continue
		}
		list, isSame = append(list, a.mounts[old]), isSame && old == i
	}
	if !isSame {
		a.top.set("mounts", array(list))
	}
}

// putDevices keeps the bytes of a list that would have the same devices again.
func (a *application) putDevices() {
	var list [][]byte
	for _, d := range a.spec.Linux.Devices {
		// The library's have a type.
		if d.Type == "" {
			list = append(list, a.devices[d.Major])
			continue
		}
		list = append(list, encode(d))
	}
	if !slices.EqualFunc(list, a.devices, sameJSON) {
		a.linux.set("devices", array(list))
	}
}

func sameJSON(a, b []byte) bool { return string(a) == string(b) }

func (a *application) putRules() {
	if a.spec.Linux.Resources == nil {
		return
	}
	list := a.rules
	for _, r := range newRules(a.oldRules, a.spec.Linux.Resources.Devices) {
		list = append(list, encode(r))
	}
	putLonger(a.resources, "devices", a.rules, list)
}

func (a *application) putHooks() {
	h := a.spec.Hooks
	if h == nil {
		return
	}
	//nolint:staticcheck // prestart is deprecated and still in use
	all := [][]oci.Hook{h.Prestart, h.CreateRuntime, h.CreateContainer, h.StartContainer, h.Poststart, h.Poststop}
	for i, stage := range hookStages {
		list := a.hookLists[stage]
		for _, hook := range newHooks(a.oldHooks[stage], all[i]) {
			list = append(list, encode(hook))
		}
		putLonger(a.hooks, stage, a.hookLists[stage], list)
	}
}

func (a *application) putNetDevices() error {
	added := a.spec.Linux.NetDevices
	if len(added) == 0 {
		return nil
	}
	nets, err := a.linux.child("netDevices")
	if err != nil {
		return err
	}
	for _, host := range slices.Sorted(maps.Keys(added)) {
		if err := putUnlessEqual(nets, host, added[host]); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) putIntelRdt() error {
	if a.spec.Linux.IntelRdt == nil {
		return nil
	}
	return putUnlessEqual(a.linux, "intelRdt", *a.spec.Linux.IntelRdt)
}

// putUnlessEqual sets a value, as a whole, unless the one there means the same.
func putUnlessEqual[T any](o *object, key string, want T) error {
	raw, err := o.get(key)
	if err != nil {
		return err
	}
	if raw != nil {
		var have T
		if err := decode(join(o.path, key), raw, &have); err != nil {
			return err
		}
		if reflect.DeepEqual(have, want) {
			return nil
		}
	}
	o.set(key, encode(want))
	return nil
}
