#!/bin/sh
# Says what to do where Go is missing or older than go.mod asks for.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
want=$(sed -n 's/^go //p' go.mod)
if ! command -v "$go" >/dev/null; then
	echo "Go $want or newer is needed and there is no \"$go\" on PATH: see https://go.dev/dl/" >&2
	exit 1
fi
# Asked here, inside the module, so that a go command that may fetch the toolchain of go.mod has done so.
have=$("$go" env GOVERSION)
if [ "$(printf '%s\n%s\n' "$want" "${have#go}" | sort -V | head -n1)" != "$want" ]; then
	echo "Go $want or newer is needed, \"$go\" is $have: see https://go.dev/dl/" >&2
	exit 1
fi
