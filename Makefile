# Every task of a developer, each with all its set-up: `make help` lists them.
#
# A fresh machine needs Python 3.11, g++ and make; cmake, ninja and everything else come from PyPI into $(VENV).
# Share one environment between worktrees with `make build VENV=/path/to/venv`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TESTS ?= tests
FUZZ_SECONDS ?= 600
BENCH ?=
SANITIZERS ?= address thread
SANITIZE_TESTS ?= $(wildcard tests/executor tests/stress tests/files tests/fuzz/test_files.py tests/devices tests/queues \
	tests/data_pipeline tests/functions tests/eager tests/embedding tests/dist/test_local_cluster.py)

VENV_PATH := $(abspath $(VENV))
PY := $(VENV_PATH)/bin/python
CMAKE := $(VENV_PATH)/bin/cmake
PYTHON_DIRS := $(wildcard src tests examples bench docs tools)
CPP_FILES = $(shell find core tests/native tests/fuzz/native -name '*.cc' -o -name '*.h' 2>/dev/null)

# One stamp per environment: switching VENV checks and configures again.
REQUIREMENTS := build/stamps/requirements$(subst /,_,$(VENV_PATH))
DOCS_REQUIREMENTS := build/stamps/docs$(subst /,_,$(VENV_PATH))
WHEEL_REQUIREMENTS := build/stamps/wheel$(subst /,_,$(VENV_PATH))
COMMAND := build/stamps/command$(subst /,_,$(VENV_PATH))
CONFIGURED := build/stamps/configured$(subst /,_,$(VENV_PATH))
CONFIGURE = $(CMAKE) -S . -G Ninja --log-level=WARNING \
	-DPython_EXECUTABLE=$(PY) -DCMAKE_MAKE_PROGRAM=$(VENV_PATH)/bin/ninja

export PYTHONPATH := $(CURDIR)/src
export NINJA_STATUS := [%f/%t, %w elapsed, %W left]$(subst ,, )

.DEFAULT_GOAL := help
.PHONY: help requirements build test demo lint format bench docs wheel try-wheel sanitize fuzz fuzz-native clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

$(PY):
	@echo "Creating the virtual environment $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Thalweg needs Python 3.11 or newer")'
	@$(PYTHON) -m venv $(VENV_PATH)

$(REQUIREMENTS): pyproject.toml tools/install_requirements.py | $(PY)
	@$(PY) tools/install_requirements.py
	@mkdir -p $(@D) && touch $@

requirements: $(REQUIREMENTS)

$(CONFIGURED): $(REQUIREMENTS) CMakeLists.txt
	@echo "Configuring the native core"
	@$(CONFIGURE) -B build -DTHALWEG_IN_TREE=ON > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@rm -f build/stamps/configured* && touch $@

build: $(CONFIGURED) $(COMMAND) ## build the native core in place (src/thalweg), and the command `thalweg`
	@$(CMAKE) --build build --parallel $(JOBS)

# The command in the environment runs this tree; `make build` of another tree that shares the environment makes its own.
$(COMMAND): $(REQUIREMENTS) tools/make_command.py
	@$(PY) tools/make_command.py $(CURDIR)/src
	@mkdir -p $(@D) && touch $@

test: build ## run the tests, native ones included (TESTS=tests/ops to choose)
	@$(CMAKE) --build build --parallel $(JOBS) --target native_tests
	@$(PY) -m pytest -n $(JOBS) -q $(TESTS)

demo: build ## train a convolutional network on real handwritten digits, with a progress bar
	@$(PY) examples/lenet.py
	@echo "Next: examples/lenet.py (this program), docs/examples.md (the others), docs/journey.md (inside session.run), make docs."

lint: build ## check layout, lint and types of Python and C++
	@echo "ruff check"; $(VENV_PATH)/bin/ruff check -q $(PYTHON_DIRS)
	@echo "ruff format"; $(VENV_PATH)/bin/ruff format -q --check $(PYTHON_DIRS) \
		|| { echo "Layout differs: run 'make format'"; exit 1; }
	@echo "mypy"; $(PY) -m mypy
	@echo "clang-format"; $(VENV_PATH)/bin/clang-format --dry-run -Werror $(CPP_FILES) \
		|| { echo "Layout differs: run 'make format'"; exit 1; }

format: $(REQUIREMENTS) ## lay out Python and C++ and fix what can be fixed
	@$(VENV_PATH)/bin/ruff check -q --fix-only $(PYTHON_DIRS)
	@$(VENV_PATH)/bin/ruff format -q $(PYTHON_DIRS)
	@$(if $(CPP_FILES),$(VENV_PATH)/bin/clang-format -i $(CPP_FILES))

bench: build ## compare with TensorFlow, PyTorch and JAX (BENCH='--quick --only while_loop')
	@$(PY) bench/run.py $(BENCH)

$(DOCS_REQUIREMENTS): pyproject.toml tools/install_requirements.py | $(PY)
	@$(PY) tools/install_requirements.py docs
	@mkdir -p $(@D) && touch $@

docs: build $(DOCS_REQUIREMENTS) ## build the documentation site: guides, and a reference of every public name
	@echo "Writing the pages of the reference"
	@cd tools && $(PY) -m reference $(CURDIR)/build/docs
	@echo "Building the site"
	@$(PY) -m sphinx -q -W --keep-going -j $(JOBS) -c docs/site -d build/docs/doctrees build/docs/source build/docs/html
	@cd tools && $(PY) -m reference.check_links $(CURDIR)/build/docs/html
	@echo "The site: build/docs/html/index.html"

$(WHEEL_REQUIREMENTS): pyproject.toml tools/install_requirements.py | $(PY)
	@$(PY) tools/install_requirements.py wheel
	@mkdir -p $(@D) && touch $@

# The wheel for any Linux with a glibc as new as this one's symbols need: auditwheel puts libgomp inside.
wheel: $(REQUIREMENTS) $(WHEEL_REQUIREMENTS) ## build dist/thalweg-*manylinux*.whl in an isolated environment
	@echo "Building the wheel (compiles everything anew)"
	@rm -rf build/wheel && mkdir -p build/wheel
	@$(PY) -m pip wheel --disable-pip-version-check --no-deps -q -w build/wheel .
	@PATH="$(VENV_PATH)/bin:$$PATH" $(PY) -m auditwheel repair -w dist build/wheel/thalweg-*.whl > build/wheel/repair.log 2>&1 \
		|| { cat build/wheel/repair.log; exit 1; }
	@ls -lh dist/*.whl | awk '{print $$5, $$9}'

try-wheel: ## install the newest wheel of dist/ in a new virtual environment and train a moment with it
	@tools/try_wheel.sh "$(PYTHON)" "$$(ls -t dist/thalweg-*manylinux*.whl | head -1)"

sanitize: build $(addprefix sanitize-,$(SANITIZERS)) ## run tests of whatever runs in threads under the address and thread sanitizers

# The instrumented module gets a package of its own: links to the Python files, beside it. Python is not instrumented,
# so the sanitizer's library is preloaded; so is libstdc++, whose throw the address sanitizer has to find at start-up.
RUNTIME_address := libasan.so
RUNTIME_thread := libtsan.so
RUNTIME_undefined := libubsan.so
PRELOAD = $(shell g++ -print-file-name=$(1)) $(shell g++ -print-file-name=libstdc++.so)
# Python keeps objects until the process ends, which the leak detector cannot tell from a leak. Reports go to files,
# because pytest captures stderr and a test may run child processes: any report fails the run.
SANITIZER_OPTIONS = ASAN_OPTIONS=detect_leaks=0:log_path=$(1) UBSAN_OPTIONS=print_stacktrace=1:log_path=$(1) \
	TSAN_OPTIONS=second_deadlock_stack=1:suppressions=$(CURDIR)/tests/thread_sanitizer.supp:log_path=$(1)

sanitize-%: $(REQUIREMENTS)
	@echo "Building with the $* sanitizer in build-$*"
	@mkdir -p build-$*/package
	@$(CONFIGURE) -B build-$* -DTHALWEG_SANITIZE=$* > build-$*/configure.log 2>&1 \
		|| { cat build-$*/configure.log; exit 1; }
	@$(CMAKE) --build build-$* --parallel $(JOBS) --target all native_tests
	@find build-$*/package -type l -delete  # also those to files that are no more
	@cd src && find thalweg -type d ! -name __pycache__ -exec mkdir -p $(CURDIR)/build-$*/package/{} \; \
		&& find thalweg -type f ! -name '_core*' ! -name 'libdnnl*' ! -name '*.pyc' \
			-exec ln -sf $(CURDIR)/src/{} $(CURDIR)/build-$*/package/{} \;
	@echo "Testing with the $* sanitizer: $(SANITIZE_TESTS)"
	@rm -f build-$*/report.*
	@$(call SANITIZER_OPTIONS,$(CURDIR)/build-$*/report) OMP_NUM_THREADS=1 build-$*/native_tests > build-$*/native_tests.log \
		|| { cat build-$*/native_tests.log; ls build-$*/report.* > /dev/null 2>&1 && cat build-$*/report.*; exit 1; }
	@$(call SANITIZER_OPTIONS,$(CURDIR)/build-$*/report) LD_PRELOAD="$(call PRELOAD,$(RUNTIME_$*))" OMP_NUM_THREADS=1 PYTHONMALLOC=malloc \
		PYTHONPATH=$(CURDIR)/build-$*/package \
		$(PY) -m pytest -n $(JOBS) -q -p no:cacheprovider -p no:faulthandler -o pythonpath=tests --timeout 900 $(SANITIZE_TESTS) \
		|| status=1; if ls build-$*/report.* > /dev/null 2>&1; then cat build-$*/report.*; status=1; fi; exit $${status:-0}

fuzz: build ## run the fuzz test over all ops for FUZZ_SECONDS
	@$(PY) -m pytest -q tests/fuzz --timeout 0 --fuzz-seconds $(FUZZ_SECONDS)

# What reads bytes of peers or of files, with clang's fuzzer and the address and undefined-behaviour sanitizers. Inputs that fail stay
# in build-fuzz/; inputs that reach new code are kept in build-fuzz/corpus for the next run.
CLANG ?= $(notdir $(lastword $(shell command -v clang++) $(sort $(wildcard /usr/bin/clang++-1[6-9] /usr/bin/clang++-2[0-9]))))
FUZZED := $(addprefix core/net/,collective_call.cc collective_groups.cc collective_messages.cc collective_reduce.cc \
	collective_run.cc collectives.cc connection.cc elements.cc forwarder.cc frame.cc frame_reader.cc handshake.cc \
	host_layout.cc list_encoding.cc loans.cc merge.cc poller.cc sha256.cc socket.cc spin.cc) core/error.cc core/resource/tensor_list.cc \
	$(wildcard core/tensor/*.cc core/memory/*.cc core/thread/*.cc)
PARSERS := core/checkpoint/table.cc core/error.cc $(filter-out core/io/jpeg.cc,$(wildcard core/io/*.cc)) \
	$(wildcard core/regex/*.cc core/tensor/*.cc core/memory/*.cc core/thread/*.cc)
FUZZ_COMPILE = $(CLANG) -std=c++20 -O1 -g -fsanitize=address,undefined -Icore -Isrc/thalweg/include -Itests/native

build-fuzz/%.o: %.cc
	@mkdir -p $(@D)
	@$(FUZZ_COMPILE) -fsanitize=fuzzer-no-link -MMD -c $< -o $@

build-fuzz/make_corpus: tests/fuzz/native/make_corpus.cc $(FUZZED:%.cc=build-fuzz/%.o)
	@$(FUZZ_COMPILE) $^ -o $@

build-fuzz/fuzz_files: tests/fuzz/native/fuzz_files.cc $(PARSERS:%.cc=build-fuzz/%.o)
	@$(FUZZ_COMPILE) -fsanitize=fuzzer $^ -o $@

build-fuzz/fuzz_%: tests/fuzz/native/fuzz_%.cc $(FUZZED:%.cc=build-fuzz/%.o)
	@$(FUZZ_COMPILE) -fsanitize=fuzzer $^ -o $@

-include $(sort $(FUZZED:%.cc=build-fuzz/%.d) $(PARSERS:%.cc=build-fuzz/%.d))

FUZZERS = fuzz_collectives fuzz_files fuzz_forwarder fuzz_frames fuzz_handshake
fuzz-native: build-fuzz/make_corpus $(FUZZERS:%=build-fuzz/%) ## fuzz what reads bytes of peers, and files, FUZZ_SECONDS each (needs clang 16 or newer)
	@build-fuzz/make_corpus build-fuzz/corpus
	@for target in $(FUZZERS); do \
		build-fuzz/$$target -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=20 -rss_limit_mb=4096 \
			-artifact_prefix=build-fuzz/$$target- build-fuzz/corpus/$$target || exit 1; done

clean: ## remove everything built (the virtual environment stays)
	@rm -rf build build-* dist src/thalweg/_core.* src/thalweg/libdnnl*
	@find src tests bench tools examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
