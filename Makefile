# Sluice: all build rules. Targets: all check check-long fuzz bench asan tsan lint install uninstall clean help.
# Switches (command line or config.mk): CUDA=0|1  MPI=0|1  SAN=address,undefined|thread  CC=gcc|clang  WERROR=0|1
-include config.mk

VERSION := 0.1.0
CC      ?= gcc
CUDA    ?= 0
MPI     ?= 0
SAN     ?=
WERROR  ?= 0
PREFIX  ?= /usr/local
DESTDIR ?=
OPT     ?= -O2

comma := ,
B := build/$(if $(SAN),$(subst $(comma),-,$(SAN)),release)$(if $(filter 1,$(CUDA)),-cuda)$(if $(filter 1,$(MPI)),-mpi)$(if $(filter clang%,$(notdir $(CC))),-clang)

include scripts/build/deps.mk

WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wwrite-strings -Wvla
WARN += $(if $(filter 1,$(WERROR)),-Werror)
ALL_CFLAGS := -std=c11 $(OPT) -g -fno-math-errno -fno-trapping-math -ffp-contract=off -pthread $(WARN) -I. \
	-D_GNU_SOURCE -DSLUICE_VERSION='"$(VERSION)"' $(DEP_CFLAGS) $(CFLAGS)
ALL_LDFLAGS := -pthread $(LDFLAGS)
ifneq ($(SAN),)
ALL_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined)
ALL_LDFLAGS += -fsanitize=$(SAN)
endif
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
LIB       := $B/libsluice.a

all: $(TOOLS) $(LIB)

# Flags per instruction-set folder; everything else is built for the baseline of the platform.
X86 := $(filter x86_64 amd64,$(shell uname -m))
$B/kernels/cpu/avx2/%.o: ISA_CFLAGS := $(if $(X86),-mavx2 -mfma -mf16c -mbmi2)
$B/kernels/cpu/avx512/%.o: ISA_CFLAGS := $(if $(X86),-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512vbmi -mavx512bf16 -mavx2 -mfma -mf16c -mbmi2 -mprefer-vector-width=512)
$B/kernels/cpu/ref/%.o $B/kernels/cpu/avx2/%.o $B/kernels/cpu/avx512/%.o: KOPT := -O3

$B/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(KOPT) $(ISA_CFLAGS) -MMD -MP -c $< -o $@

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(TOOLS): $B/%: $B/cmd/%.o $(CMD_OBJ) $(LIB)
	$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

$B/tests/unit/%: $B/tests/unit/%.o $(LIB)
	$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -lcmocka -o $@

$B/checkkern: $(KERN_SRC:%.c=$B/%.o) $(LIB)
	$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

include scripts/build/targets.mk

-include $(shell find $B -name '*.d' 2>/dev/null)
.SECONDARY:
