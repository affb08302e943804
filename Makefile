# Every task of the project; `make help` lists them.

CARGO ?= cargo
PREFIX ?= /usr/local
SEEDS ?= 10000
TARGET := $(or $(CARGO_TARGET_DIR),target)
TO = $(DESTDIR)$(PREFIX)
# Installed in their folders, so that the links between them hold.
DOCUMENTS := $(wildcard *.md LICENSE-* docs/*.md docs/*/*.md docs/*/*.svg docs/*/*/*.md docs/*/*/*.html docs/*/*/*.json examples/*)

.DEFAULT_GOAL := help
.PHONY: help deps build demo demo-storage test test-lab test-programs sim conformance bench bench-applications bench-peers bench-storage bench-instructions scale fmt clippy loom fuzz fuzz-hostile soak doc tidy man clean install uninstall

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## Check for the tools that all tasks need; as root, install what is missing
	@scripts/deps.sh

build: ## Build the release binary, the shim and what measures: target/release/tasuki
	@scripts/deps.sh build
	$(CARGO) build --release -p tasuki -p tasuki-preload -p tasuki-c -p tasuki-nbdkit \
		-p tasuki-benches --lib --bin tasuki --bin tasuki-bench

demo: ## Download 256 MiB with an unmodified curl over Tasuki, then over the kernel (root)
	@scripts/deps.sh demo
	$(CARGO) build --release -p tasuki -p tasuki-preload
	scripts/demo.sh

demo-storage: build ## Make and check ext4 on a disk between two instances, over each transport (root)
	@scripts/deps.sh demo-storage
	scripts/demo-storage.sh

test: ## Check and test everything: style, documentation, units, loom models, real processes
	scripts/test.sh

test-programs: build ## Test servers and tools that people run, all tests, in modes split and fused (root)
	@scripts/deps.sh programs
	scripts/real-processes.sh programs

test-lab: build ## Measure the effects of the lab's parameters, and memory: a table for a reader (root)
	@scripts/deps.sh programs
	scripts/test-lab.sh

sim: ## Run 10,000 seeded worlds of each kind around the core; SEEDS=N for another number
	$(CARGO) run --release -p tasuki-sim -- --count $(SEEDS)

conformance: ## Compare packetdrill scripts with the lists: ours, [SCRIPTS=folder] [PACKETDRILL=binary]
	$(CARGO) build -q -p tasuki-packetdrill -p tasuki-packetdrill-plugin
	@$(TARGET)/debug/conformance --own $(CONFORMANCE) $(SCRIPTS)

bench: build ## Measure everything in docs/performance.md, about 22 minutes (root): [BENCH=--quick]
	@scripts/deps.sh bench
	$(CARGO) run --release -p tasuki-benches -- all --tasuki $(TARGET)/release/tasuki --out $(TARGET)/bench.json $(BENCH)

bench-applications: build ## Measure programs' own benchmarks in both roles, about 25 minutes (root): [APPLICATIONS="--only redis,iperf3"]
	@scripts/deps.sh applications
	$(CARGO) run --release -p tasuki-benches -- applications --tasuki $(TARGET)/release/tasuki $(APPLICATIONS)

PEERS ?= $(TARGET)/peers
bench-peers: build ## Measure smoltcp, lwIP and gVisor's netstack beside Tasuki and the kernel (root)
	@scripts/deps.sh demo
	scripts/bench-peers.sh $(PEERS) $(TARGET)/release/tasuki

bench-storage: build ## Measure targets and initiators beside tgt and libiscsi, about an hour (root): [STORAGE=--quick]
	@scripts/deps.sh bench-storage
	$(CARGO) run --release -p tasuki-benches -- storage --tasuki $(TARGET)/release/tasuki --out $(TARGET)/bench-storage.json $(STORAGE)

bench-instructions: ## Count the instructions of all paths with valgrind: [INSTRUCTIONS="--check FILE"]
	@scripts/deps.sh instructions
	$(CARGO) run --release -p tasuki-benches --features valgrind --bin tasuki-instructions -- count $(INSTRUCTIONS)

scale: ## Measure the core with 100,000 idle connections and under 1,000,000 SYNs
	$(CARGO) run --release -p tasuki-benches --bin tasuki-scale -- idle
	$(CARGO) run --release -p tasuki-benches --bin tasuki-scale -- flood

fmt: ## Format all Rust code
	$(CARGO) fmt --all

clippy: ## Lint everything; a warning is an error
	$(CARGO) clippy --workspace --all-targets -- -D warnings

loom: ## Check the models of ring and doorbell in all interleavings (bounded)
	scripts/loom.sh

FUZZ ?= 60
fuzz: ## Run the fuzz targets, two at a time: [FUZZ=seconds for each] (nightly, cargo-fuzz)
	scripts/fuzz.sh $(FUZZ)

SECONDS ?= 3600
SEED ?= 1
MODE ?= split
fuzz-hostile: build ## Let random hostile clients loose on an instance (root): [SECONDS=3600] [SEED=1] [MODE=fused]
	TASUKI_BIN=$$(realpath $(TARGET)/release/tasuki) TASUKI_TEST_MODE=$(MODE) TASUKI_FUZZ_SECONDS=$(SECONDS) \
		TASUKI_FUZZ_SEED=$(SEED) $(CARGO) test -p tasuki-tests --test fuzz_hostile -- --nocapture

SOAK ?= 1200
soak: build ## nginx with reloads, redis with saves, PostgreSQL and iperf3 under load in one instance (root): [SOAK=1200 seconds] [MODE=fused]
	TASUKI_BIN=$$(realpath $(TARGET)/release/tasuki) TASUKI_TEST_MODE=$(MODE) TASUKI_SOAK_SECONDS=$(SOAK) \
		$(CARGO) test -p tasuki-tests --test soak -- --ignored --nocapture

doc: ## Build the documentation; a warning is an error
	scripts/doc.sh

tidy: ## Check modules, sizes, safety policy and documents of the source tree, and print figures
	$(CARGO) test -q -p tasuki-tests --test tidy -- --nocapture

man: build ## Write manual pages and completion scripts to target/share
	rm -rf target/share
	$(TARGET)/release/tasuki manual target/share

clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf target/loom

NBDKIT_PLUGINS ?=
install: ## Install what `make build` built, with manual pages, to PREFIX (default /usr/local): [NBDKIT_PLUGINS=directory of nbdkit's plug-ins]
	@test -e $(TARGET)/release/tasuki || { echo "nothing is built yet: run \`make build\` first"; exit 1; }
	install -D -m 755 $(TARGET)/release/tasuki $(TO)/bin/tasuki
	install -D -m 644 $(TARGET)/release/libtasuki_preload.so $(TO)/lib/tasuki/libtasuki_preload.so
	install -D -m 755 $(TARGET)/release/tasuki-bench $(TO)/lib/tasuki/tasuki-bench
	install -D -m 755 $(TARGET)/release/libtasuki_nbdkit.so $(TO)/lib/tasuki/nbdkit-tasuki-plugin.so
	@[ -z "$(NBDKIT_PLUGINS)" ] || { set -x; install -d $(DESTDIR)$(NBDKIT_PLUGINS) && ln -sf $(PREFIX)/lib/tasuki/nbdkit-tasuki-plugin.so $(DESTDIR)$(NBDKIT_PLUGINS); }
	install -D -m 755 $(TARGET)/release/libtasuki.so $(TO)/lib/libtasuki.so
	install -D -m 644 $(TARGET)/release/libtasuki.a $(TO)/lib/libtasuki.a
	install -D -m 644 crates/c/include/tasuki.h $(TO)/include/tasuki.h
	for file in $(DOCUMENTS); do install -D -m 644 $$file $(TO)/share/doc/tasuki/$$file || exit 1; done
	umask 022 && $(TO)/bin/tasuki manual $(TO)/share

uninstall: ## Remove what `make install` installed
	rm -rf $(TO)/bin/tasuki $(TO)/lib/tasuki $(TO)/lib/libtasuki.so $(TO)/lib/libtasuki.a \
		$(TO)/include/tasuki.h $(TO)/share/doc/tasuki $(TO)/share/man/man1/tasuki.1 \
		$(TO)/share/man/man1/tasuki-*.1 $(TO)/share/man/man1/nbdkit-tasuki-plugin.1 \
		$(TO)/share/bash-completion/completions/tasuki \
		$(TO)/share/zsh/site-functions/_tasuki $(TO)/share/fish/vendor_completions.d/tasuki.fish
	@[ -z "$(NBDKIT_PLUGINS)" ] || rm -f $(DESTDIR)$(NBDKIT_PLUGINS)/nbdkit-tasuki-plugin.so
