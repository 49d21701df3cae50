# The front door. CMake does the work; every target installs the Debian packages it misses.

PREFIX ?= /usr/local
DESTDIR ?=
STRIP ?= --strip
JOBS ?= $(shell nproc)
SOAK_SECONDS ?= 3600
FUZZ_SECONDS ?= 600
SEEDS ?= 100000
FRAMES ?= 10000000

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build run test test-all test-gpu test-kernel test-systems everything mutants fuzz soak bench goals format lint install archive deb clean help

# WERROR=ON: warnings are errors, as in the continuous integration. A newer compiler than ours warns
# of more, so that a release is built without.
configure_preset = $(if $(WERROR),,test -f build/$(1)/build.ninja || )cmake --preset $(1) \
	$(if $(WERROR),-DVERBENA_WERROR=$(WERROR))
# $(call build_preset,NAME[,TARGET]): configure once, build what changed.
build_preset = $(call configure_preset,$(1)); \
	cmake --build --preset $(1) -j $(JOBS) $(if $(2),--target $(2))
ctest_preset = ctest --preset $(1) -j $(JOBS)
# $(call property_tests,N): random programs over simulated networks, N of each property.
property_tests = SEEDS=$(1) build/release/tests/verbena_sim_test --gtest_brief=1 --gtest_filter='*Property*'
mutants = tests/mutants/run.py --jobs $(JOBS)
define test_packages
{ scripts/deps.sh test && \
	  { scripts/deps.sh clients || echo "the tests of missing clients (UCX, MPI, fio, Slurm, tgt, …) are skipped"; } && \
	  { scripts/deps.sh cost || echo "without valgrind the test rdmapp.cost is skipped"; }; }
endef

build: ## builds the programs, in build/bin
	@scripts/deps.sh build
	@$(call build_preset,release,programs)

everything: # the programs, the tests and the benchmarks
	@scripts/deps.sh build
	@$(call build_preset,release)

run: build ## runs the two-minute tour: a stock program, every lab, RDMA beside TCP
	@scripts/deps.sh test
	@scripts/demo.sh build/bin/verbena

test: ## runs the tests that the continuous integration runs
	@scripts/deps.sh build
	@# The tests' packages come while the compilers work.
	@mkdir -p build; $(test_packages) >build/packages.log 2>&1 & packages=$$!; status=0; \
	  ($(call build_preset,release)) || status=$$?; \
	  wait $$packages || status=$$?; cat build/packages.log; exit $$status
	@$(call ctest_preset,release)
	@tests/e2e/run.py --build build/release --again 2 --long none --times 20
	@tests/e2e/run.py --build build/release --again 2 --wire udp --quick --only '^lo/'

test-all: test ## runs test, the long end-to-end cases, more random programs, the end-to-end cases of one host over UDP, a short soak, the tests with each sanitizer, fuzzers (60 s each) and mutants
	@scripts/deps.sh fuzz
	@scripts/deps.sh runtimes || echo "the tests of missing runtimes (Java, Go, libsigsegv) are skipped"
	@cmake --build --preset release -j $(JOBS) --target verbena_all_headers
	@tests/e2e/run.py --build build/release --only 'fault-handlers/(java|go|libsigsegv)'
	@$(call property_tests,10000)
	@tests/e2e/run.py --build build/release --again 2 --long only
	@# Two network namespaces are two hosts: everything between them is UDP already.
	@tests/e2e/run.py --build build/release --again 2 --wire udp --only '^lo' --mebibytes 1024
	@tests/e2e/run.py --build build/release --again 2 --only '/midway/' --mebibytes 1024
	@tests/e2e/run.py --build build/release --only 'transfer/killed' --kills 200
	@tests/e2e/run.py --build build/release --soak 120
	@$(call build_preset,asan); $(call ctest_preset,asan)
	@$(call build_preset,tsan); $(call ctest_preset,tsan)
	@$(call build_preset,fuzz); $(call ctest_preset,fuzz)
	@$(mutants)

test-kernel: build ## tests against the kernel's SoftRoCE (rxe) in a virtual machine; ONLY=REGEX chooses cases
	@if ! scripts/deps.sh kernel; then \
	  echo "SKIPPED test-kernel: QEMU or its helpers are missing and can't be installed"; exit 0; fi; \
	prefix=$$(mktemp -d /tmp/verbena-kernel-test.XXXXXX); trap 'rm -rf "$$prefix"' EXIT; \
	chmod 755 "$$prefix"; cmake --install build/release --prefix "$$prefix" >/dev/null; \
	status=0; \
	for script in two_vms_test kernel_test; do \
	  tests/interop/$$script.sh --list | grep -qE "$(ONLY)" || continue; \
	  tests/interop/$$script.sh "$$prefix" $(if $(ONLY),"$(ONLY)") || status=$$?; \
	done; \
	if ((status == 77)); then echo "SKIPPED test-kernel: see the reason above"; exit 0; fi; \
	exit $$status

test-gpu: everything ## tests on a machine with an NVIDIA GPU: random transfers, misuse, the lab, NCCL if PyTorch is there
	@tests/gpu/run.sh build || (($$? == 77)) # 77: it has said why it was skipped

test-systems: ## tests on Debian 12, 13 and testing, with clang 16 and 19, on arm64; ONLY=REGEX chooses cases
	@scripts/deps.sh systems || echo "without debootstrap the cases are skipped"
	@# The cases NAME/SUITE look at packages.
	@if tests/systems/run.sh --list $(if $(ONLY),"$(ONLY)") | grep -q /; then \
	  $(MAKE) --no-print-directory archive deb; fi
	@tests/systems/run.sh $(if $(ONLY),"$(ONLY)")

mutants: ## plants bugs in a copy of the source, one at a time; the tests must catch each
	@scripts/deps.sh build
	@$(mutants)

fuzz: ## runs each fuzzer for FUZZ_SECONDS (default 600)
	@scripts/deps.sh build fuzz
	@$(call build_preset,fuzz)
	@for fuzzer in build/fuzz/fuzz/*_fuzz; do \
	  name=$$(basename $$fuzzer _fuzz); \
	  build/fuzz/tests/$${name}_replay --write build/fuzz/fuzz/$${name}_seeds; \
	  $$fuzzer -max_total_time=$(FUZZ_SECONDS) -max_len=16384 \
	    -artifact_prefix=build/fuzz/fuzz/ -print_final_stats=1 build/fuzz/fuzz/$${name}_seeds; \
	done

soak: everything ## runs SEEDS random programs of each property (default 100000), FRAMES frames of strangers (default 10000000), then the end-to-end cases in random order for SOAK_SECONDS (default 3600)
	@scripts/deps.sh test
	@$(call property_tests,$(SEEDS))
	@tests/e2e/run.py --build build/release --only flood/ --frames $(FRAMES)
	@tests/e2e/run.py --build build/release --soak $(SOAK_SECONDS)

bench: build ## measures RDMA beside TCP and the limits of the machine (BENCH=OPTIONS of verbena bench)
	@scripts/deps.sh bench
	@build/bin/verbena bench $(BENCH)

goals: everything ## measures stock programs beside bare copies, TCP, UDP and UCX, and judges the goals of docs/performance.md (GOALS=OPTIONS of bench/run.py)
	@scripts/deps.sh bench
	@bench/run.py build $(GOALS)

format: ## formats every source file in place
	@scripts/deps.sh lint
	@scripts/lint.sh format

lint: ## checks formatting, thread safety, clang-tidy, shell and python syntax
	@scripts/deps.sh build lint
	@cmake --preset dev >/dev/null # the compile commands of today's files
	@scripts/lint.sh check build/dev $(JOBS)

install: build ## installs below PREFIX (default /usr/local); STRIP= keeps the debug information
	@cmake --install build/release $(STRIP) --prefix "$(DESTDIR)$(PREFIX)"

archive: ## makes build/packages/verbena-VERSION-linux-ARCH.tar.gz, which runs on other systems too
	@scripts/deps.sh build
	@$(call build_preset,portable)
	@scripts/archive.sh build/portable build/packages

deb: build ## makes the Debian packages verbena and librdma++-dev, in build/packages
	@scripts/deps.sh package
	@scripts/deb.sh build/release build/packages

clean: ## removes build/
	@rm -rf build

help: ## prints this text
	@echo "Verbena: a user-space RoCEv2 NIC. make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
	@echo "Variables: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) JOBS=$(JOBS) SOAK_SECONDS=$(SOAK_SECONDS) FUZZ_SECONDS=$(FUZZ_SECONDS) SEEDS=$(SEEDS)"
