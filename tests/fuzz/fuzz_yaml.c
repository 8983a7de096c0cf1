#include <string.h>

#include "lib/io/config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *c;
    struct err e;
    volatile size_t sum = 0;

    if (config_parse(&c, (const char *)data, size, "input", &e))
        return 0;
    for (size_t i = 0; i < config_n(c); i++)
        sum += strlen(config_at(c, i)->name) + strlen(config_at(c, i)->value) + config_at(c, i)->line;
    config_close(c);
    (void)sum; /* what was read has to be read */
    return 0;
}
