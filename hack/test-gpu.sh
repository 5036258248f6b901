#!/bin/bash
# A real GPU: the spec that NVIDIA's own generator writes for this machine, and a container in which the driver starts (cuInit), natively and by the
# hook. Needs root, an NVIDIA driver, podman, runc and gcc; elsewhere it names what is missing and fails.
#
# It works in a mount namespace of its own, whose /etc/cdi and /run/cdi are empty but for that spec, and leaves nothing behind.
set -euo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/.."
root=$PWD
go=${GO:-go}

missing=()
need() { # WHAT COMMAND...
	local what=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$what")
}
has_library() { [ -n "$(library "$1")" ]; }
library() { PATH=$PATH:/sbin ldconfig -p | sed -n "s/^[[:space:]]*$1 .*x86-64.* => //p" | head -n 1; }

need "root" test "$(id -u)" = 0
need "an NVIDIA kernel driver (/proc/driver/nvidia/version)" test -e /proc/driver/nvidia/version
need "a GPU's node (/dev/nvidia0)" test -c /dev/nvidia0
need "the driver's control node (/dev/nvidiactl)" test -c /dev/nvidiactl
need "the driver's library (libcuda.so.1)" has_library libcuda.so.1
for program in podman runc gcc; do
	need "$program" command -v "$program"
done
if [ ${#missing[@]} != 0 ]; then
	printf 'test-gpu: missing here: %s\n' "${missing[@]}" >&2
	exit 1
fi

if [ -z "${TEST_GPU_INSIDE:-}" ]; then
	work=$(mktemp -d)
	# from outside: what podman does after its end still finds the file system, and then nothing
	trap 'rmdir "$work"' EXIT
	trap 'exit 130' INT TERM HUP
	TEST_GPU_INSIDE=$work unshare --mount --propagation private "$self" "$@"
	exit
fi
work=$TEST_GPU_INSIDE
mount -t tmpfs -o mode=0755 test-gpu "$work"
mkdir -p /etc/cdi /run/cdi "$work/cdi" "$work/hooks.d" "$work/podman"
mount --bind "$work/cdi" /etc/cdi
mount -t tmpfs -o mode=0755 cdi /run/cdi

echo "== a program that starts the driver"
cat >"$work/cuinit.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib) { puts(dlerror()); return 1; }
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
	int (*count)(int *) = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
	if (!init || !count) { puts("libcuda.so.1 without cuInit or cuDeviceGetCount"); return 1; }
	int n = -1, err = init(0);
	if (!err) err = count(&n);
	printf("cuInit: error %d, %d devices\n", err, n);
	return err != 0 || n < 1;
}
C
gcc -o "$work/cuinit" "$work/cuinit.c" -ldl
"$work/cuinit"

# rootfs DIR: what a program of the host's libc needs, and nothing of NVIDIA's
rootfs() {
	mkdir -p "$1"/{proc,dev,sys,etc/ld.so.conf.d,tmp,run,usr/bin,usr/lib/x86_64-linux-gnu}
	cp "$work/cuinit" "$1/cuinit"
	# that the image of a GPU program has what libcuda needs is the image's affair; what is NVIDIA's comes with the device
	ldd "$work/cuinit" "$(library libcuda.so.1)" | grep -o '/[^ ]*' | grep -v ':$' | sort -u | while read -r file; do
		case $(basename "$file") in *cuda* | *nvidia*) continue ;; esac
		install -D "$file" "$1$file"
	done
}

echo "== the spec, by the vendor's generator"
for program in nvidia-ctk nvidia-cdi-hook; do
	(cd integration/peers/nvidia && CGO_ENABLED=1 CGO_CFLAGS='-Wno-deprecated-declarations -O2' "$go" build -trimpath -o "$work/$program" "github.com/NVIDIA/nvidia-container-toolkit/cmd/$program")
done
"$work/nvidia-ctk" cdi generate --nvidia-cdi-hook-path "$work/nvidia-cdi-hook" --output "$work/cdi/nvidia.yaml"
"$root/bin/oci-cdi-hook" validate "$work/cdi/nvidia.yaml"
"$root/bin/oci-cdi-hook" plan nvidia.com/gpu=all

sed "s#\"path\": *\"[^\"]*\"#\"path\": \"$root/bin/oci-cdi-hook\"#" oci-hooks.d/oci-cdi-hook.json >"$work/hooks.d/oci-cdi-hook.json"
# podman would raise them, which not every root may
limits=(--ulimit nofile=1024:1024 --ulimit nproc=16384:16384)
run() { # NAME PODMAN-FLAG...
	local name=$1
	shift
	rootfs "$work/$name"
	echo "== $name"
	podman --root "$work/podman/root" --runroot "$work/podman/run" --runtime runc --hooks-dir "$work/hooks.d" --cgroup-manager cgroupfs \
		run --rm "${limits[@]}" --pids-limit 0 --network none --log-driver none "$@" --rootfs "$work/$name" /cuinit | tee "$work/$name.out"
}
run without || true
if ! grep -qE 'cuInit: error [1-9]|libcuda.so.1: cannot open' "$work/without.out"; then
	echo "test-gpu: without a device the container should run, and the driver not start in it" >&2
	exit 1
fi
run native --device nvidia.com/gpu=all
run hook --annotation cdi.k8s.io/gpu=nvidia.com/gpu=all
cmp "$work/native.out" "$work/hook.out"
echo "the driver starts in a container with the hook as natively"
