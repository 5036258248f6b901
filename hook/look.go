package hook

import (
	"os"

	"oci-cdi-hook/hook/device"
	"oci-cdi-hook/hook/oci"
	"oci-cdi-hook/hook/plan"
	"oci-cdi-hook/hook/vendor"
)

// List says what devices the spec directories define.
func List(s Settings) *device.Listing { return device.Registry{Dirs: s.SpecDirs}.List() }

// PlanFor plans names for a container that has the config of a file, or for one of which
// nothing is known. Nothing is changed and no container is looked for.
func PlanFor(s Settings, names []string, configFile string) (*plan.Plan, error) {
	var c PlanContainer
	if configFile != "" {
		config, err := oci.ReadConfigFile(configFile)
		if err != nil {
			return nil, err
		}
		c = ForConfig(config)
	} else {
		c = ForConfig(nil)
	}
	return PlanNames(s, names, c)
}

// ExecVerb is the hidden verb behind which [ExecVendorHook] is.
const ExecVerb = vendor.ExecVerb

// ExecVendorHook becomes a vendor's hook, in the namespaces that the caller is in.
func ExecVendorHook(args []string) error { return vendor.Exec(args, os.Environ()) }
