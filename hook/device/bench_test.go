package device

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// manySpecs writes n spec files of the NVIDIA shape, each of a kind of its
// own, and one of v.example/dev.
func manySpecs(b *testing.B, n int) string {
	b.Helper()
	shape, err := os.ReadFile("testdata/fixtures/nvidia-dgpu.yaml")
	if err != nil {
		b.Fatal(err)
	}
	files := map[string]string{"wanted.yaml": specFor("wanted", "a")}
	for i := range n {
		kind := fmt.Sprintf("vendor%d.example/gpu", i)
		files[fmt.Sprintf("spec%04d.yaml", i)] = strings.ReplaceAll(string(shape), "nvidia.com/gpu", kind)
	}
	return writeSpecs(b, files)
}

// BenchmarkResolve looks for one device among files of other kinds: this
// package, the library, and for scale the mere reading of the files.
func BenchmarkResolve(b *testing.B) {
	for _, n := range []int{0, 1, 100, 1000} {
		dir := manySpecs(b, n)
		b.Run(fmt.Sprintf("others=%d/ours", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := (Registry{Dirs: []string{dir}}).Resolve([]string{"v.example/dev=a"}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("others=%d/read", n), func(b *testing.B) {
			for b.Loop() {
				readAll(b, dir)
			}
		})
		b.Run(fmt.Sprintf("others=%d/library", n), func(b *testing.B) {
			for b.Loop() {
				cache, ok := libraryCache(dir)
				if !ok || cache.GetDevice("v.example/dev=a") == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}

func readAll(b *testing.B, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, entry := range entries {
		if _, err := os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequestedNothing(b *testing.B) {
	annotations := map[string]string{}
	for i := range 20 {
		annotations[fmt.Sprintf("io.podman.annotations.%d", i)] = "x"
	}
	prefixes := []string{DefaultPrefix}
	b.ReportAllocs()
	for b.Loop() {
		if names, err := Requested(annotations, prefixes, ""); names != nil || err != nil {
			b.Fatal(names, err)
		}
	}
}

func BenchmarkNative(b *testing.B) {
	res, err := Registry{Dirs: []string{"testdata/fixtures"}}.Resolve([]string{"amd.com/gpu=0", "k8s.gpu.example.com/gpu=9d3f0c1a-0000-4000-8000-0123456789ab-gpu-0"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := res.Native(Container{}); err != nil {
			b.Fatal(err)
		}
	}
}
