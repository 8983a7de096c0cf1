# Targets other than compiling: tests, lint, install.
CHECK_SECONDS ?= 120
FUZZ_SECONDS  ?= 600
DAMAGE_COPIES ?= 200
BENCH_MODEL   ?= build/models/SmolLM2-135M-Instruct.Q4_1.gguf

# --- tests -----------------------------------------------------------------------------------------
check-unit: $(UNIT)
	@scripts/run-tests --timeout $(CHECK_SECONDS) $(UNIT)

check-kern: $(if $(KERN_SRC),$B/checkkern)
	$(if $(KERN_SRC),$B/checkkern,@echo "no kernels to check")

check-cli: all
	@scripts/run-cli --bin $B $(if $(ISA),--isa $(ISA)) $(CASES)

check: all check-unit check-kern check-cli lint

# The tools on damaged files of every format.
check-damage: all
	@scripts/check-damage --bin $B -n $(DAMAGE_COPIES)

# Every file of the corpora through its parser, then truncated and with bytes changed.
fuzz-replay: $(FUZZ)
	@for f in $(FUZZ); do $$f --mutate 200 tests/fuzz/corpus/$${f##*/fuzz_} || exit 1; done

# Each harness for FUZZ_SECONDS under libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. New inputs: build/fuzz.
fuzz:
	@$(MAKE) --no-print-directory CC=clang SAN=address,undefined FUZZER=1 fuzz-run
fuzz-run: $(FUZZ)
	@for f in $(FUZZ); do n=$${f##*/fuzz_}; mkdir -p build/fuzz/$$n; echo "fuzz $$n: $(FUZZ_SECONDS) s"; \
		$$f -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=20 -verbosity=0 -print_final_stats=0 \
		-artifact_prefix=build/fuzz/$$n- build/fuzz/$$n tests/fuzz/corpus/$$n || exit 1; done

asan:
	@$(MAKE) --no-print-directory SAN=address,undefined check-unit check-kern check-cli fuzz-replay
tsan:
	@$(MAKE) --no-print-directory SAN=thread check-unit check-cli
clang:
	@$(MAKE) --no-print-directory CC=clang WERROR=1 all check-unit check-kern

# Everything scripts/test does, without installing packages first.
check-long:
	@scripts/test --no-install

bench: all
	$B/infer-bench -m $(BENCH_MODEL) -p 512 -n 128 -b 1,16

# --- lint ------------------------------------------------------------------------------------------
HEADERS := $(wildcard lib/*/*.h) $(wildcard kernels/*.h) $(wildcard kernels/cpu/*/*.h) $(wildcard cmd/*.h)
lint: lint-text lint-headers lint-man
lint-text:
	@scripts/check-layers
	@scripts/check-style
lint-headers: $(HEADERS:%=$B/headers/%.ok)
$B/headers/%.ok: % $(FLAGS_FILE)
	@mkdir -p $(@D)
	@echo '#include "$<"' | $(CC) $(BASE_CFLAGS) $(ISA_CFLAGS) -Werror -fsyntax-only -x c -
	@touch $@
lint-man: $(TOOLS)
	@scripts/check-man $(TOOLS)

# --- install ---------------------------------------------------------------------------------------
BINDIR  := $(PREFIX)/bin
LIBDIR  := $(PREFIX)/lib
INCDIR  := $(PREFIX)/include/sluice
MANDIR  := $(PREFIX)/share/man
COMPDIR := $(PREFIX)/share/bash-completion/completions
TOOL_NAMES     := $(notdir $(TOOLS))
PUBLIC_HEADERS := $(filter-out %_priv.h,$(wildcard lib/*/*.h) $(wildcard kernels/*.h))
MAN_PAGES      := $(wildcard man/*.[157])

install: all
	@set -e; d='$(DESTDIR)'; \
	install -d "$$d$(BINDIR)" "$$d$(LIBDIR)/pkgconfig" "$$d$(COMPDIR)"; \
	for t in $(TOOL_NAMES); do install -m 755 $B/$$t "$$d$(BINDIR)/$$t"; done; \
	install -m 644 $(LIB) "$$d$(LIBDIR)/libsluice.a"; \
	$(if $(CUDA_SO),install -d "$$d$(LIBDIR)/sluice"; install -m 755 $(CUDA_SO) "$$d$(LIBDIR)/sluice/";) \
	for h in $(PUBLIC_HEADERS); do install -D -m 644 $$h "$$d$(INCDIR)/$$h"; done; \
	for m in $(MAN_PAGES); do install -D -m 644 $$m "$$d$(MANDIR)/man$${m##*.}/$${m##*/}"; done; \
	install -m 644 scripts/completion.bash "$$d$(COMPDIR)/sluice"; \
	for t in $(TOOL_NAMES); do ln -sf sluice "$$d$(COMPDIR)/$$t"; done; \
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@REQUIRES@|$(DEP_PKGS)|' scripts/build/sluice.pc.in \
		> "$$d$(LIBDIR)/pkgconfig/sluice.pc"; \
	chmod 644 "$$d$(LIBDIR)/pkgconfig/sluice.pc"

uninstall:
	@set -e; d='$(DESTDIR)'; \
	for t in $(TOOL_NAMES); do rm -f "$$d$(BINDIR)/$$t" "$$d$(COMPDIR)/$$t"; done; \
	rm -f "$$d$(COMPDIR)/sluice" "$$d$(LIBDIR)/libsluice.a" "$$d$(LIBDIR)/pkgconfig/sluice.pc" "$$d$(LIBDIR)/sluice/sluice-cuda.so"; \
	for m in $(MAN_PAGES); do rm -f "$$d$(MANDIR)/man$${m##*.}/$${m##*/}"; done; \
	for h in $(PUBLIC_HEADERS); do rm -f "$$d$(INCDIR)/$$h"; done; \
	for s in $(sort $(dir $(PUBLIC_HEADERS))); do rmdir -p --ignore-fail-on-non-empty "$$d$(INCDIR)/$$s" 2>/dev/null || true; done; \
	rmdir --ignore-fail-on-non-empty "$$d$(LIBDIR)/sluice" 2>/dev/null || true

clean:
	rm -rf $(filter-out build/models,$(wildcard build/*))

help:
	@echo 'all           tools and libsluice.a in build/ (the default)'
	@echo 'check         unit tests, kernel checks, command-line tests, lint: under a minute'
	@echo 'check-unit    check-kern    check-cli [ISA=name] [CASES="tool/case ..."]    lint'
	@echo 'check-long    everything scripts/test runs: sanitizers, every ISA, clang, fuzz corpora, install'
	@echo 'asan tsan clang   the tests under sanitizers, or with clang'
	@echo 'check-damage  the tools on DAMAGE_COPIES (200) cut and as many changed files of every format'
	@echo 'fuzz          every fuzzer for FUZZ_SECONDS (600); fuzz-replay: the corpora and mutations of them, once'
	@echo 'bench         infer-bench on BENCH_MODEL'
	@echo 'install uninstall   under DESTDIR and PREFIX (/usr/local)'
	@echo 'clean         everything built; fetched models stay'
	@echo 'Switches: CUDA=1 MPI=1 SAN=address,undefined|thread CC=gcc|clang WERROR=1 V=1 OPT=-O2; config.mk may set them'

.PHONY: all check check-unit check-kern check-cli check-damage check-long fuzz fuzz-run fuzz-replay asan tsan clang bench lint lint-text \
	lint-headers lint-man install uninstall clean help
