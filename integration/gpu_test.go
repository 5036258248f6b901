package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestGPUMissing holds that make test-gpu does not pass where there is no GPU, and says what is missing. With one, make test-gpu is the test.
func TestGPUMissing(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		t.Skip("this machine has an NVIDIA driver: make test-gpu is the test here")
	}
	out, err := exec.Command("../hack/test-gpu.sh").CombinedOutput()
	if err == nil {
		t.Fatalf("it passed:\n%s", out)
	}
	for _, want := range []string{"an NVIDIA kernel driver (/proc/driver/nvidia/version)", "/dev/nvidiactl", "libcuda.so.1"} {
		if !strings.Contains(string(out), "test-gpu: missing here: ") || !strings.Contains(string(out), want) {
			t.Errorf("it does not name %s:\n%s", want, out)
		}
	}
}
