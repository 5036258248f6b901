#!/bin/bash
# gofmt, tidy go.mod files, go vet, golangci-lint and shellcheck, over each module of the project but the peers of the integration tests.
#
# golangci-lint is built once from its Go module, into a cache outside the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
version=v2.15.0
cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/oci-cdi-hook
# The compiler is part of the name: golangci-lint refuses code of a Go newer than the one that built it.
bin=$cache/bin/golangci-lint-$version-$("$go" env GOVERSION)

hack/install-test-deps.sh lint

if ! [ -x "$bin/golangci-lint" ]; then
	echo "== building golangci-lint $version, once"
	mkdir -p "$bin"
	GOBIN=$bin GOFLAGS='' "$go" install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
fi

# Folders of Go modules: all but peers, which are other people's programs with a line or two of ours.
mapfile -t modules < <(git ls-files --cached --others --exclude-standard -- 'go.mod' '*/go.mod' | grep -v '/peers/' | xargs -n1 dirname)

failed=()
step() {
	local name=$1
	shift
	echo "== $name"
	"$@" || failed+=("$name")
}

format() {
	local out
	out=$(gofmt -l -s .)
	[ -z "$out" ] || { printf 'not gofmt -s:\n%s\n' "$out"; return 1; }
}

in_module() {
	local dir=$1
	shift
	(cd "$dir" && "$@")
}

scripts() {
	git grep -lI --untracked -E '^#!/(bin/(ba)?sh|usr/bin/env (ba)?sh)' -- ':!*.go' ':!*.md' | xargs -r shellcheck
}

step gofmt format
for m in "${modules[@]}"; do
	step "go.mod, $m" in_module "$m" "$go" mod tidy -diff
	step "go vet, $m" in_module "$m" "$go" vet ./...
	step "golangci-lint, $m" in_module "$m" "$bin/golangci-lint" run --config "$PWD/.golangci.yml" ./...
done
step shellcheck scripts

if [ ${#failed[@]} != 0 ]; then
	printf 'lint: %s: not clean\n' "${failed[@]}" >&2
	exit 1
fi
echo "lint: clean"
