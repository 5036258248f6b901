#!/bin/bash
# Runs every native fuzz target of the product for FUZZTIME each.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${FUZZTIME:-1m}

found=0
for pkg in $("$go" list ./...); do
	# -list prints names, then an "ok" line
	for target in $("$go" test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		found=$((found + 1))
		echo "== $pkg $target, $time"
		"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
	done
done
if [ "$found" = 0 ]; then
	echo "no fuzz target found" >&2
	exit 1
fi
