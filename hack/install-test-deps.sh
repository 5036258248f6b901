#!/bin/sh
# Debian and Ubuntu packages that the tests, lint and benchmarks need, beside Go.
#
#   install-test-deps.sh [test|lint|bench]...
#
# Installs what is missing where that is possible: as root, with apt-get, and without INSTALL=0. Elsewhere it names what is missing and
# fails. It goes by programs first, packages second, so that a runc from another source counts.
set -eu

# program, file or "static" file : package
test_deps='
runc:runc
crun:crun
podman:podman
conmon:conmon
static /bin/busybox:busybox-static
gcc:gcc
/usr/include/stdlib.h:libc6-dev
nsenter:util-linux
debootstrap:debootstrap
newuidmap:uidmap
rpm:rpm
systemd-analyze:systemd
/etc/ssl/certs/ca-certificates.crt:ca-certificates
'
lint_deps='
shellcheck:shellcheck
git:git
/etc/ssl/certs/ca-certificates.crt:ca-certificates
'
bench_deps='
runc:runc
crun:crun
gcc:gcc
/usr/include/stdlib.h:libc6-dev
strace:strace
/etc/ssl/certs/ca-certificates.crt:ca-certificates
'

# podman's sbin programs are not on every user's PATH
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# ldd refuses a program that needs no loader; a container's rootfs holds nothing but busybox.
is_static() {
	[ -x "$1" ] && ! ldd "$1" >/dev/null 2>&1
}

missing() {
	echo "$1" | while IFS=: read -r what package; do
		case $what in
		'') ;;
		static*) is_static "${what#static }" || echo "$package" ;;
		/*) [ -e "$what" ] || echo "$package" ;;
		*) command -v "$what" >/dev/null || echo "$package" ;;
		esac
	done
}

deps=
for set in "${@:-test}"; do
	case $set in
	test) deps=$deps$test_deps ;;
	lint) deps=$deps$lint_deps ;;
	bench) deps=$deps$bench_deps ;;
	*) echo "install-test-deps.sh: no set \"$set\": test, lint or bench" >&2; exit 2 ;;
	esac
done

packages=$(missing "$deps" | sort -u | tr '\n' ' ')
packages=${packages% }
[ -n "$packages" ] || exit 0

if [ "${INSTALL:-1}" = 0 ] || ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "missing, by their Debian names: $packages" >&2
	if command -v apt-get >/dev/null; then
		echo "install them with: apt-get install --no-install-recommends $packages" >&2
	else
		echo "install them with this system's package manager" >&2
	fi
	exit 1
fi

echo "installing with apt-get: $packages"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of words
if ! { apt-get -q update && apt-get -q -y install --no-install-recommends $packages; } >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	exit 1
fi

left=$(missing "$deps" | sort -u | tr '\n' ' ')
[ -z "$left" ] || { echo "still missing after apt-get: $left" >&2; exit 1; }
