#!/bin/sh
# After the files are in place: says which spec files of this host would be refused. Nothing of that fails the installation.
# deb calls it with "configure" (among others), rpm with the number of installed versions.
set -u

case ${1:-} in
configure | [1-9]*) ;;
*) exit 0 ;;
esac

# The timer that repairs stays as it was: at first disabled.
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true

hook=/usr/libexec/oci/hooks.d/oci-cdi-hook
verdict=$("$hook" validate 2>/dev/null)
if [ $? = 1 ]; then
	echo "oci-cdi-hook: containers cannot have what these CDI spec files say:"
	echo "$verdict" | sed 's/^/  /'
	echo "oci-cdi-hook: \"oci-cdi-hook validate\" says this again; \"oci-cdi-hook doctor\" looks at the rest of the host"
fi
exit 0
