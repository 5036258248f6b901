#!/bin/sh
# Puts the hook, its hooks.d entries and what is beside them in place: install.sh PREFIX [DESTDIR], or with --remove first, takes them away.
# Packages are made of the same files.
#
# The binary goes first and leaves last: engines drop a hook without a word while its binary is missing. Every file appears by rename, so
# that a container that starts meanwhile sees the old one or the new one.
set -eu
cd "$(dirname "$0")/.."

remove=
if [ "${1:-}" = --remove ]; then
	remove=yes
	shift
fi
prefix=${1:?PREFIX}
destdir=${2:-}

hook=$prefix/libexec/oci/hooks.d/oci-cdi-hook
link=$prefix/bin/oci-cdi-hook # engines name the hook by its place, people by its name
shared=$prefix/share/containers/oci/hooks.d
doc=$prefix/share/doc/oci-cdi-hook
# podman's own stage is in no folder that CRI-O or podman build read: they refuse a stage that they do not know.
precreate=$prefix/share/containers/oci-cdi-hook/precreate.d
bash=$prefix/share/bash-completion/completions/oci-cdi-hook
zsh=$prefix/share/zsh/site-functions/_oci-cdi-hook
fish=$prefix/share/fish/vendor_completions.d/oci-cdi-hook.fish
man5=$prefix/share/man/man5/oci-cdi-hook-config.toml.5
man8=$prefix/share/man/man8/oci-cdi-hook.8
units=$prefix/lib/systemd/system

case $prefix$destdir in
*[!A-Za-z0-9/._+@~-]*) echo "install: PREFIX and DESTDIR may have letters, digits and /._+@~- only" >&2; exit 2 ;;
esac
case $prefix in
/*) ;;
*) echo "install: PREFIX '$prefix' is not an absolute path" >&2; exit 2 ;;
esac

# put MODE FROM TO
put() {
	install -d -m 0755 "$destdir$(dirname "$3")"
	new=$destdir$(dirname "$3")/.$(basename "$3").new
	install -m "$1" "$2" "$new"
	mv -f "$new" "$destdir$3"
	echo "installed $destdir$3"
}

# entry FROM FOLDER: what names the hook by its place
entry() {
	sed "s|/usr/libexec/oci/hooks.d/oci-cdi-hook|$hook|" "$1" >"$tmp"
	put 0644 "$tmp" "$2/$(basename "$1")"
}

# completion SHELL TO
completion() {
	bin/oci-cdi-hook completion "$1" >"$tmp"
	put 0644 "$tmp" "$2"
}

# page TO: as far as `make man` has been run
page() {
	[ ! -e "bin/man/$(basename "$1")" ] || put 0644 "bin/man/$(basename "$1")" "$1"
}

# manager VERB...: systemd, where it runs and this is its host
manager() {
	[ -n "$destdir" ] || [ ! -d /run/systemd/system ] || systemctl --quiet "$@" || true
}

if [ -n "$remove" ]; then
	manager --no-reload disable --now oci-cdi-hook-repair.timer
	for f in oci-hooks.d/precreate/*.json; do rm -f "$destdir$precreate/$(basename "$f")"; done
	for f in oci-hooks.d/*.json; do rm -f "$destdir$shared/$(basename "$f")"; done
	for f in packaging/systemd/*; do rm -f "$destdir$units/$(basename "$f")"; done
	manager daemon-reload
	for f in "$bash" "$zsh" "$fish" "$man5" "$man8" "$doc/config.toml.example" "$doc/json.md" "$doc/podman.md"; do rm -f "$destdir$f"; done
	rm -f "$destdir$link" "$destdir$hook"
	# ours alone; not there, or somebody else's files in it: fine
	[ -n "$destdir" ] || rm -f /run/oci-cdi-hook/failures
	[ -n "$destdir" ] || rmdir /run/oci-cdi-hook 2>/dev/null || true
	rmdir "$destdir$doc" "$destdir$precreate" "$destdir$(dirname "$precreate")" 2>/dev/null || true
	exit 0
fi

[ -x bin/oci-cdi-hook ] || { echo "install: no bin/oci-cdi-hook: run make build first" >&2; exit 1; }
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
put 0755 bin/oci-cdi-hook "$hook"
for f in oci-hooks.d/*.json; do entry "$f" "$shared"; done
for f in oci-hooks.d/precreate/*.json; do entry "$f" "$precreate"; done
install -d -m 0755 "$destdir$(dirname "$link")"
ln -sfn ../libexec/oci/hooks.d/oci-cdi-hook "$destdir$link"
for f in packaging/systemd/*; do entry "$f" "$units"; done
completion bash "$bash"
completion zsh "$zsh"
completion fish "$fish"
page "$man5"
page "$man8"
put 0644 hook/settings/example.toml "$doc/config.toml.example"
put 0644 docs/json.md "$doc/json.md"
put 0644 docs/podman.md "$doc/podman.md"
manager daemon-reload
