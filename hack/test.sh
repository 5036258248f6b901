#!/bin/bash
# Runs the tests: test.sh all|unit|integration|long
#
# "long" is "all" with OCI_CDI_HOOK_LONG=1, which makes the tests of faults, load, races and many versions use their full forms.
#
# Packages that integration needs are installed first (see install-test-deps.sh). Without root there are no real containers: the unit tests
# run and what is left out is said.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
root=$PWD

# -v, less what passed: a skip and its reason must not go unseen.
go_test() {
	"$go" test -v "$@" 2>&1 | grep --line-buffered -vE '^(=== |PASS$| *--- PASS: |\?  )'
}

unit() {
	echo "== unit tests"
	go_test "$@" ./...
}

integration() {
	echo "== integration tests: real runtimes and engines"
	make --no-print-directory build
	(cd integration && OCI_CDI_HOOK=$root/bin/oci-cdi-hook go_test -count=1 -timeout "$timeout" "$@" ./...)
}

left_out() {
	echo "== left out: $1"
}

mode=${1:?all, unit, integration or long}
shift
timeout=60m
if [ "$mode" = long ]; then
	export OCI_CDI_HOOK_LONG=1
	timeout=6h
	mode=all
fi
case $mode in
unit)
	unit "$@"
	;;
integration)
	[ "$(id -u)" = 0 ] || { echo "integration tests make real containers and need root" >&2; exit 1; }
	hack/install-test-deps.sh test
	integration "$@"
	;;
all)
	if [ "$(id -u)" != 0 ]; then
		unit "$@"
		left_out "the integration tests, which make real containers, and what skipped above: run as root for them"
		exit 0
	fi
	hack/install-test-deps.sh test
	unit "$@"
	integration "$@"
	;;
*)
	echo "test.sh: $mode: all, unit, integration or long" >&2
	exit 2
	;;
esac
