#!/bin/bash
# Builds the benchmark and runs it in a tmpfs of a mount namespace of its own. Needs root: a row is measured in real containers.
#
# Arguments go to the benchmark, e.g. -containers 10.
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

export CGO_ENABLED=0
for program in . ./floor ./library; do
	name=$(basename "$(realpath "bench/$program")")
	(cd bench && "$go" build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/$name" "$program")
done
"$work/bench" -config "$PWD/bench/testdata/podman-config.json" -dir "$work" -hook "$PWD/bin/oci-cdi-hook" -entry "$PWD/oci-hooks.d/oci-cdi-hook.json" -fixture "$PWD/integration/testdata/fixtures/nvidia-dgpu.yaml" "$@"
