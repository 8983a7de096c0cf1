# Targets other than compiling: tests, lint, install.
check-unit: $(UNIT) $(if $(KERN_SRC),$B/checkkern)
	@set -e; for t in $(UNIT); do echo "# $$t"; $$t; done
	$(if $(KERN_SRC),$B/checkkern)

check: all check-unit

clean:
	rm -rf build

.PHONY: all check check-unit clean
