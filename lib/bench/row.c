/* The columns of a row, as text and JSON. */
#include <stdio.h>
#include <string.h>

#include "lib/bench/bench.h"

#define FIELD(name, type, heading, width, digits) { #name, type, offsetof(struct bench_row, name), heading, width, digits }

const struct bench_field bench_fields[] = {
    FIELD(test, BENCH_STR, "test", -7, 0),
    FIELD(prompt_tokens, BENCH_U64, "prompt", 6, 0),
    FIELD(generated_tokens, BENCH_U64, "gen", 5, 0),
    FIELD(batch, BENCH_U64, "batch", 5, 0),
    FIELD(threads, BENCH_U64, "threads", 7, 0),
    FIELD(isa, BENCH_STR, "isa", -6, 0),
    FIELD(kv_type, BENCH_STR, "kv", -4, 0),
    FIELD(exact, BENCH_BOOL, NULL, 0, 0),
    FIELD(tokens_per_second, BENCH_F64, "tokens/s", 9, 1),
    FIELD(tokens_per_second_min, BENCH_F64, "min", 9, 1),
    FIELD(tokens_per_second_max, BENCH_F64, "max", 9, 1),
    FIELD(repeats, BENCH_U64, NULL, 0, 0),
    FIELD(ms_per_step, BENCH_F64, "ms/step", 8, 2),
    FIELD(weight_bytes_per_step, BENCH_F64, NULL, 0, 0),
    FIELD(kv_bytes_per_step, BENCH_F64, NULL, 0, 0),
    FIELD(gb_per_second, BENCH_F64, "GB/s", 6, 1),
    FIELD(limit_gb_per_second, BENCH_F64, "limit", 6, 1),
    FIELD(gop_per_second, BENCH_F64, "Gop/s", 7, 1),
    FIELD(limit_gop_per_second, BENCH_F64, "limit", 7, 1),
    FIELD(attention_gop_per_second, BENCH_F64, "attn", 6, 1),
    FIELD(limit_attention_gop_per_second, BENCH_F64, "limit", 6, 1),
    FIELD(limit_ratio, BENCH_F64, "ratio", 5, 3),
    { NULL, BENCH_STR, 0, NULL, 0, 0 },
};

static void add(char *buf, size_t size, const char *text, int width)
{
    size_t n = strlen(buf);

    snprintf(buf + n, size - n, " %*s", width, text);
}

void bench_row_text(const struct bench_row *row, char *buf, size_t size)
{
    char text[64];

    snprintf(buf, size, "%s", row ? " " : "#");
    for (const struct bench_field *f = bench_fields; f->name; f++) {
        const void *at = row ? (const char *)row + f->offset : NULL;

        if (!f->heading)
            continue;
        if (!row)
            snprintf(text, sizeof text, "%s", f->heading);
        else if (f->type == BENCH_STR)
            snprintf(text, sizeof text, "%s", *(const char *const *)at);
        else if (f->type == BENCH_F64)
            snprintf(text, sizeof text, "%.*f", f->digits, *(const double *)at);
        else
            snprintf(text, sizeof text, "%llu", (unsigned long long)*(const uint64_t *)at);
        add(buf, size, text, f->width);
    }
}

int bench_row_json(const struct bench_row *row, json_t *into)
{
    int bad = 0;

    for (const struct bench_field *f = bench_fields; f->name; f++) {
        const void *at = (const char *)row + f->offset;
        json_t *v = f->type == BENCH_STR    ? json_string(*(const char *const *)at)
                    : f->type == BENCH_F64  ? json_real(*(const double *)at)
                    : f->type == BENCH_BOOL ? json_boolean(*(const uint64_t *)at)
                                            : json_integer((json_int_t)*(const uint64_t *)at);

        bad |= json_object_set_new(into, f->name, v);
    }
    return bad ? ERR_NOMEM : 0;
}
