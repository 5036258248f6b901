package bed

import "os"

// longEnv is set by `make test-long`.
const longEnv = "OCI_CDI_HOOK_LONG"

// Long tells whether tests that come in a short and a full form are to use the full one.
func Long() bool { return os.Getenv(longEnv) == "1" }

// Pick is short, or full where the full form is asked for.
func Pick(short, full int) int {
	if Long() {
		return full
	}
	return short
}
