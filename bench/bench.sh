#!/bin/bash
# Builds the benchmark and runs it in a tmpfs of a mount namespace of its own. Needs root: a row is measured in real containers.
#
# Arguments go to the benchmark, e.g. -containers 10. With DOCS=1 the results go to docs/performance.md and docs/performance.svg too.
set -euo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/.."

if [ "$(id -u)" != 0 ]; then
	echo "bench: it makes real containers: run it as root" >&2
	exit 1
fi
if [ -z "${BENCH_INSIDE:-}" ]; then
	hack/install-test-deps.sh bench
	BENCH_INSIDE=1 exec unshare --mount --propagation private "$self" "$@"
fi

go=${GO:-go}
work=$(mktemp -d)
cleanup() {
	umount -l "$work" 2>/dev/null || true
	rmdir "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
mount -t tmpfs -o mode=0755 bench "$work"

build() { # OUT FOLDER PACKAGE
	(cd "$2" && "$go" build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/$1" "$3")
}
export CGO_ENABLED=0
build bench bench .
build floor bench ./floor
build library bench ./library
build peak-of bench ./peak
CGO_ENABLED=1 CGO_CFLAGS='-Wno-deprecated-declarations -O2' build nvidia-cdi-hook integration/peers/nvidia github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook
# see crunEnv
echo 'int setrlimit(int r, const void *l) { return 0; }' | gcc -shared -fPIC -w -x c -o "$work/nolimit.so" -

[ -z "${DOCS:-}" ] || set -- -docs "$PWD/docs" "$@"
"$work/bench" -config "$PWD/bench/testdata/podman-config.json" -dir "$work" -hook "$PWD/bin/oci-cdi-hook" -entry "$PWD/oci-hooks.d/oci-cdi-hook.json" -fixture "$PWD/integration/testdata/fixtures/nvidia-dgpu.yaml" "$@"
