package hook

import (
	"path"
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/vendor"
)

// PlanContainer is what a plan depends on besides the request.
type PlanContainer struct {
	Config                *oci.Spec // nil where it is unknown
	UserNamespace         bool
	CanEnterUserNamespace bool
	Running               bool
}

// ForConfig describes a container of which only the config is known.
func ForConfig(config *oci.Spec) PlanContainer {
	c := PlanContainer{Config: config, CanEnterUserNamespace: haveNsenter()}
	if config != nil && config.Linux != nil {
		for _, ns := range config.Linux.Namespaces {
			c.UserNamespace = c.UserNamespace || ns.Type == oci.UserNamespace
		}
	}
	return c
}

// PlanNames resolves qualified names and plans them for a container. It changes nothing.
func PlanNames(s Settings, names []string, c PlanContainer) (*plan.Plan, error) {
	resolution, err := device.Registry{Dirs: s.SpecDirs}.Resolve(names)
	if err != nil {
		return nil, err
	}
	untrusted, err := s.Vet(resolution)
	if err != nil {
		return nil, err
	}
	if c.Config == nil {
		c.Config = &oci.Spec{}
	}
	native, err := resolution.Native(libraryContainer(c.Config))
	if err != nil {
		return nil, err
	}
	p, err := plan.Build(resolution, native, plan.Container{
		Config:                c.Config,
		UserNamespace:         c.UserNamespace,
		CanEnterUserNamespace: c.CanEnterUserNamespace,
		Running:               c.Running,
		IgnoreEnv:             s.IgnoreEnv,
		Entries:               entriesOf(c.Config),
	})
	if err != nil {
		return nil, err
	}
	p.Warnings = append(untrusted, p.Warnings...)
	return p, nil
}

// entriesOf finds the later stages at which the container's config calls this program.
func entriesOf(config *oci.Spec) []string {
	if config.Hooks == nil {
		return nil
	}
	var found []string
	for _, s := range []struct {
		stage string
		hooks []oci.Hook
	}{
		{plan.StagePoststart, config.Hooks.Poststart},
		{plan.StagePoststop, config.Hooks.Poststop},
	} {
		if slices.ContainsFunc(s.hooks, func(h oci.Hook) bool {
			return path.Base(h.Path) == programName && len(h.Args) > 1 && h.Args[1] == s.stage
		}) {
			found = append(found, s.stage)
		}
	}
	if callsPoststopItself(config) && slices.Contains(found, plan.StagePoststart) && !slices.Contains(found, plan.StagePoststop) {
		found = append(found, plan.StagePoststop)
	}
	return found
}

// callsPoststopItself tells of podman, whose hooks.d entries for poststop never reach
// config.json: it calls them after the runtime's delete. The entries are installed
// together, so that for poststart, which podman leaves to the runtime, speaks for both.
func callsPoststopItself(config *oci.Spec) bool {
	return config.Annotations["io.container.manager"] == "libpod"
}

// programName is the name under which this program is installed.
const programName = "oci-cdi-hook"

// libraryContainer picks out what the CDI library looks at.
func libraryContainer(config *oci.Spec) device.Container {
	var c device.Container
	if config.Process != nil {
		c.UID, c.GID = config.Process.User.UID, config.Process.User.GID
	}
	if l := config.Linux; l != nil && len(l.UIDMappings) > 0 && len(l.GIDMappings) > 0 {
		for _, ns := range l.Namespaces {
			c.IDMapped = c.IDMapped || ns.Type == oci.UserNamespace
		}
	}
	return c
}

// nsenterPaths are where util-linux installs nsenter; PATH is not asked.
var nsenterPaths = []string{"/usr/bin/nsenter", "/bin/nsenter"}

func haveNsenter() bool { return vendor.FindNsenter(nsenterPaths) != "" }
