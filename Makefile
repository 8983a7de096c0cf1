# Sluice: all build rules (`make help` lists the targets). Third-party libraries: scripts/build/deps.mk; targets other than
# compiling: scripts/build/targets.mk.
# Switches, on the command line or in config.mk:
#   V=1 (whole commands)  CUDA=0|1  MPI=0|1  SAN=address,undefined|thread  CC=gcc|clang  WERROR=0|1  OPT=-O2  PREFIX=/usr/local  DESTDIR=
-include config.mk

VERSION := 0.1.0
ifeq ($(origin CC),default)
CC      := gcc
endif
CUDA    ?= 0
MPI     ?= 0
SAN     ?=
FUZZER  ?= 0
WERROR  ?= 0
PREFIX  ?= /usr/local
DESTDIR ?=
OPT     ?= -O2

comma := ,
# Recipes show one short line each; V=1 shows the commands.
V ?=
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $@ &&)
.DEFAULT_GOAL := all
include scripts/build/deps.mk

# A folder for each kind of build; a switch that no source answers to makes none.
B := build/$(if $(SAN),$(subst $(comma),-,$(SAN)),release)$(if $(CU_SRC),-cuda)$(if $(MPI_SRC),-mpi)$(if $(findstring clang,$(notdir $(CC))),-clang)$(if $(filter 1,$(FUZZER)),-fuzzer)

WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wwrite-strings -Wvla
BASE_CFLAGS := -std=c11 $(OPT) -g -fno-math-errno -fno-trapping-math -ffp-contract=off -pthread $(WARN) -I. \
	-D_GNU_SOURCE -DSLUICE_VERSION='"$(VERSION)"' $(DEP_CFLAGS) $(CFLAGS)
ALL_LDFLAGS := -pthread $(LDFLAGS)
ifneq ($(SAN),)
BASE_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined)
ALL_LDFLAGS += -fsanitize=$(SAN)
endif
ifeq ($(FUZZER),1)
BASE_CFLAGS += -fsanitize=fuzzer-no-link
endif
ALL_CFLAGS := $(BASE_CFLAGS) $(if $(filter 1,$(WERROR)),-Werror)
LIBS := $(DEP_LIBS) -lm -ldl

# --- sources: wildcards, one folder a module ---------------------------------------------------
LIB_SRC   := $(wildcard lib/*/*.c) $(wildcard kernels/*.c) $(wildcard kernels/cpu/*.c) $(wildcard kernels/cpu/*/*.c)
LIB_OBJ   := $(LIB_SRC:%.c=$B/%.o)
TOOL_SRC  := $(filter-out $(wildcard cmd/common*.c),$(wildcard cmd/*.c))
TOOLS     := $(TOOL_SRC:cmd/%.c=$B/%)
CMD_OBJ   := $(patsubst %.c,$B/%.o,$(wildcard cmd/common*.c))
UNIT_SRC  := $(wildcard tests/unit/test_*.c)
UNIT      := $(UNIT_SRC:tests/unit/%.c=$B/tests/unit/%)
KERN_SRC  := $(wildcard tests/kern/*.c)
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ      := $(FUZZ_SRC:tests/fuzz/%.c=$B/tests/fuzz/%)
CU_OBJ    := $(CU_SRC:%.cu=$B/%.o)
CUDA_SO   := $(if $(CU_SRC),$B/sluice-cuda.so)
LIB       := $B/libsluice.a

all: $(TOOLS) $(LIB) $(CUDA_SO)

# Flags per instruction-set folder; everything else is built for the baseline of the platform.
X86 := $(filter x86_64 amd64,$(shell uname -m))
$B/kernels/cpu/avx2/%.o $B/headers/kernels/cpu/avx2/%.ok: ISA_CFLAGS := $(if $(X86),-mavx2 -mfma -mf16c -mbmi2)
$B/kernels/cpu/avx512/%.o $B/headers/kernels/cpu/avx512/%.ok: ISA_CFLAGS := $(if $(X86),-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512vbmi -mavx512bf16 -mavx2 -mfma -mf16c -mbmi2 -mprefer-vector-width=512)
$B/kernels/cpu/ref/%.o $B/kernels/cpu/avx2/%.o $B/kernels/cpu/avx512/%.o: KOPT := $(if $(SAN),-O1,-O3)
# Kernels are one inlined function a format: checks that multiply their size make a compiler take minutes a file, so under
# sanitizers accesses are checked by calls, and what only repeats those checks is left out. Fuzzers exercise parsers.
CLANG := $(findstring clang,$(notdir $(CC)))
KSAN  := $(if $(findstring address,$(SAN)),$(if $(CLANG),-mllvm -asan-instrumentation-with-call-threshold=0,--param asan-instrumentation-with-call-threshold=0))
KSAN  += $(if $(findstring undefined,$(SAN)),-fno-sanitize=alignment$(comma)null$(comma)pointer-overflow$(comma)object-size)
$B/kernels/cpu/avx2/%.o $B/kernels/cpu/avx512/%.o: ISA_CFLAGS += $(KSAN)
ifeq ($(FUZZER),1)
$B/kernels/cpu/avx2/%.o $B/kernels/cpu/avx512/%.o: ISA_CFLAGS += -fno-sanitize=all -fno-sanitize-coverage=trace-pc-guard,inline-8bit-counters,edge,trace-cmp,indirect-calls
endif

# Objects depend on the flags they were built with: another CFLAGS, OPT or VERSION builds them again (WERROR does not).
FLAGS_FILE := $B/flags
$(FLAGS_FILE): FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(subst ','\'',$(BASE_CFLAGS) $(ALL_LDFLAGS))' | cmp -s - $@ || \
		echo '$(CC) $(subst ','\'',$(BASE_CFLAGS) $(ALL_LDFLAGS))' > $@

$B/%.o: %.c $(FLAGS_FILE)
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) $(KOPT) $(ISA_CFLAGS) -MMD -MP -c $< -o $@

$B/%.o: %.cu $(FLAGS_FILE)
	@mkdir -p $(@D)
	$(call say,NVCC)$(NVCC) -O3 -g -I. $(NVCC_ARCH) -Xcompiler -fPIC,-Wall -MMD -MP -c $< -o $@

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(call say,AR)$(AR) rcs $@ $^

# The GPU back end is a module that programs load at run time: they start on a machine without a driver.
$B/sluice-cuda.so: $(CU_OBJ)
	$(call say,LINK)$(NVCC) -shared $^ -lcublas -o $@

# A tool is cmd/TOOL.c and what lies in cmd/TOOL/.
tool_parts = $(patsubst %.c,$B/%.o,$(wildcard cmd/$(1)/*.c))
.SECONDEXPANSION:
$(TOOLS): $B/%: $B/cmd/%.o $$(call tool_parts,$$*) $(CMD_OBJ) $(LIB)
	$(call say,LINK)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

$B/tests/unit/%: $B/tests/unit/%.o $(LIB)
	$(call say,LINK)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -lcmocka -o $@

$B/checkkern: $(KERN_SRC:%.c=$B/%.o) $(LIB)
	$(call say,LINK)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# A harness alone replays files (tests/fuzz/replay.c); with FUZZER=1 it is a libFuzzer program.
$B/tests/fuzz/%: $B/tests/fuzz/%.o $(if $(filter 1,$(FUZZER)),,$B/tests/fuzz/replay.o) $(LIB)
	$(call say,LINK)$(CC) $(ALL_LDFLAGS) $(if $(filter 1,$(FUZZER)),-fsanitize=fuzzer) $^ $(LIBS) -o $@

include scripts/build/targets.mk

-include $(shell find $B -name '*.d' 2>/dev/null)
.SECONDARY:
.DELETE_ON_ERROR:
FORCE:
.PHONY: FORCE
