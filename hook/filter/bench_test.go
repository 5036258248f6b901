package filter

import (
	"bytes"
	"os"
	"testing"
)

// BenchmarkFilter runs podman's own config through: with nothing asked, and
// with a device of the NVIDIA shape.
func BenchmarkFilter(b *testing.B) {
	real, err := os.ReadFile("testdata/podman.json")
	if err != nil {
		b.Fatal(err)
	}
	gpus := standIns(b, fixtures, numbered)
	for name, request := range map[string]string{"nothing": "", "env": "v.example/dev=a", "gpu": "nvidia.com/gpu=all"} {
		input := real
		if request == "" {
			input = bytes.Replace(input, []byte("cdi.k8s.io"), []byte("other"), 1)
		} else {
			input = bytes.Replace(input, []byte("vendor.com/device=myDevice"), []byte(request), 1)
		}
		s := settings(append(gpus, specDir(b, "{}", "a={env: [A=1]}"))...)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				if _, _, err := run(s, bytes.NewReader(input), initialNamespace); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
