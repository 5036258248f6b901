#!/bin/bash
# Runs `make demo` and `make test` on minimal Debian systems that have nothing but Go, make and a clean clone of HEAD:
#
#   fresh-root-test.sh [TARGET]...     default: demo test
#
# Each target gets a system of its own, so that nothing installed for one serves another. demo's has gcc and libc6-dev too, for it builds
# runc and installs nothing. Needs root and debootstrap. The Debian base is kept as a tarball outside the tree, all else goes.
set -euo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/.."

suite=bookworm
cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/oci-cdi-hook
base=$cache/$suite-minbase-make.tar

if [ "$(id -u)" != 0 ]; then
	echo "fresh-root-test: it makes whole systems: run it as root" >&2
	exit 1
fi

# The second half: in namespaces of its own, with the new system at $root, as pid 1 of it.
inside() {
	local root=$1 target=$2
	mount --bind "$root" "$root"
	cd "$root"
	mkdir -p .old
	mount -t proc proc proc
	mount --rbind /sys sys
	devices dev
	mount -t tmpfs -o mode=0755 tmpfs run
	mount -t tmpfs -o mode=1777 tmpfs tmp
	mkdir -p goroot # not below /usr, which the tests cover with an overlay
	mount --bind "$(go env GOROOT)" goroot
	mount -o remount,bind,ro goroot
	local go_env
	mapfile -t go_env < <(go env GOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOTOOLCHAIN | paste -d= <(printf '%s\n' GOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOTOOLCHAIN) -)
	pivot_root . .old
	cd /
	umount -l .old
	rmdir .old
	exec env -i --chdir=/src HOME=/root TERM=dumb PATH=/goroot/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		SSL_CERT_FILE=/usr/local/share/host-ca.crt "${go_env[@]}" make "$target" </dev/null
}

# A /dev as a machine has it: what runtimes and the tests look for, where this kernel has it.
devices() {
	local dev=$1 name
	mount -t tmpfs -o mode=0755 tmpfs "$dev"
	mkdir -p "$dev"/{pts,shm,net,mqueue}
	mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$dev/pts"
	mount -t tmpfs -o mode=1777 tmpfs "$dev/shm"
	for name in null zero full random urandom tty fuse kmsg loop-control net/tun autofs hwrng vga_arbiter; do
		if [ -c "/dev/$name" ]; then cp -a "/dev/$name" "$dev/$name"; fi
	done
	ln -s pts/ptmx "$dev/ptmx"
	ln -s /proc/self/fd "$dev/fd"
	ln -s /proc/self/fd/0 "$dev/stdin"
	ln -s /proc/self/fd/1 "$dev/stdout"
	ln -s /proc/self/fd/2 "$dev/stderr"
}

if [ "${1:-}" = --inside ]; then
	inside "$2" "$3"
fi

make_base() {
	command -v debootstrap >/dev/null || { echo "debootstrap is needed (Debian: apt-get install debootstrap)" >&2; exit 1; }
	echo "== making a $suite system, once"
	mkdir -p "$cache"
	debootstrap --variant=minbase --include=make "$suite" "$work/base" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/debootstrap.log" 2>&1 ||
		{ tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
	rm -f "$work/base"/var/cache/apt/archives/*.deb
	tar -C "$work/base" -cf "$base.new" .
	mv "$base.new" "$base"
	rm -rf "$work/base"
}

make_root() {
	local root=$1
	mkdir "$root"
	tar -C "$root" -xf "$base"
	git clone -q --no-hardlinks . "$root/src"
	cp /etc/resolv.conf /etc/hosts "$root/etc/"
	# a proxy that the host needs is needed there too; so is its idea of whom to trust
	apt-config dump | grep -E '^Acquire::(http|https)::Proxy ' >"$root/etc/apt/apt.conf.d/90host" || true
	cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/usr/local/share/host-ca.crt"
}

work=$(mktemp -d /var/tmp/oci-cdi-hook-fresh-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM HUP
chmod 0755 "$work"
[ -e "$base" ] || make_base

[ $# != 0 ] || set -- demo test
for target in "$@"; do
	root=$work/$target
	make_root "$root"
	if [ "$target" = demo ]; then
		chroot "$root" sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends gcc libc6-dev' >"$work/apt.log" 2>&1 ||
			{ tail -n 20 "$work/apt.log" >&2; exit 1; }
	fi
	echo "== make $target, on a fresh $suite"
	unshare --mount --pid --fork --kill-child --propagation private "$self" --inside "$root" "$target"
	rm -rf --one-file-system "$root"
done
echo "fresh-root-test: $*: passed"
