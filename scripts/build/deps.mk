# Third-party libraries, found through pkg-config. A missing one stops the build with its Debian package name.
PKG_CONFIG ?= pkg-config
NO_DEPS := $(filter clean help,$(MAKECMDGOALS))

# need: NAME-IN-PKG-CONFIG DEBIAN-PACKAGE
need = $(if $(NO_DEPS),,$(if $(shell $(PKG_CONFIG) --exists $(1) && echo ok),,$(error $(1) not found: install $(2), or run scripts/install-deps)))

$(call need,yaml-0.1,libyaml-dev)
$(call need,jansson,libjansson-dev)
$(call need,libpcre2-8,libpcre2-dev)
$(call need,hdf5,libhdf5-dev)
DEP_PKGS   := yaml-0.1 jansson libpcre2-8 hdf5
DEP_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(DEP_PKGS))
DEP_LIBS   := $(shell $(PKG_CONFIG) --libs $(DEP_PKGS))
