#!/bin/bash
# A Debian 13 system with its podman, crun and runc, beside the machine's own:
#
#   trixie.sh make ROOT               make it with debootstrap, unless it is there and as wanted
#   trixie.sh hold ROOT DIR CGROUP    keep one running until killed: its own mounts, pids and cgroups; what it writes stays in DIR
#   trixie.sh in PID CGROUP COMMAND   run a command in the one whose `hold` runs as PID
#
# Nothing of the machine is changed but for DIR and the folder CGROUP of cgroup2, which the caller removes.
set -euo pipefail

suite=trixie
packages=podman,crun,runc,conmon,catatonit,nftables,uidmap

make_root() {
	local root=$1 stamp="$suite $packages"
	mkdir -p "$(dirname "$root")"
	exec 9>"$root.lock"
	flock 9
	if [ -e "$root/stamp" ] && [ "$(cat "$root/stamp")" = "$stamp" ]; then
		return
	fi
	command -v debootstrap >/dev/null || { echo "debootstrap is needed (Debian: apt-get install debootstrap)" >&2; exit 1; }
	echo "integration: making a $suite system with podman, once" >&2
	rm -rf --one-file-system "$root"
	# in namespaces of its own: a half-made system's mounts and daemons end with it
	unshare --mount --pid --fork --kill-child --propagation private \
		debootstrap --variant=minbase --include="$packages" "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$root.log" 2>&1 9>&- ||
		{ tail -n 20 "$root.log" >&2; exit 1; }
	rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root.log"
	echo "$stamp" >"$root/stamp"
}

# The cgroup that a process is in becomes the root of its new namespace.
hold() {
	mkdir -p "$3/init"
	echo $$ >"$3/cgroup.procs"
	exec unshare --cgroup "$0" held "$@"
}

# Only a cgroup without processes can hand controllers on, and podman expects the root to have done so, as systemd's has.
held() {
	local root=$1 dir=$2 cgroup=$3 controllers controller
	echo $$ >"$cgroup/init/cgroup.procs"
	read -ra controllers <"$cgroup/cgroup.controllers" || true # there may be none
	for controller in "${controllers[@]}"; do
		echo "+$controller" >"$cgroup/cgroup.subtree_control"
	done
	exec unshare --mount --pid --fork --kill-child --propagation private "$0" inside "$root" "$dir"
}

# As pid 1 of the new namespaces.
inside() {
	local root=$1 dir=$2 new=$2/root
	mkdir -p "$dir"/{upper,work,root}
	mount -t overlay -o "lowerdir=$root,upperdir=$dir/upper,workdir=$dir/work" overlay "$new"
	cd "$new"
	mkdir -p .old
	mount -t proc proc proc
	mount --rbind /sys sys
	umount -R sys/fs/cgroup
	mount -t cgroup2 cgroup2 sys/fs/cgroup
	mount --rbind /dev dev
	mount --bind /opt opt
	mount -t tmpfs -o mode=0755 tmpfs run
	mkdir run/bed
	mount --bind /run/bed run/bed
	mount -t tmpfs -o mode=1777 tmpfs tmp
	pivot_root . .old
	cd /
	umount -l .old
	rmdir .old
	mount --make-rshared /
	: >/run/ready
	# waits for ever and for whom nobody else waits
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/libexec/podman/catatonit -P
}

in_it() {
	local pid=$1 cgroup=$2
	shift 2
	echo $$ >"$cgroup/init/cgroup.procs"
	exec nsenter --target "$pid" --mount --pid --cgroup -- \
		env -i --chdir=/ HOME=/root LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

verb=${1:?make, hold or in}
shift
case $verb in
make) make_root "$@" ;;
hold) hold "$@" ;;
held) held "$@" ;;
inside) inside "$@" ;;
in) in_it "$@" ;;
*) echo "trixie.sh: $verb: make, hold or in" >&2; exit 2 ;;
esac
