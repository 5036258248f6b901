#!/bin/sh
# Before the files go. The package managers take the entries in hooks.d before the binary, as they remove files in the reverse order of
# their names: no container starts meanwhile with an entry whose binary is missing, which engines pass over without a word.
# deb calls it with "remove" (or "upgrade", among others), rpm with the number of versions that stay.
set -u

case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac

[ ! -d /run/systemd/system ] || systemctl --quiet --no-reload disable --now oci-cdi-hook-repair.timer || true

given=$(/usr/libexec/oci/hooks.d/oci-cdi-hook status 2>/dev/null)
if [ -n "$given" ]; then
	echo "oci-cdi-hook: these containers keep their devices until they stop; vendors' poststop hooks will not run then:"
	echo "$given" | sed 's/^/  /'
fi
exit 0
