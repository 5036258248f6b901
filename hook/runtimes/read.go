package runtimes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxFile bounds a state file, in bytes: runc's holds the whole config.
const maxFile = 16 << 20

// state is what the files of the runtimes have in common, and what has a name of its own
// in each.
type state struct {
	ID          string            `json:"id"`
	Pid         int               `json:"pid"`
	Bundle      string            `json:"bundle"`
	Annotations map[string]string `json:"annotations"`

	// crun, in "status"
	CrunStart uint64 `json:"process-start-time"`

	// runc, in "state.json": the bundle and the annotations are labels of its config.
	RuncPid   int    `json:"init_process_pid"`
	RuncStart uint64 `json:"init_process_start"`
	Config    struct {
		Labels []string `json:"labels"`
	} `json:"config"`
}

// read reads what a runtime keeps of a container in a directory.
func read(dir, id string) (*Container, error) {
	name := filepath.Join(dir, "state.json") // runc, youki
	raw, err := readTrusted(name)
	if errors.Is(err, os.ErrNotExist) {
		name = filepath.Join(dir, "status") // crun
		raw, err = readTrusted(name)
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: not a runtime's state: %w", name, err)
	}
	c := &Container{ID: id, Bundle: s.Bundle, Pid: s.Pid, StartTime: s.CrunStart, Annotations: s.Annotations, Dir: dir}
	if s.RuncPid != 0 || len(s.Config.Labels) > 0 {
		c.Pid, c.StartTime = s.RuncPid, s.RuncStart
		c.Annotations = map[string]string{}
		for _, label := range s.Config.Labels {
			key, value, _ := strings.Cut(label, "=")
			c.Annotations[key] = value
		}
		c.Bundle = c.Annotations["bundle"]
		delete(c.Annotations, "bundle")
	}
	if !filepath.IsAbs(c.Bundle) {
		return nil, fmt.Errorf("%s: bundle %q is not an absolute path", name, c.Bundle)
	}
	return c, nil
}

// readTrusted reads a regular file that is root's and that nobody else may write.
func readTrusted(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "fstat", Path: name, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s: not a regular file", name)
	case st.Uid != 0 || st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: owner %d, mode %04o: not root's alone, so that it is not believed", name, st.Uid, st.Mode&0o7777)
	case st.Size > maxFile:
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// names are those that podman's storage has for a container, whose bundle is
// STORAGE/DRIVER-containers/ID/userdata. One that goes with its end is listed below
// podman's run directory, where the container's .containerenv is too.
func names(c Container) []string {
	var all []string
	for _, list := range []string{
		filepath.Join(c.Bundle, "../../containers.json"),
		filepath.Join(filepath.Dir(envFile(c)), "../../volatile-containers.json"),
	} {
		if filepath.Base(c.Bundle) != "userdata" || !strings.HasSuffix(filepath.Dir(list), "-containers") {
			continue
		}
		raw, err := readTrusted(list)
		if err != nil {
			continue
		}
		var entries []struct {
			ID    string   `json:"id"`
			Names []string `json:"names"`
		}
		if json.Unmarshal(raw, &entries) != nil {
			continue
		}
		for _, e := range entries {
			if e.ID == c.ID {
				all = append(all, e.Names...)
			}
		}
	}
	return all
}

// envFile is what podman mounts on /run/.containerenv.
func envFile(c Container) string {
	raw, err := readTrusted(filepath.Join(c.Bundle, "config.json"))
	if err != nil {
		return ""
	}
	var config struct {
		Mounts []struct {
			Destination string `json:"destination"`
			Source      string `json:"source"`
		} `json:"mounts"`
	}
	if json.Unmarshal(raw, &config) != nil {
		return ""
	}
	for _, m := range config.Mounts {
		if m.Destination == "/run/.containerenv" {
			return m.Source
		}
	}
	return ""
}
