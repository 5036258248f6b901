#!/bin/bash
# Shows the hook at work on a real runtime: the same container without and with the annotation, and with one that names no device.
#
# Needs root, Go, and gcc where neither runc nor crun is on PATH. Everything it makes is in a tmpfs of a mount namespace of its own.
set -euo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/.."

if [ "$(id -u)" != 0 ]; then
	echo "demo: it makes real containers: run it as root" >&2
	exit 1
fi
if [ "${1:-}" != inside ]; then
	exec unshare --mount --propagation private "$self" inside
fi

go=${GO:-go}
cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/oci-cdi-hook
hook=$PWD/bin/oci-cdi-hook
work=$(mktemp -d)
id=oci-cdi-hook-demo-$$
runtime=

cleanup() {
	# 2>/dev/null: there is no container where all went well
	[ -z "$runtime" ] || "$runtime" --root "$work/run" delete --force "$id" 2>/dev/null || true
	umount -l "$work" 2>/dev/null || true
	rmdir "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

mount -t tmpfs -o mode=0755 demo "$work"
mkdir -p "$work"/{dev,cdi,run,vendor,bundle/rootfs/{dev,proc,etc}}

# Two devices that this kernel has and that a runtime denies by default, by their names in /proc/misc; kmsg is a fixed number.
choose_devices() {
	local name minor pairs=() node
	for name in fuse loop-control autofs hw_random vga_arbiter; do
		minor=$(awk -v n="$name" '$2 == n { print $1 }' /proc/misc)
		[ -z "$minor" ] || pairs+=("10 $minor")
	done
	pairs+=("1 11")
	numbers=()
	for pair in "${pairs[@]}"; do
		node=$work/dev/device${#numbers[@]}
		# shellcheck disable=SC2086 # two words
		mknod -m 0660 "$node" c $pair
		if (exec 3<>"$node") 2>/dev/null; then
			numbers+=("${pair/ /:}")
		else
			rm "$node"
		fi
		[ ${#numbers[@]} -lt 2 ] || return 0
	done
	echo "demo: none of two devices opens on this host: tried ${pairs[*]}" >&2
	exit 1
}

make_vendor() {
	CGO_ENABLED=0 "$go" build -buildvcs=false -trimpath -o "$work/vendor/hook" ./demo/probe
	cp "$work/vendor/hook" "$work/bundle/rootfs/probe"
	echo "hello from the vendor's library" >"$work/vendor/libdevice.txt"
	cat >"$work/cdi/vendor.yaml" <<-YAML
		cdiVersion: 0.6.0
		kind: vendor.com/device
		devices:
		- name: myDevice
		  containerEdits:
		    deviceNodes:
		    - {path: /dev/device0, hostPath: $work/dev/device0}
		    - {path: /dev/device1, hostPath: $work/dev/device1}
		    mounts:
		    - {hostPath: $work/vendor/libdevice.txt, containerPath: /opt/libdevice.txt, options: [ro, nosuid, nodev, bind]}
		    hooks:
		    - {hookName: createContainer, path: $work/vendor/hook, args: [hook, vendor-hook, etc/vendor.conf]}
	YAML
}

# The container: one static program, the namespaces and rules that runtimes give by default, and our hook where an engine that reads
# hooks.d would have put it.
write_config() {
	local annotations=$1
	cat >"$work/bundle/config.json" <<-JSON
		{
		  "ociVersion": "1.0.2",
		  "process": {
		    "user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/"],
		    "args": ["/probe", "$probe", $wanted],
		    "capabilities": {"bounding": ["CAP_MKNOD"], "effective": ["CAP_MKNOD"], "permitted": ["CAP_MKNOD"]}
		  },
		  "root": {"path": "rootfs"},
		  "mounts": [
		    {"destination": "/proc", "type": "proc", "source": "proc"},
		    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}
		  ],
		  "annotations": {$annotations},
		  "hooks": {"createRuntime": [{
		    "path": "$hook", "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=1"], "timeout": 120,
		    "args": ["oci-cdi-hook", "createRuntime", "--spec-dir", "$work/cdi", "--state-dir", "$work/state"]
		  }]},
		  "linux": {
		    "cgroupsPath": "/$id",
		    "namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}],
		    "resources": {"devices": [{"allow": false, "access": "rwm"}]}
		  }
		}
	JSON
}

container() { "$runtime" --root "$work/run" run --bundle "$work/bundle" "$id" </dev/null; }

# container_with WORD-OF-PROBE ANNOTATIONS WANTED: runs it
container_with() {
	probe=$1
	wanted=$3
	write_config "$2"
	container
}

quoted() { printf '"%s", ' "$@" | sed 's/, $//'; }

# The first runtime that can run a container on this host's cgroups (crun before 1.9 refuses a mix of v1 and v2).
choose_runtime() {
	local candidate
	for candidate in runc crun; do
		runtime=$(PATH=$PATH:/usr/sbin:/sbin command -v "$candidate") || continue
		if container_with report '' '"/"' >/dev/null 2>&1; then return; fi
	done
	echo "No runc or crun that works here on PATH: building runc from its Go module"
	mkdir -p "$cache/integration"
	(cd integration/peers/runc && CGO_ENABLED=1 "$go" build -buildvcs=false -trimpath -o "$cache/integration/runc" github.com/opencontainers/runc)
	runtime=$cache/integration/runc
}

choose_devices
make_vendor
choose_runtime

paths=$(quoted /dev/device0 /dev/device1 /opt/libdevice.txt /etc/vendor.conf)
cat <<TEXT
$("$runtime" --version | head -n1)

A vendor's spec says what vendor.com/device=myDevice is: two device nodes, a mount, a hook.
  $hook list:
$("$hook" list --spec-dir "$work/cdi" | sed 's/^/    /')

1. A container without the annotation has none of it, and may not open the devices even with nodes of its own:
TEXT
container_with report '' "$paths"
container_with try '' "$(quoted "${numbers[@]}")"

annotation='"cdi.k8s.io/demo": "vendor.com/device=myDevice"'
echo
echo "2. The same container with the annotation $annotation:"
container_with report "$annotation" "$paths" | tee "$work/out"
[ "$(grep -c 'device .*, opens' "$work/out")" = 2 ] || { echo "demo: the container cannot open its devices" >&2; exit 1; }
! grep -q 'not there' "$work/out" || { echo "demo: the container has not got all of it" >&2; exit 1; }

echo
echo "3. Asking for a device that no spec has stops the container, with the reason:"
# crun shows no more than the exit code, unless a file is named for the rest
other='"cdi.k8s.io/demo": "vendor.com/device=other", "run.oci.hooks.stderr": "'$work/hook.err'"'
if container_with report "$other" "$paths" >"$work/out" 2>"$work/err"; then
	echo "demo: the container started" >&2
	exit 1
fi
# runc quotes what the hook said
touch "$work/hook.err"
cat "$work/hook.err" "$work/err" | grep -o 'oci-cdi-hook: .*' | head -n1 | sed 's/\\n"*$//; s/^/    /'

echo
if command -v podman >/dev/null; then
	echo "podman is here: after \"make install\" it does the same: podman run --annotation cdi.k8s.io/demo=vendor.com/device=myDevice ..."
fi
