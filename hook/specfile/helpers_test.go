package specfile

import (
	"encoding/json"
	"runtime"
)

func lockThread() { runtime.LockOSThread() }

func encodeAny(v any) (string, error) {
	raw, err := json.MarshalIndent(v, "", " ")
	return string(raw), err
}
