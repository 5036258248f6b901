package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// way is one way for a container to come by its device, or to have none.
type way struct {
	name string
	edit func(config *oci.Spec) error
}

// start measures what a user waits for: create and start of a container, with each runtime and version of cgroups.
func (b *bench) start() error {
	b.out.section("Create and start of a container")
	for _, runtime := range []string{"runc", "crun"} {
		err := b.onEachVersion(func(version string) error {
			for _, hooks := range []bool{false, true} {
				if err := b.startWays(runtime, version, hooks); err != nil {
					return fmt.Errorf("%s: %w", runtime, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startWays(runtime, version string, hooks bool) error {
	specs, err := b.world.specDir(fmt.Sprintf("specs-start-%v", hooks), 1, hooks)
	if err != nil {
		return err
	}
	what := runtime + ", " + version
	ways := []way{
		{"native edits", func(c *oci.Spec) error { return native(c, specs) }},
		{"this hook", func(c *oci.Spec) error {
			c.Annotations = map[string]string{"cdi.k8s.io/bench": device}
			return hookWith(b.hook, b.env, b.stage(specs)...)(c)
		}},
	}
	if hooks {
		what += ", 5 vendor hooks"
	} else {
		ways = append(ways, way{"no hook", func(*oci.Spec) error { return nil }}, way{"/bin/true as hook", hookWith("/bin/true", nil)},
			way{"this hook, nothing asked", hookWith(b.hook, b.env, b.stage(specs)...)})
	}
	serial := 0
	costs, err := inTurns(b.containers, len(ways), func(i int) (cost, error) {
		serial++
		return b.startOnce(runtime, b.id(fmt.Sprintf("start-%s-%s-%v", runtime, version, hooks), serial), ways[i])
	})
	if err != nil {
		return err
	}
	base := median(costs[0])
	for i, w := range ways {
		limit, against := 0.0, "native edits"
		switch i {
		case 0:
			against = ""
		case 1:
			limit = limitStart
		}
		took := median(costs[i])
		b.out.add(what+": "+w.name, took, against, took.over(base), limit)
	}
	return nil
}

// native is what an engine that knows CDI does.
func native(config *oci.Spec, specs string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(specs), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	_, err = cache.InjectDevices(config, device)
	return err
}

func hookWith(path string, env []string, args ...string) func(*oci.Spec) error {
	return func(c *oci.Spec) error {
		c.Hooks = &oci.Hooks{CreateRuntime: []oci.Hook{{Path: path, Args: append([]string{path}, args...), Env: env}}}
		return nil
	}
}

// startOnce measures create and start together; making the bundle and removing the container are not counted.
func (b *bench) startOnce(runtime, id string, w way) (took cost, err error) {
	config := b.world.config(id)
	if err := w.edit(config); err != nil {
		return cost{}, err
	}
	bundle, err := b.world.write(id, config)
	if err != nil {
		return cost{}, err
	}
	defer func() {
		if e := os.RemoveAll(bundle); err == nil {
			err = e
		}
	}()
	defer func() {
		if _, e := b.runtimeCall(runtime, "delete", "--force", id); err == nil {
			err = e
		}
	}()
	created, err := b.runtimeCall(runtime, "create", "--bundle", bundle, id)
	if err != nil {
		return cost{}, err
	}
	started, err := b.runtimeCall(runtime, "start", id)
	return created.plus(started), err
}

func (b *bench) runtimeCall(runtime string, args ...string) (cost, error) {
	c := exec.Command(runtime, append([]string{"--root", b.world.path("run-" + runtime)}, args...)...)
	c.Env = append(os.Environ(), b.crunEnv(runtime)...)
	// a file, not a pipe: the container holds it open
	log, err := os.Create(b.world.path("runtime.log"))
	if err != nil {
		return cost{}, err
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	begin := time.Now()
	err = c.Run()
	took := time.Since(begin)
	if err != nil {
		why, _ := os.ReadFile(log.Name())
		return cost{}, fmt.Errorf("%s %s: %w: %s", runtime, strings.Join(args, " "), err, strings.TrimSpace(string(why)))
	}
	return costOf(took, c.ProcessState), nil
}

// crunEnv lets crun 1.8 start without CAP_SYS_RESOURCE: on cgroup v2 it raises RLIMIT_MEMLOCK, which kernels have not needed since 5.11, and
// dies when it may not. All ways of crun pay for it alike.
func (b *bench) crunEnv(runtime string) []string {
	if runtime != "crun" {
		return nil
	}
	return []string{"LD_PRELOAD=" + b.world.path("nolimit.so")}
}
