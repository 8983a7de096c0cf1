/* Every tiny model of tests/golden/models, from its HF folder and its GGUF file: exact logits against PyTorch's, on every
 * ISA, and token ids against those of Hugging Face's tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/isa.h"
#include "lib/model/engine.h"
#include "lib/token/token.h"

#define ROOT "tests/golden/models"
#define MAX_CASES 64
#define TOLERANCE 1e-4f

struct golden_seq {
    uint32_t n_tokens, first;
    const int32_t *tokens; /* [n_tokens] */
    const float *logits;   /* [n_tokens - first][n_vocab] */
};

struct golden {
    uint32_t n_seqs, n_vocab;
    struct golden_seq seqs[8];
    unsigned char *bytes; /* the file; the pointers above lie in it (every field is 4-byte aligned) */
};

static char case_path[MAX_CASES][512];
static char case_dir[MAX_CASES][300];

/* The whole file DIR/NAME, with a NUL behind it. */
static unsigned char *read_file(const char *dir, const char *name, size_t *size)
{
    unsigned char *bytes;
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

static void golden_read(struct golden *g, const char *dir)
{
    const unsigned char *p;
    size_t size;

    g->bytes = read_file(dir, "golden.logits", &size);
    assert_true(size > 16);
    assert_memory_equal(g->bytes, "SLGOLD1\n", 8);
    memcpy(&g->n_seqs, g->bytes + 8, 4);
    memcpy(&g->n_vocab, g->bytes + 12, 4);
    assert_true(g->n_seqs <= 8);
    p = g->bytes + 16;
    for (uint32_t i = 0; i < g->n_seqs; i++) {
        struct golden_seq *s = &g->seqs[i];

        memcpy(&s->n_tokens, p, 4);
        memcpy(&s->first, p + 4, 4);
        s->tokens = (const int32_t *)(const void *)(p + 8);
        s->logits = (const float *)(const void *)(p + 8 + (size_t)s->n_tokens * 4);
        p = (const unsigned char *)(s->logits + (size_t)(s->n_tokens - s->first) * g->n_vocab);
    }
    assert_ptr_equal(p, g->bytes + size);
}

static float max_difference(const float *a, const float *b, size_t n)
{
    float worst = 0;

    for (size_t i = 0; i < n; i++) {
        float d = fabsf(a[i] - b[i]);

        if (!(d <= worst))
            worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

static void check_seq(struct engine *g, const struct golden *want, const struct golden_seq *s, const char *what)
{
    struct seq *seq = NULL;
    struct err e = {0};
    uint32_t rows = s->n_tokens - s->first;
    float *logits = malloc((size_t)rows * want->n_vocab * sizeof *logits);
    struct step_item item = {0};
    float worst;

    assert_non_null(logits);
    if (engine_seq_open(g, &seq, &e))
        fail_msg("%s: %s", what, e.msg);
    item.seq = seq;
    item.tokens = s->tokens;
    if (s->first) { /* the part whose logits are not wanted */
        item.n_tokens = s->first;
        item.want = STEP_NO_LOGITS;
        if (engine_prefill(g, &item, 1, &e))
            fail_msg("%s: %s", what, e.msg);
        item.tokens += s->first;
    }
    item.n_tokens = rows;
    item.want = STEP_ALL;
    item.logits = logits;
    if (engine_prefill(g, &item, 1, &e))
        fail_msg("%s: %s", what, e.msg);
    worst = max_difference(logits, s->logits, (size_t)rows * want->n_vocab);
    if (!(worst < TOLERANCE))
        fail_msg("%s: %u tokens: logits differ from PyTorch's by %g", what, s->n_tokens, (double)worst);
    engine_seq_close(g, seq);
    free(logits);
}

static void check_tokens(struct source *source, const char *dir, const char *what)
{
    size_t text_len, ids_len, n = 0, len = 0;
    unsigned char *text = read_file(dir, "golden.txt", &text_len), *ids = read_file(dir, "golden.ids", &ids_len);
    struct tokenizer *t = NULL;
    struct token_list got = {0}, again = {0};
    struct err e = {0};
    char *back = NULL, *end = (char *)ids;

    if (tokenizer_open(&t, source, NULL, &e) || tokenizer_encode(t, (char *)text, text_len, 0, &got, &e))
        fail_msg("%s: %s", what, e.msg);
    for (char *at = end;; at = end, n++) {
        long want = strtol(at, &end, 10);

        if (end == at)
            break;
        if (n >= got.n || got.ids[n] != want)
            fail_msg("%s: token %zu is %d, wanted %ld", what, n, n < got.n ? (int)got.ids[n] : -1, want);
    }
    assert_int_equal(n, got.n);
    /* Back and forth again: the text itself may come back normalised (Qwen's vocabularies ask for NFC). */
    assert_int_equal(tokenizer_decode(t, got.ids, got.n, false, &back, &len, &e), 0);
    assert_int_equal(tokenizer_encode(t, back, len, 0, &again, &e), 0);
    assert_int_equal(again.n, got.n);
    assert_memory_equal(again.ids, got.ids, got.n * sizeof *got.ids);
    tokenizer_close(t);
    free(got.ids);
    free(again.ids);
    free(back);
    free(text);
    free(ids);
}

static void check_case(void **state)
{
    size_t at = (size_t)(uintptr_t)*state;
    struct golden want = {0};
    struct model *m = NULL;
    struct pool *pool = NULL;
    struct err e = {0};

    golden_read(&want, case_dir[at]);
    assert_int_equal(pool_open(&pool, 2, false, &e), 0);
    if (model_open(&m, case_path[at], pool, &e))
        fail_msg("%s: %s", case_path[at], e.msg);
    assert_int_equal(m->params.n_vocab, want.n_vocab);
    check_tokens(m->source, case_dir[at], case_path[at]);
    for (const struct isa *isa = isa_table; isa->name; isa++) {
        struct engine_opts o = {.isa = isa->name, .exact = true, .kv_type = KV_F32, .ctx_tokens = 640, .n_seqs = 2};
        struct engine *g = NULL;
        char what[600];

        if ((isa->flags & isa_detect()) != isa->flags)
            continue;
        snprintf(what, sizeof what, "%s (%s)", case_path[at], isa->name);
        if (engine_open(&g, m, pool, &o, &e))
            fail_msg("%s: %s", what, e.msg);
        for (uint32_t i = 0; i < want.n_seqs; i++)
            check_seq(g, &want, &want.seqs[i], what);
        engine_close(g);
    }
    model_close(m);
    pool_close(pool);
    free(want.bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Fills case_path and case_dir from the folders there are. */
static size_t find_cases(void)
{
    char *names[MAX_CASES];
    size_t n_names = 0, n = 0;
    struct dirent *d;
    DIR *dir = opendir(ROOT);

    if (!dir)
        return 0;
    while ((d = readdir(dir)) && n_names < MAX_CASES / 2)
        if (d->d_name[0] != '.')
            names[n_names++] = strdup(d->d_name);
    closedir(dir);
    qsort(names, n_names, sizeof *names, by_name);
    for (size_t i = 0; i < n_names; i++) {
        static const char *const inside[] = {"config.json", "model.gguf"};

        for (size_t k = 0; k < 2; k++) {
            char path[512];

            snprintf(path, sizeof path, ROOT "/%s/%s", names[i], inside[k]);
            if (access(path, R_OK))
                continue;
            snprintf(case_dir[n], sizeof case_dir[n], ROOT "/%s", names[i]);
            snprintf(case_path[n], sizeof case_path[n], "%s", k ? path : case_dir[n]);
            n++;
        }
        free(names[i]);
    }
    return n;
}

int main(void)
{
    static struct CMUnitTest tests[MAX_CASES];
    size_t n = find_cases();

    if (n < 10) {
        fprintf(stderr, "test_golden: models missing under " ROOT " (run it from the top of the source tree)\n");
        return 1;
    }
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = case_path[i], .test_func = check_case,
                                       .initial_state = (void *)(uintptr_t)i};
    return _cmocka_run_group_tests("golden", tests, n, NULL, NULL);
}
