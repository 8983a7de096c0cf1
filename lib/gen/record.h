/* Output records of generation, one JSON object a line. */
#ifndef SLUICE_GEN_RECORD_H
#define SLUICE_GEN_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/gen/gen.h"

struct record_opts {
    const struct tokenizer *tok;
    bool token_ids;    /* write token_ids */
    bool no_timings;   /* leave timings out: equal runs give equal bytes */
    const json_t *row; /* members to put first (tool, version, ...), or NULL */
};

/* Each returns a line that ends in '\n' and that the caller frees, or NULL without memory. */
char *record_result(const struct record_opts *o, const struct gen_result *res);
/* Of a line that is no request. id may be NULL. */
char *record_error(const struct record_opts *o, uint64_t line, const json_t *id, const char *message);

/* What a record says of itself, for going on with an interrupted run. */
struct record_key {
    uint64_t line, id_hash;
    uint32_t index;
    bool failed;
};
/* ERR_FORMAT when text[0..len) is no record. */
int record_read(struct record_key *k, const char *text, size_t len, struct err *e);
/* Of an id as records hold it. */
uint64_t record_id_hash(const json_t *id);

#endif
