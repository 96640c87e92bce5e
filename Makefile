# `make demo` and `make test` do all set-up on a fresh machine. Everything lands in .venv/ and target/.
# The tests start hundreds of Pythons: compiled sources are kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE
# Ours asks one question, then calls maturin: tools/backend/.
export MATURIN_NO_MISSING_BUILD_BACKEND_WARNING := 1
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AGENT := python/virtlab/_bin/virtlab-agent
TRIPLE := $(shell uname -m)-unknown-linux-gnu
PREFIX ?= $(HOME)/.local
HOME_OF_INSTALL := $(PREFIX)/share/virtlab/installed
# The crates that know no clock and do no I/O: all but the two programs, and two parts of the agent.
PURE := --workspace --exclude virtlab-agent --exclude virtlab-leader --exclude virtlab-py --exclude virtlab-system
PY_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock python/virtlab/plan/blocks.json python/virtlab/catalogue/workloads/defaults.json

.PHONY: help demo sooner quick test variants setup platforms check-tools check-needed native agent environment lint unit xen faults stores kill fuzz libfuzzer rust-test bench pairs predictions wheel manylinux wheel-here arm64 arm64-wheel arm64-test arm64-machine image wheel-test release-test bounds oracles alarms demos install uninstall clean lock site

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

demo:  ## build what runs, then `virtlab demo --real`: simulated and real packets, verdicts, the report's path
	@$(PYTHON) tools/check_tools.py --install --needed
	@# at once: both are compiled, each with crates that one processor compiles alone, while packages come
	@$(MAKE) --no-print-directory -j3 $(if $(wildcard $(VENV)/.compiled),agent native,sooner)
	@# a refuted (1) or undecided (4) claim is an answer of the experiment, not a failure of the demonstration
	$(BIN)/virtlab demo --real || { code=$$?; [ $$code -eq 1 ] || [ $$code -eq 4 ]; }

quick: $(VENV)/.installed native  ## before every commit: ruff, import rules, all tests without process, world or image but the slow ones
	$(BIN)/ruff format --check -q python tests benches tools
	$(BIN)/ruff check -q python tests benches tools
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache
	PROPTEST_RNG_SEED=20 cargo test --locked -q $(PURE)
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m tools.shares -m "not slow and not process" --durations 5 --durations-min 0.5 tests/unit tests/theory tests/attacks tests/fuzz python

test: setup rust-test unit  ## set up and run all tests

setup: check-tools  ## environment, agent, extension module
	@$(MAKE) --no-print-directory -j3 agent environment

environment: $(VENV)/.installed $(VENV)/.compiled
	@# maturin calls pip, which is replaced before
	@$(MAKE) --no-print-directory native

platforms: setup $(VENV)/junit-10.xsd  ## what virtual machines, containers and switches are made with: packages, and images to boot
	@$(PYTHON) tools/check_tools.py --install --platforms
	$(BIN)/virtlab image build --kernel all

# The schema by which Jenkins reads JUnit XML: of its xunit plug-in, and among the sources of pytest.
$(VENV)/junit-10.xsd: requirements-dev.lock $(VENV)/.needed
	rm -rf $(VENV)/sources
	$(BIN)/python -m pip download -q --disable-pip-version-check --no-deps --no-binary pytest --require-hashes \
		-r <(awk '/^pytest==/, !/\\$$/' requirements-dev.lock) -d $(VENV)/sources
	tar -xzOf $(VENV)/sources/pytest-*.tar.gz --wildcards '*/junit-10.xsd' >$@.new
	rm -r $(VENV)/sources
	mv $@.new $@

check-tools:
	@$(PYTHON) tools/check_tools.py --install

check-needed:
	@$(PYTHON) tools/check_tools.py --install --needed

# Alone, so that it can build the extension module while the rest comes.
$(VENV)/.maturin: requirements-dev.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r <(awk '/^maturin==/, !/\\$$/' requirements-dev.lock)
	touch $@

# What running virtlab needs, and maturin. Tests need more: `.installed`.
$(VENV)/.needed: requirements.lock $(VENV)/.maturin
	@# Python compiles what is imported, and not all of scipy
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

$(VENV)/.installed: requirements-dev.lock $(VENV)/.needed
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $@

agent: $(AGENT)

BUILD_AGENT := RUSTFLAGS="-C target-feature=+crt-static -C force-unwind-tables=no -C relro-level=partial" cargo build --locked --release -q --target $(TRIPLE) -p virtlab-agent
BUILT_AGENT := $(CURDIR)/target/$(TRIPLE)/release/virtlab-agent

$(AGENT): $(PY_SOURCES)
	$(BUILD_AGENT)
	mkdir -p $(@D)
	@# what debuggers read is four fifths of it, and stays in a file beside
	objcopy --only-keep-debug $(BUILT_AGENT) $(@D)/virtlab-agent.debug
	cd $(@D) && objcopy --strip-all --add-gnu-debuglink=virtlab-agent.debug $(BUILT_AGENT) virtlab-agent.new
	mv $@.new $@

native: $(VENV)/.native

DEVELOP := VIRTUAL_ENV=$(abspath $(VENV)) PATH=$(abspath $(BIN)):$$PATH $(BIN)/maturin develop -q --profile shipped --locked

$(VENV)/.compiled: $(PY_SOURCES) pyproject.toml $(VENV)/.maturin
	$(DEVELOP) --skip-install >$(VENV)/maturin.log
	touch $@

$(VENV)/.native: $(VENV)/.compiled $(VENV)/.needed
	$(DEVELOP) >>$(VENV)/maturin.log
	touch $@

# What the demonstration needs in an empty clone, a third sooner: no crate is optimised together with others. All else
# builds it as it is shipped.
sooner: target/.agent-sooner $(VENV)/.native-sooner

APART := LTO=off CODEGEN_UNITS=16 DEBUG=false

target/.agent-sooner: $(PY_SOURCES)
	$(APART:%=CARGO_PROFILE_RELEASE_%) $(BUILD_AGENT) --config profile.release.package.virtlab-agent.codegen-units=16
	mkdir -p $(dir $(AGENT))
	objcopy --strip-all $(BUILT_AGENT) $(AGENT)
	touch -d @0 $(AGENT)  # it is older than its sources
	touch $@

$(VENV)/.compiled-sooner: $(PY_SOURCES) pyproject.toml $(VENV)/.maturin
	$(APART:%=CARGO_PROFILE_SHIPPED_%) $(DEVELOP) --skip-install >$(VENV)/maturin.log
	touch $@

$(VENV)/.native-sooner: $(VENV)/.compiled-sooner $(VENV)/.needed
	$(APART:%=CARGO_PROFILE_SHIPPED_%) $(DEVELOP) >>$(VENV)/maturin.log
	touch $@

rust-test:
	@# generated cases are the same every time: what fails has a cause in what was changed
	PROPTEST_RNG_SEED=20 cargo test --locked --workspace --exclude virtlab-py -q

xen: setup  ## Xen on demand: hypervisor and tools into the cache, and the tests that boot them (experimental, some minutes)
	$(BIN)/virtlab image build --kernel xen
	VIRTLAB_TEST_XEN=1 $(BIN)/python -m pytest -v tests/testbed/test_xen_domains.py tests/testbed/test_xen_nothing_left.py

faults: setup  ## moves of machines that are broken in every phase, once and again, on demand (ten to twenty minutes)
	VIRTLAB_TEST_FAULTS=1 $(BIN)/python -m pytest -v tests/testbed/test_migration_faults.py tests/testbed/test_migration_network.py

stores: setup  ## Swift and Gluster on demand: their packages, and the tests that run them in guests (root; eight to twelve minutes)
	@$(PYTHON) tools/check_tools.py --install --stores
	VIRTLAB_TEST_STORES=1 $(BIN)/python -m pytest -v -n0 tests/testbed/test_real_stores.py

KILLS ?= 1

kill: setup  ## runs of every platform, and daemons beneath them, killed or stopped twenty times each at any moment (more: KILLS=100): nothing of them stays, no stall is unseen (some twenty minutes, four more where Swift and Gluster are installed, and ten where Xen was built)
	VIRTLAB_TEST_KILLS=$(KILLS) $(BIN)/python -m pytest -v tests/testbed/test_*nothing_left.py tests/testbed/test_resume_kill.py tests/testbed/test_search_kill.py tests/testbed/test_stops_are_seen.py tests/testbed/test_lost_nodes.py

fuzz: setup  ## damaged files, datasets, streams and outputs: each accepted or refused in one line (some thirty minutes; COUNT= SEED= KINDS=)
	$(BIN)/python -m tools.fuzz --seed $(or $(SEED),1) --count $(or $(COUNT),0) $(KINDS)

FUZZ_TARGETS ?= frames blocks lines requests messages
# What cargo-fuzz passes, without the sanitizer that needs a nightly compiler: coverage for libFuzzer, checks for us.
FUZZ_FLAGS := -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares) --cfg fuzzing -Cdebug-assertions -Coverflow-checks

libfuzzer:  ## libFuzzer on frames, blocks, lines, requests of agents and messages of stores, a minute each (SECONDS_EACH= FUZZ_TARGETS=)
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --locked --release -q --target $(TRIPLE) $(FUZZ_TARGETS:%=--bin %)
	for target in $(FUZZ_TARGETS); do \
	    mkdir -p fuzz/target/found/$$target; \
	    fuzz/target/$(TRIPLE)/release/$$target -max_total_time=$(or $(SECONDS_EACH),60) -timeout=2 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 -artifact_prefix=fuzz/target/found/$$target- fuzz/target/found/$$target fuzz/corpus/$$target 2>&1 | grep -E '^(stat::number_of_executed_units|stat::peak_rss_mb|stat::slowest_unit|==|thread|SUMMARY|Done)' | sed "s/^/$$target: /"; \
	done

# Two processes for four groups of real worlds (tests/conftest.py): three starve each other's machines.
unit:
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder

variants: setup  ## tests that show by other means what a test of `make test` shows (some eleven minutes)
	VIRTLAB_TEST_VARIANTS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder -m variant

lint: setup  ## ruff, mypy, import rules, clippy, rustfmt
	$(BIN)/ruff format --check python tests benches tools
	$(BIN)/ruff check python tests benches tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -q -- -D warnings

bench: setup  ## figures as JSON lines, each with the ratio to a peer run in the same call; installs the peers
	@$(PYTHON) tools/check_tools.py --install --benches
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-benches.lock
	$(BIN)/python benches/run.py

pairs: setup  ## figures of this clone and of another that was set up, in turns, with the ratio of each (OLD=FOLDER BENCHES="startup report" ROUNDS=10)
	@$(BIN)/python -m tools.pairs $(OLD) $(BENCHES) --rounds $(or $(ROUNDS),10)

predictions: setup native agent  ## a service and a store measured here (some twenty-five minutes), and how wrong predictions of left-out loads, allocations, highest loads, clients, sizes and links are
	@# a claim that is refuted (1) or undecided (4) is an answer; what is asked here is how well it was predicted
	for study in over-allocation distributed-storage; do \
		$(BIN)/virtlab run experiments/$$study/prediction.yaml --no-report --wait --dataset target/$$study-prediction.results || { code=$$?; [ $$code -eq 1 ] || [ $$code -eq 4 ] || exit $$code; }; \
		$(BIN)/virtlab validate target/$$study-prediction.results || exit $$?; \
	done

wheel: manylinux  ## the wheels in dist/ that an index takes: of this machine's processor, and on x86_64 that of aarch64, too
	$(if $(filter x86_64-%,$(TRIPLE)),$(MAKE) --no-print-directory arm64-wheel)

manylinux: agent $(VENV)/.needed  ## a wheel in dist/ that an index takes: for glibc 2.28 and newer, linked by zig, which auditwheel must confirm
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-wheel.lock
	rm -rf dist
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/maturin build -q --profile shipped --locked --zig --target $(TRIPLE) --compatibility manylinux_2_28 -o dist
	$(BIN)/python -m tools.platform_tag dist/virtlab-*.whl

wheel-here: agent $(VENV)/.needed  ## a wheel in dist/ for this machine and its like, agent inside, in seconds; an index takes those of `make wheel` alone
	rm -rf dist
	$(BIN)/maturin build -q --profile shipped --locked --compatibility linux -o dist

arm64: $(VENV)/.needed  ## do the Rust programs compile for aarch64? the library comes from Debian's packages where rustup has none
	PYTHONPATH=python $(BIN)/python -m tools.arm64 check

arm64-wheel: agent $(VENV)/.needed  ## a wheel for aarch64 in dist/ that an index takes, made on x86_64: the agent of aarch64 inside; auditwheel must confirm it
	@$(PYTHON) tools/check_tools.py --install --arm64
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-wheel.lock
	mkdir -p dist
	rm -f dist/virtlab-*_aarch64.whl
	PYTHONPATH=python $(BIN)/python -m tools.arm64 wheel dist

arm64-test: arm64-wheel  ## the agent inside that wheel says its version, and the tests of the pure crates pass, by qemu's user emulation
	PYTHONPATH=python $(BIN)/python -m tools.arm64 test dist

arm64-machine: arm64-wheel  ## the same wheel in a whole machine of aarch64 that qemu emulates: the unit tests of the agent, and `virtlab demo --real` (some fifteen minutes)
	@$(PYTHON) tools/check_tools.py --install --arm64
	PYTHONPATH=python $(BIN)/python -m tools.arm64_machine dist

image: manylinux  ## the container image localhost/virtlab:VERSION with that wheel inside, built by buildah (BASE=debian:12-slim)
	$(PYTHON) -m tools.image build $(if $(BASE),--base $(BASE))

wheel-test: wheel-here  ## install the wheel in empty environments, by pip, uv and pipx, and use it there
	$(PYTHON) -m tools.test_wheel dist
	$(PYTHON) -m tools.test_installers dist uv pipx

release-test: manylinux  ## what a release is made of, in dist/: the wheel, tried in an empty environment and as pip, uv and pipx install it, that of aarch64, tried as far as an emulated processor can, the container image, tried by podman, sources, a bill of materials, checksums
	@$(PYTHON) tools/check_tools.py --install --release
	$(MAKE) --no-print-directory arm64-test
	$(PYTHON) -m tools.test_wheel dist
	$(PYTHON) -m tools.test_installers dist
	$(PYTHON) -m tools.image test --save dist/virtlab-image.tar
	$(BIN)/maturin sdist -o dist
	$(BIN)/python -m tools.inside --sbom dist/virtlab.cdx.json
	cd dist && sha256sum -- *.whl *.tar.gz *.tar *.cdx.json >SHA256SUMS && sha256sum --check --quiet SHA256SUMS

bounds: wheel-here  ## the lowest and the newest versions that are allowed, those of the extras too, each in an empty environment (downloads half a gigabyte)
	$(BIN)/python -m tools.bounds dist/virtlab-*.whl

oracles: setup  ## statistics beside statsmodels and pingouin, Parquet files beside pyarrow and polars (downloads half a gigabyte)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-oracles.lock
	VIRTLAB_TEST_REQUIRE=oracles $(BIN)/python -m pytest -v tests/parity/test_oracles.py

ALARMS ?= target/alarms

alarms: setup  ## how often `compare` is wrong, over 400 short real runs beside a busy neighbour (resumes; RUNS= ALARMS=FOLDER)
	$(BIN)/python -m tools.alarms record $(ALARMS) --runs $(or $(RUNS),400)
	$(BIN)/python -m tools.alarms judge $(ALARMS)
	$(BIN)/python -m tools.alarms live $(ALARMS)

demos: setup  ## how often `virtlab demo --real` decides every claim beside two processor hogs (RUNS=; of another experiment: FILE=)
	$(BIN)/python -m tools.demos --runs $(or $(RUNS),20) $(if $(FILE),--file $(FILE))

install: check-needed wheel-here  ## `virtlab` on the PATH of this user: in $(PREFIX)/bin, with an environment of its own (PICTURES=1: plots as SVG and PNG too)
	$(PYTHON) -m venv --clear $(HOME_OF_INSTALL)
	cat requirements.lock $(if $(PICTURES),<(awk '/^vl-convert-python==/, !/\\$$/' requirements-dev.lock)) >$(HOME_OF_INSTALL)/needed.txt
	$(HOME_OF_INSTALL)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(HOME_OF_INSTALL)/needed.txt
	$(HOME_OF_INSTALL)/bin/python -m pip install -q --disable-pip-version-check --no-deps dist/virtlab-*.whl
	mkdir -p $(PREFIX)/bin
	ln -sfn $(HOME_OF_INSTALL)/bin/virtlab $(PREFIX)/bin/virtlab
	$(HOME_OF_INSTALL)/bin/virtlab manual $(PREFIX)/share/man/man1
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "virtlab: put $(PREFIX)/bin on your PATH" ;; esac

uninstall:  ## take that away again
	rm -rf $(HOME_OF_INSTALL)
	rm -f $(PREFIX)/bin/virtlab $(PREFIX)/share/man/man1/virtlab.1 $(PREFIX)/share/man/man1/virtlab-*.1

site: $(VENV)/.installed  ## the documentation as a site in target/site/VERSION; a broken link ends it
	$(BIN)/python -m tools.site

lock:  ## pin every dependency again
	$(BIN)/pip-compile -q --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --no-annotate --strip-extras --generate-hashes -o requirements.lock pyproject.toml
	$(BIN)/python tools/lock_dev.py
	$(BIN)/python -m tools.inside

clean:  ## everything that was built
	rm -rf $(VENV) target dist python/virtlab/_bin
