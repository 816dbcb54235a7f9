# Each target works alone on a fresh clone and sets up what it needs; see scripts/setup.sh.

target_dir = $(or $(CARGO_TARGET_DIR),target)

.PHONY: build demo

# The `quire` command, optimised.
build:
	@scripts/setup.sh build
	cargo build --release --locked -p quire-cli

# The program as it is installed, built by what it does at work: see docs/INSTALLING.md. Builds everything twice.
.PHONY: dist
dist:
	@scripts/setup.sh dist
	scripts/dist.sh $(target_dir)

# The main job on real data: load, serve over HTTP, update, verify, freeze and query. Leaves the database to try more on.
demo: build
	@scripts/setup.sh packages
	@rm -rf $(target_dir)/demo-db
	$(target_dir)/release/quire demo --dir $(target_dir)/demo-db

# A table of MariaDB kept in step with a search index: rows, live changes, a kill, an ALTER TABLE, a reindex, searches.
.PHONY: demo-pipeline
demo-pipeline: build
	@scripts/setup.sh pipeline
	scripts/demo-pipeline.sh $(target_dir)/release/quire

# Load and get beside SQLite and fjall, on N generated documents: `make bench N=1000000`. Every benchmark writes what it measured
# to a file with RESULTS=docs/results/kv.json or another; `make docs` draws the plots and tables of these anew.
bench_flags = $(if $(RESULTS),--json $(abspath $(RESULTS)))
N ?= 200000
.PHONY: bench bench-documents bench-backup bench-overwrites
bench bench-documents:
	@scripts/setup.sh build
	cd bench && cargo run --release --locked -- documents --count $(N) $(bench_flags)

# What a backup costs those who write at full rate, in a database of N generated documents.
bench-backup:
	@scripts/setup.sh build
	cd bench && cargo run --release --locked -- backup --count $(N) $(bench_flags)

# Gets over the memcached protocol beside Debian's memcached: same client, same documents.
.PHONY: bench-memcached
bench-memcached: build
	@scripts/setup.sh memcached
	cd bench && cargo run --release --locked -- memcached --quire $(abspath $(target_dir))/release/quire $(bench_flags)

# Gets by key from memory, and with four times as much data as memory.
.PHONY: bench-gets bench-docstore
bench-gets:
	@scripts/setup.sh build
	cd bench && cargo run --release --locked -- gets --count $(N) $(bench_flags)

# Loading by the command beside the disk's own rate, then a day's updates while documents are read: `make bench-docstore N=10000000`.
bench-docstore: build
	cd bench && cargo run --release --locked -- docstore --count $(N) --quire $(abspath $(target_dir))/release/quire $(bench_flags)

# Keys and values beside LevelDB, RocksDB, fjall, LMDB, redb and Kyoto Cabinet: `make bench-kv N=10000000`. LIMIT=512 holds each within that
# many MiB of memory, the system's cache of its files included (as root); DEFAULTS=1 gives each its own defaults; READS=1000000 asks for
# fewer keys than there are; ROUNDS=4; ENGINES=quire,leveldb; MEMTABLE=64 and CACHE=256 are MiB.
kv_flags = --count $(N) $(if $(READS),--reads $(READS)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ENGINES),--engines $(ENGINES)) \
	$(if $(MEMTABLE),--memtable $(MEMTABLE)) $(if $(CACHE),--cache $(CACHE)) $(if $(LIMIT),--limit $(LIMIT)) $(if $(DEFAULTS),--defaults)
.PHONY: bench-kv
bench-kv:
	@scripts/setup.sh kv
	$(MAKE) -C bench/peers/kv
	cd bench && cargo run --release --locked -- kv $(kv_flags) $(bench_flags)

# What overwriting N generated documents costs: the room that the log takes, and reads beside its compaction.
bench-overwrites:
	@scripts/setup.sh build
	cd bench && cargo run --release --locked -- overwrites --count $(N) $(bench_flags)

# A follower of a leader that takes 20,000 updates a second: how far it is behind, and how fast it catches up.
.PHONY: bench-follow
bench-follow: build
	cd bench && cargo run --release --locked -- follow --count $(N) --quire $(abspath $(target_dir))/release/quire $(bench_flags)

# A partition of N adverts is split while it is written and read: `make bench-split N=5000000`.
.PHONY: bench-split
bench-split:
	cd bench && cargo run --release --locked -- split --count $(N) $(bench_flags)

# Eight partitions are merged into two in the same way: `make bench-merge N=1000000`.
.PHONY: bench-merge
bench-merge:
	cd bench && cargo run --release --locked -- split --from 8 --partitions 2 --count $(N) $(bench_flags)

# Frozen partitions of N documents: counts by value beside Lucene, SQLite and H2, then car adverts in 1,024 of them beside
# Lucene: `make bench-snapshot N=1000000`.
.PHONY: bench-snapshot
bench-snapshot:
	@scripts/setup.sh snapshot
	cd bench && mvn -q -B -f peers/pom.xml -Dpeers.target=$(CURDIR)/bench/target/peers package
	cd bench && cargo run --release --locked -- snapshot --count $(N) --peers target/peers $(bench_flags)
	cd bench && cargo run --release --locked -- snapshot-cars --count $(N) --peers target/peers $(if $(RESULTS),--json $(abspath $(RESULTS:.json=-cars.json)))

# The live index beside CRoaring, RocksDB, Tantivy, Lucene and OpenSearch: `make bench-converged N=1000000`. PARTS=ids,live and
# ENGINES=quire,tantivy choose some of it; without JVM=1 no peer on the JVM is fetched or measured. IDS=5000000 are the documents
# of the part `ids`; PAPERS=FILE loads papers of arXiv too.
converged_native = quire,quire-none,croaring,rocksdb-clustered,rocksdb-keys,tantivy
converged_engines = $(or $(ENGINES),$(converged_native)$(if $(JVM),$(comma)lucene$(comma)lucene-fresh$(comma)opensearch))
converged_flags = --peers $(converged_engines) $(if $(PARTS),--parts $(PARTS)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	$(if $(IDS),--ids $(IDS)) $(if $(PAPERS),--papers $(abspath $(PAPERS))) --quire $(abspath $(target_dir))/dist/quire
.PHONY: bench-converged
bench-converged: dist
	@scripts/setup.sh converged
	$(MAKE) -C bench/peers/kv converged
ifneq ($(findstring lucene,$(converged_engines))$(findstring opensearch,$(converged_engines)),)
	@scripts/setup.sh snapshot
	cd bench && mvn -q -B -f peers/pom.xml -Dpeers.target=$(CURDIR)/bench/target/peers package
endif
ifneq ($(findstring opensearch,$(converged_engines)),)
	bench/peers/opensearch.sh install bench/target/opensearch
endif
	cd bench && cargo run --release --locked --features peers -- converged --count $(N) $(converged_flags) $(bench_flags)

# Wide documents on throttled disks: column groups, JBOD, tiers, the I/O manager, coprocessors; as root. PARTS=scan,jbod chooses some
# of it; ROUNDS=3. The disks' images lie below DIR, in memory by default, so that what else the machine's disk does counts for nothing.
wide_flags = $(if $(PARTS),--parts $(PARTS)) $(if $(ROUNDS),--rounds $(ROUNDS)) --dir $(or $(DIR),/dev/shm/quire-bench-wide) \
	--quire $(abspath $(target_dir))/release/quire
.PHONY: bench-wide
bench-wide: build
	@scripts/setup.sh wide
	$(MAKE) -C bench/peers/kv wide
	$(MAKE) -C bench/disks
	cd bench && cargo run --release --locked -- wide $(wide_flags) $(bench_flags)

comma = ,

# Runs a command and says how long it took.
timed = @echo '$(1)'; begun=$$(date +%s); $(1) && echo "took $$(($$(date +%s) - begun)) s"

# Every decoder fed with damaged and made-up bytes, FUZZ_SECONDS each, two at a time, on stable Rust. What fails is kept in
# fuzz/corpus. On nightly Rust, with cargo-fuzz: `cargo +nightly fuzz run log`, or another name of fuzz/fuzz_targets.
.PHONY: fuzz
fuzz: export FUZZ_SECONDS ?= 60
fuzz:
	@scripts/setup.sh build
	cargo test --locked -p quire-tests --test fuzz

# What is `unsafe`, under Miri, but for maps of files, which it can't run: `rustup +nightly component add miri rust-src` gets it.
.PHONY: miri
miri:
	cargo +nightly miri test --locked -p quire-env --lib -- prefetch crew

# The documentation as a site, target/site, with links checked. mdbook is built once, where it is missing.
.PHONY: docs
docs: export QUIRE_TOOLS = $(abspath $(target_dir))/tools
docs: export PATH := $(abspath $(target_dir))/tools/bin:$(PATH)
docs:
	@scripts/setup.sh docs
	python3 scripts/plots.py
	python3 scripts/diagrams.py
	mdbook build --dest-dir $(abspath $(target_dir))/site
	python3 scripts/book.py --check $(target_dir)/site

# Everything that must hold: form, lints, every test, the documentation.
.PHONY: test
test: export RUSTDOCFLAGS = -D warnings
test: export FUZZ_SECONDS ?= 6
test:
	@scripts/setup.sh test
	$(call timed,cargo fmt --all --check)
	$(call timed,cargo test --locked -p quire-rules)
	$(call timed,cargo clippy --workspace --all-targets --locked -- -D warnings)
	$(call timed,cargo test --workspace --locked)
	@$(MAKE) --no-print-directory test-threads
	$(call timed,cargo doc --workspace --no-deps --locked)

# `quire pipe` and `quire reindex` against a real search server, killed again and again: `make test-pipeline URL=http://HOST:9200`; without a URL
# OpenSearch is fetched from Maven Central and started on loopback.
.PHONY: test-pipeline
test-pipeline:
	@scripts/setup.sh build
	cargo build --locked -p quire-cli
	scripts/test-pipeline.sh $(target_dir) $(URL)

# The Debian package of the server, in target/package: an optimised program without symbols, its manual, completions, a systemd unit.
.PHONY: package test-package
package: dist
	QUIRE_BUILT=yes scripts/package.sh $(target_dir)

# The package is installed, started, queried, upgraded, removed and purged in a scratch root; as root. It has the program of the
# profile `test`, or of PROFILE=dist.
test-package:
	@scripts/setup.sh build
	scripts/test-package.sh $(target_dir) $(PROFILE)

# What a change must pass on the way: form, lints, the rules of the sources, the tests of the engine's crates.
.PHONY: check
check:
	@scripts/setup.sh build
	$(call timed,cargo fmt --all --check)
	$(call timed,cargo test --locked -p quire-rules)
	$(call timed,cargo clippy --workspace --all-targets --locked -- -D warnings)
	$(call timed,cargo test --locked --workspace $(patsubst %,--exclude %,$(outer)))

# Packages that are not the engine's.
outer = quire-server quire-cli quire-tests quire-examples

# What threads share, under checkers that decide which goes on and what it sees.
.PHONY: test-threads
test-threads:
	@scripts/setup.sh build
	$(call timed,cargo test --locked -p quire-lsm --features loom --lib -- checked)
	$(call timed,cargo test --locked -p quire-lsm -p quire-store --features quire-lsm/shuttle$(comma)quire-store/shuttle --lib -- checked)

# Kills, power cuts, failing system calls, full and slow disks on the real machine: `make torture MINUTES=30`. As root
# all of it; else what can be had. A round again: `make torture KIND=ext4 SEED=123 ROUNDS=1`. `JSON=1` for the summary as JSON.
MINUTES ?= 10
torture_flags = --minutes $(MINUTES) --dir $(target_dir)/torture $(if $(KIND),--kind $(KIND)) $(if $(SEED),--seed $(SEED)) \
	$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json)
.PHONY: torture
torture:
	@scripts/setup.sh torture
	cargo build --release --locked -p quire-cli
	cargo build --release --locked -p quire-tests --bin torture
	$(target_dir)/release/torture --quire $(target_dir)/release/quire $(torture_flags)
