/* What every harness of this folder defines. fuzz_NAME.c feeds one parser and has its corpus in corpus/NAME/; linked with
 * replay.c it runs over files (make fuzz-replay), with FUZZER=1 it is a libFuzzer program (make fuzz). */
#ifndef SLUICE_FUZZ_FUZZ_H
#define SLUICE_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Runs the parser over data[0..size). Always returns 0; a finding is a crash, a sanitizer report or a hang. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
