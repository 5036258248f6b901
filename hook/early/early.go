// Package early ends the program before its libraries are initialised, where a container asks for nothing: most do, and each waits for
// this hook. Initialising yaml's, CDI's and BPF's libraries is half of what such a run would cost above an empty program.
//
// It works because Go initialises packages by their import paths, as soon as what they import is (Go specification, "Program
// initialization", since 1.21), and because this one imports so little that its turn comes before theirs. A test of the built program holds
// that. Where the order were another, nothing but time would be lost.
//
// It only ever decides "there is nothing to do", for a command line and a state that the full program would say the same of; all else,
// mistakes above all, it leaves to that.
package early

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
)

// Stdin is the program's stdin, with what was read of it put back.
var Stdin = look(os.Args, os.Stdin, os.Exit) //nolint:forbidigo // cmd is not there yet; look has them handed in

// prefix begins annotation keys that ask for devices where no configuration says otherwise. Others are known by their values.
const prefix = "cdi.k8s.io/"

// maxState bounds what is read here, in bytes; a larger state is not looked at.
const maxState = 1 << 20

func look(args []string, stdin io.Reader, exit func(int)) io.Reader {
	if len(args) < 2 || !gives(args[1]) || !plain(args[2:]) {
		return stdin
	}
	raw, err := io.ReadAll(io.LimitReader(stdin, maxState+1))
	if err == nil && len(raw) <= maxState && asksNothing(raw) {
		exit(0)
	}
	return io.MultiReader(bytes.NewReader(raw), stdin)
}

// gives tells of the stages that give devices. The later ones look for a record first.
func gives(verb string) bool { return verb == "createRuntime" || verb == "prestart" }

// plain tells whether the arguments are flags with values that are right at first sight.
func plain(args []string) bool {
	for len(args) >= 2 {
		switch args[0] {
		case "--spec-dir", "--state-dir", "--config-file", "--log-file":
			if !strings.HasPrefix(args[1], "/") {
				return false
			}
		case "--deadline":
			if !seconds(args[1]) {
				return false
			}
		default:
			return false
		}
		args = args[2:]
	}
	return len(args) == 0
}

func seconds(s string) bool {
	digits, ok := strings.CutSuffix(s, "s")
	return ok && digits != "" && len(digits) < 9 && strings.Trim(digits, "0123456789") == ""
}

// asksNothing tells whether a state is in order, and neither a key nor a value of its annotations can ask for a device.
func asksNothing(raw []byte) bool {
	// as the full program reads it, so that a field of the wrong type is its to refuse
	var state struct {
		ID          string            `json:"id"`
		Pid         int               `json:"pid"`
		Bundle      string            `json:"bundle"`
		Annotations map[string]string `json:"annotations"`
		Root        string            `json:"root"`
	}
	if start := bytes.TrimLeft(raw, " \t\r\n"); len(start) == 0 || start[0] != '{' {
		return false
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return false
	}
	for key, value := range state.Annotations {
		if strings.HasPrefix(key, prefix) || mayName(value) {
			return false
		}
	}
	return true
}

// mayName tells whether a value could have a qualified device name, vendor/class=name, in it.
func mayName(value string) bool {
	slash := strings.IndexByte(value, '/')
	return slash >= 0 && strings.IndexByte(value[slash:], '=') >= 0
}
