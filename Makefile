# Every task of the project; `make help` lists them.

CARGO ?= cargo
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: help deps build demo test bench fmt clippy loom doc tidy clean install

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## Check for the tools that the other tasks need; as root, install what is missing
	@scripts/deps.sh

build: deps ## Build the release binary and the shim: target/release/tasuki
	$(CARGO) build --release -p tasuki -p tasuki-preload

demo: build ## Download 256 MiB with an unmodified curl over Tasuki, then over the kernel (root)
	scripts/demo.sh

test: ## Check and test everything: style, documentation, units, loom models, real processes
	scripts/test.sh

bench: build ## Measure throughput, round trips and CPU time beside the kernel's TCP (root)
	$(CARGO) run --release -p tasuki-benches -- compare

fmt: ## Format all Rust code
	$(CARGO) fmt --all

clippy: ## Lint everything; a warning is an error
	$(CARGO) clippy --workspace --all-targets -- -D warnings

loom: ## Check the models of ring and bell in all interleavings (bounded)
	scripts/loom.sh

doc: ## Build the documentation; a warning is an error
	scripts/doc.sh

tidy: ## Check sizes, safety policy and documents of the source tree
	$(CARGO) test -q -p tasuki-tests --test tidy

clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf target/loom

install: ## Install what `make build` built to PREFIX (default /usr/local)
	@test -e target/release/tasuki || { echo "nothing is built yet: run \`make build\` first"; exit 1; }
	install -D -m 755 target/release/tasuki $(DESTDIR)$(PREFIX)/bin/tasuki
	install -D -m 755 target/release/libtasuki_preload.so \
		$(DESTDIR)$(PREFIX)/lib/tasuki/libtasuki_preload.so
