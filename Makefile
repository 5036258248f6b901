# oci-cdi-hook. `make help` lists what there is.

GO      ?= go
PREFIX  ?= /usr
DESTDIR ?=

# Outside a checkout, or where git does not trust it, the version is "devel".
VERSION ?= $(or $(shell git describe --tags --always --dirty 2>/dev/null),devel)
COMMIT  ?= $(or $(shell git rev-parse HEAD 2>/dev/null),unknown)

GOBUILD := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
BIN     := bin/oci-cdi-hook

export GO FUZZTIME

.DEFAULT_GOAL := build

.PHONY: help
help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r t d; do printf '  %-18s %s\n' "$$t" "$$d"; done

# Always run: the go command knows better than make what has changed.
.PHONY: build
build: check-go ## The static binary, bin/oci-cdi-hook
	$(GOBUILD) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/oci-cdi-hook

.PHONY: check-go
check-go:
	@hack/check-go.sh

.PHONY: demo
demo: build ## A container gets a device through the hook: before and after (root)
	@demo/demo.sh

.PHONY: test
test: check-go ## All tests; installs what they need (INSTALL=0: only names it)
	@hack/test.sh all

.PHONY: test-unit
test-unit: check-go ## Tests of the product's own packages
	@hack/test.sh unit

.PHONY: test-integration
test-integration: check-go ## Tests with real runtimes and engines (root)
	@hack/test.sh integration

.PHONY: test-long
test-long: check-go ## All tests, those of faults, load, races and versions in full (root)
	@hack/test.sh long

.PHONY: test-gpu
test-gpu: build ## A container in which a real NVIDIA driver starts (root, a GPU)
	@hack/test-gpu.sh

.PHONY: lint
lint: check-go ## golangci-lint, go vet, gofmt, shellcheck
	@hack/lint.sh

.PHONY: fuzz
fuzz: check-go ## Every fuzz target for FUZZTIME (1m)
	@hack/fuzz.sh

.PHONY: bench
bench: build ## What it costs, as ratios, each with its target (root)
	@bench/bench.sh

.PHONY: bench-docs
bench-docs: build ## The same, into docs/performance.md and its plot
	@DOCS=1 bench/bench.sh

.PHONY: install
install: ## The hook and its hooks.d entries, under $(DESTDIR)$(PREFIX)
	@hack/install.sh '$(PREFIX)' '$(DESTDIR)'

.PHONY: uninstall
uninstall: ## The reverse; the hooks.d entries go first
	@hack/install.sh --remove '$(PREFIX)' '$(DESTDIR)'

.PHONY: man
man: check-go ## The man pages, in bin/man
	@mkdir -p bin/man
	$(GO) run -C packaging ./man ../docs ../bin/man

.PHONY: packages
packages: build man ## The .deb and the .rpm, in bin
	@packaging/build.sh '$(VERSION)'

.PHONY: clean
clean: ## Build outputs; caches outside the tree stay
	rm -rf bin
