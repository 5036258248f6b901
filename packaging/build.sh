#!/bin/bash
# Makes a .deb and an .rpm of what is built: build.sh VERSION [OUT]
#
# The same tree gives the same bytes: files and packages have the time SOURCE_DATE_EPOCH, by default that of the commit.
set -euo pipefail
cd "$(dirname "$0")"
go=${GO:-go}
described=${1:?VERSION}
out=$(realpath -m "${2:-../bin}")

epoch() {
	git log -1 --format=%ct 2>/dev/null || stat -c %Y ../CHANGELOG.md
}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(epoch)}
export SOURCE_DATE_EPOCH

# A tag is the version; so many commits after it come after it. What has no tag comes before every release, in the order of its time.
version() {
	case $1 in
	v[0-9]*-*-g*) echo "$1" | sed -E 's/^v//; s/-([0-9]+)-g([0-9a-f]+)/+\1.\2/; s/-dirty/.dirty/' ;;
	v[0-9]*) echo "$1" | sed -E 's/^v//; s/-/~/' ;;
	*) echo "0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(echo "$1" | tr - .)" ;;
	esac
}

# layout ROOT: the files as `make install` puts them, and what only packages have
layout() {
	local root=$1
	../hack/install.sh /usr "$root" >/dev/null
	gzip -9n "$root"/usr/share/man/man?/*
	install -d -m 0755 "$root/etc/oci-cdi-hook/conf.d"
	install -m 0644 ../LICENSE "$root/usr/share/doc/oci-cdi-hook/copyright"
	gzip -9nc ../CHANGELOG.md >"$root/usr/share/doc/oci-cdi-hook/changelog.gz"
	if [ "$format" = deb ]; then
		mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
	fi
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
PACKAGE_VERSION=$(version "$described")
export PACKAGE_ROOT PACKAGE_VERSION
mkdir -p "$out"
rm -f "$out"/oci-cdi-hook[-_]*.{deb,rpm}
for format in deb rpm; do
	PACKAGE_ROOT=$work/$format
	layout "$PACKAGE_ROOT"
	"$go" tool nfpm package --config nfpm.yaml --packager "$format" --target "$out/" >/dev/null
done
ls "$out"/oci-cdi-hook[-_]*.{deb,rpm}
