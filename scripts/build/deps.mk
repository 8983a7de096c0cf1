# Third-party libraries, found through pkg-config. A missing one stops the build with its Debian package name.
PKG_CONFIG ?= pkg-config
NO_DEPS := $(and $(MAKECMDGOALS),$(if $(filter-out clean help lint-text uninstall,$(MAKECMDGOALS)),,1))

# need: NAME-IN-PKG-CONFIG DEBIAN-PACKAGE
need = $(if $(NO_DEPS),,$(if $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo ok),,$(error $(1) not found: install $(2), or run scripts/install-deps)))

ifeq ($(NO_DEPS),)
ifeq ($(shell command -v $(PKG_CONFIG)),)
$(error $(PKG_CONFIG) not found: install pkg-config, or run scripts/install-deps)
endif
endif
# One line a library, NAME-IN-PKG-CONFIG:DEBIAN-PACKAGE; scripts/install-deps reads this list too.
DEPS := \
	yaml-0.1:libyaml-dev \
	jansson:libjansson-dev \
	libpcre2-8:libpcre2-dev \
	libutf8proc:libutf8proc-dev \
	hdf5:libhdf5-dev
$(foreach d,$(DEPS),$(call need,$(firstword $(subst :, ,$d)),$(lastword $(subst :, ,$d))))
DEP_PKGS   := $(foreach d,$(DEPS),$(firstword $(subst :, ,$d)))
DEP_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(DEP_PKGS) 2>/dev/null)
DEP_LIBS   := $(shell $(PKG_CONFIG) --libs $(DEP_PKGS) 2>/dev/null)

# A switch asks for its dependency even where nothing uses it yet; `--version` shows what was really compiled in.
switch = $(if $(filter-out 0 1,$($(1))),$(error $(1)=$($(1)): 0 or 1 wanted))
$(call switch,CUDA)
$(call switch,MPI)
$(call switch,WERROR)

CU_SRC :=
MPI_SRC :=
ifeq ($(CUDA),1)
NVCC ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
NVCC_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90
ifeq ($(NO_DEPS),)
ifeq ($(shell $(NVCC) --version 2>/dev/null | grep -o release),)
$(error CUDA=1: nvcc not found: install nvidia-cuda-toolkit, or set NVCC to the compiler of a CUDA installation)
endif
endif
CU_SRC := $(wildcard kernels/cuda/*.cu)
DEP_CFLAGS += $(if $(CU_SRC),-DSLUICE_CUDA)
$(if $(CU_SRC),,$(info CUDA=1: this version has no CUDA sources; the build has no GPU back end))
endif

ifeq ($(MPI),1)
$(call need,ompi-c,libopenmpi-dev)
MPI_SRC := $(wildcard lib/transfer/mpi.c)
ifneq ($(MPI_SRC),)
DEP_CFLAGS += -DSLUICE_MPI $(shell $(PKG_CONFIG) --cflags ompi-c)
DEP_LIBS   += $(shell $(PKG_CONFIG) --libs ompi-c)
else
$(info MPI=1: this version has no code that uses MPI; nothing is linked with it)
endif
endif
