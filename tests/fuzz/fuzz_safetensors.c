#include "lib/io/safetensors.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    volatile unsigned char sum = 0;
    struct safetensors s;
    struct map m;
    struct err e;

    if (map_memory(&m, data, size, "input", &e) || safetensors_open(&s, &m, &e))
        return 0;
    for (size_t i = 0; i < s.n_tensors; i++) {
        sum ^= *(const unsigned char *)s.tensors[i].data;
        sum ^= ((const unsigned char *)s.tensors[i].data)[s.tensors[i].bytes - 1];
    }
    safetensors_close(&s);
    (void)sum; /* what was read has to be read */
    return 0;
}
