/* config.json of a Hugging Face folder whose weights are those of a golden model: hyperparameters, shapes, loading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/model/model.h"
#include "tests/fuzz/fuzz.h"

static char dir[64];

static void remove_dir(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    unlink(path);
    rmdir(dir);
}

static int make_dir(void)
{
    char target[4096], link[128];

    snprintf(dir, sizeof dir, "%s/sluice-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!realpath("tests/golden/models/llama/model.safetensors", target) || !mkdtemp(dir))
        return -1;
    snprintf(link, sizeof link, "%s/model.safetensors", dir);
    atexit(remove_dir);
    return symlink(target, link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[128];
    struct model *m;
    struct err e;
    FILE *f;

    if (!dir[0] && make_dir())
        abort(); /* run from the root of the project */
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (!(f = fopen(path, "wb")))
        return 0;
    fwrite(data, 1, size, f);
    fclose(f);
    if (!model_open(&m, dir, NULL, &e))
        model_close(m);
    return 0;
}
