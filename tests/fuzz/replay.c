/* Runs a fuzz harness without a fuzzer: over files and folders as they are, and over damaged copies of them.
 *
 * usage: fuzz_X [--mutate N] [--seed S] FILE|FOLDER...
 * --mutate N: besides each file, N copies cut at a random offset and N copies with 1 to 4 random bytes changed.
 * An input that takes more than 20 seconds ends the program through SIGALRM. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static uint64_t random_state = 1;
static size_t n_inputs;

static uint64_t next_random(void)
{
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The harness on a heap copy of exactly size bytes, so that a sanitizer sees reads past the end. */
static void run(const uint8_t *data, size_t size, size_t n_changes)
{
    uint8_t *copy = malloc(size ? size : 1);

    if (!copy)
        exit(1);
    memcpy(copy, data, size);
    for (size_t i = 0; i < n_changes && size; i++)
        copy[next_random() % size] = (uint8_t)next_random();
    alarm(20);
    LLVMFuzzerTestOneInput(copy, size);
    alarm(0);
    free(copy);
    n_inputs++;
}

static int run_file(const char *path, size_t n_mutations)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    long size;

    if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0) {
        perror(path);
        return 1;
    }
    rewind(f);
    data = malloc((size_t)size + 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
        perror(path);
        return 1;
    }
    fclose(f);
    run(data, (size_t)size, 0);
    for (size_t i = 0; i < n_mutations; i++) {
        run(data, size ? next_random() % (size_t)size : 0, 0);
        run(data, (size_t)size, 1 + next_random() % 4);
    }
    free(data);
    return 0;
}

static int run_path(const char *path, size_t n_mutations)
{
    struct dirent **entries;
    struct stat st;
    int n, rc = 0;

    if (stat(path, &st)) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return run_file(path, n_mutations);
    n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char name[4096];

        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            rc |= run_path(name, n_mutations);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return rc || n < 0;
}

int main(int argc, char **argv)
{
    size_t n_mutations = 0;
    int rc = 0, i = 1;

    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (!strcmp(argv[i], "--mutate"))
            n_mutations = strtoul(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            random_state = strtoull(argv[i + 1], NULL, 10);
    }
    for (; i < argc; i++)
        rc |= run_path(argv[i], n_mutations);
    printf("%s: %zu inputs\n", strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0], n_inputs);
    return rc || !n_inputs;
}
