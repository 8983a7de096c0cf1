/* Hugging Face model folders: config.json, safetensors in one file or in shards, and small side files. */
#ifndef SLUICE_IO_HF_H
#define SLUICE_IO_HF_H

#include "lib/io/safetensors.h"
#include "lib/io/strindex.h"

struct hf_file { /* a side file that was asked for */
    char *name;
    json_t *json; /* NULL: text */
    char *text;
    size_t len;
};

struct hf {
    char *dir;
    json_t *config;
    struct safetensors *shards;
    size_t n_shards;
    struct source_tensor *tensors; /* of all shards: by shard, then offset */
    struct source_str *names;
    size_t n_tensors;
    struct strindex index;
    struct hf_file *files;
    size_t n_files;
};

int hf_open(struct hf **out, const char *dir, struct err *e);
void hf_close(struct hf *h); /* NULL is legal */

/* The value at a dotted path of config.json; NULL when absent or null. */
const json_t *hf_config(const struct hf *h, const char *path);

int hf_json(struct hf *h, const char *name, const json_t **out, struct err *e);
int hf_text(struct hf *h, const char *name, const char **out, size_t *len, struct err *e);

#endif
