/* Shared options and their values. */
#include "cmd/common.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/isa.h"

enum { KEY_ISA = 0x100, KEY_EXACT, KEY_CTX, KEY_KV_TYPE, KEY_KV_MEMORY, KEY_MEMORY, KEY_SEED, KEY_JSON, KEY_CONFIG };

struct row {
    unsigned bit; /* 0: always */
    struct argp_option opt;
};

static const struct row shared_options[] = {
    { COMMON_MODEL, { "model", 'm', "PATH", 0, "Model: a GGUF file or a Hugging Face folder", 1 } },
    { COMMON_OUTPUT, { "output", 'o', "FILE", 0, "Write to FILE, which appears when it is complete", 1 } },
    { COMMON_DATA, { "data", 'd', "FILE", 0, "Text to read; - is standard input", 1 } },
    { COMMON_THREADS, { "threads", 't', "N", 0, "Threads (default: the physical cores of the affinity mask)", 2 } },
    { COMMON_ISA, { "isa", KEY_ISA, "NAME", 0, "Use kernels up to this instruction set; --version lists them", 2 } },
    { COMMON_EXACT, { "exact", KEY_EXACT, 0, 0, "Float activations instead of 8-bit ones", 2 } },
    { COMMON_CTX, { "ctx", KEY_CTX, "TOKENS", 0, "Longest sequence in tokens", 2 } },
    { COMMON_KV_TYPE, { "kv-type", KEY_KV_TYPE, "bf16|f32", 0, "Type of cached keys and values (default: bf16)", 2 } },
    { COMMON_KV_MEMORY, { "kv-memory", KEY_KV_MEMORY, "BYTES", 0, "Size of the KV cache, with K, M or G", 2 } },
    { COMMON_MEMORY, { "memory", KEY_MEMORY, "BYTES", 0, "Memory to stay within, with K, M or G", 2 } },
    { COMMON_SEED, { "seed", KEY_SEED, "N", 0, "Seed of random numbers (default: 0)", 2 } },
    { COMMON_JSON, { "json", KEY_JSON, 0, 0, "One JSON object per line on standard output", 3 } },
    { 0, { "config", KEY_CONFIG, "FILE.yaml", 0, "Take options from FILE.yaml; the command line wins", 3 } },
    { 0, { "quiet", 'q', 0, 0, "No progress and no warnings", 3 } },
    { 0, { "verbose", 'v', 0, 0, "Say more on standard error", 3 } },
};

_Static_assert(sizeof shared_options / sizeof shared_options[0] < COMMON_N_OPTIONS, "room for the end of the table");

static error_t parse_shared(int key, char *arg, struct argp_state *state);

const struct argp_child *common_init(struct common *c, const char *tool, unsigned mask)
{
    size_t n = 0;

    memset(c, 0, sizeof *c);
    c->tool = tool;
    for (size_t i = 0; i < sizeof shared_options / sizeof shared_options[0]; i++)
        if (!shared_options[i].bit || (mask & shared_options[i].bit))
            c->options[n++] = shared_options[i].opt;
    c->argp.options = c->options;
    c->argp.parser = parse_shared;
    c->children[0].argp = &c->argp;
    return c->children;
}

bool common_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    unsigned long long v;
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    v = strtoull(text, &end, 10);
    if (errno || *end || v < min || v > max)
        return false;
    *out = v;
    return true;
}

bool common_f64(const char *text, double min, double max, double *out)
{
    char *end;
    double v;

    if (isspace((unsigned char)text[0]))
        return false;
    v = strtod(text, &end);
    if (end == text || *end || !isfinite(v) || v < min || v > max)
        return false;
    *out = v;
    return true;
}

bool common_size(const char *text, size_t *out)
{
    static const char units[] = "KMGT";
    double v, scale = 1;
    const char *u;
    char *end;

    if (!isdigit((unsigned char)text[0]) || text[1] == 'x' || text[1] == 'X')
        return false;
    v = strtod(text, &end);
    if (*end && (u = strchr(units, toupper((unsigned char)*end)))) {
        scale = (double)((uint64_t)1 << (10 * (u - units + 1)));
        end++;
        if (!strcmp(end, "iB") || !strcmp(end, "B"))
            end += strlen(end);
    }
    v *= scale;
    if (*end || !(v >= 1) || v > 0x1p62)
        return false;
    *out = (size_t)v;
    return true;
}

bool common_u32_list(const char *text, uint32_t min, uint32_t max, uint32_t **out, size_t *n)
{
    size_t count = 1;
    uint32_t *list;

    *out = NULL;
    *n = 0;
    for (const char *p = text; *p; p++)
        count += *p == ',';
    list = malloc(count * sizeof *list);
    for (size_t i = 0; list && i < count; i++) {
        size_t len = strcspn(text, ",");
        char one[24];
        uint64_t v;

        if (len >= sizeof one)
            goto fail;
        memcpy(one, text, len);
        one[len] = 0;
        if (!common_u64(one, min, max, &v))
            goto fail;
        list[i] = (uint32_t)v;
        text += len + 1;
    }
    if (!list)
        return false;
    *out = list;
    *n = count;
    return true;
fail:
    free(list);
    return false;
}

void common_bad_value(const struct common *c, struct argp_state *state, const char *option, const char *value,
                      const char *want)
{
    int at = state->next - 2; /* injected arguments stand first, each whole in its argument */

    if (at >= 0 && (size_t)at < c->n_injected)
        argp_error(state, "%s:%u: %s=%s: %s", c->config, c->lines[at], option + 2, value, want);
    else
        argp_error(state, "%s=%s: %s", option, value, want);
}

static void check_isa(const struct common *c, struct argp_state *state, const char *name)
{
    struct kern_ops ops;
    char want[128] = "unknown; this build has";
    int rc = kern_ops_init(&ops, name);

    for (const struct isa *i = isa_table; i->name; i++) {
        size_t n = strlen(want);

        snprintf(want + n, sizeof want - n, "%s %s", i == isa_table ? "" : ",", i->name);
    }
    if (rc)
        common_bad_value(c, state, "--isa", name, rc == -2 ? "this machine does not have it" : want);
}

static error_t parse_shared(int key, char *arg, struct argp_state *state)
{
    struct common *c = state->input;
    uint64_t v;

    switch (key) {
    case 'm': c->model = arg; break;
    case 'o': c->output = arg; break;
    case 'd': c->data = arg; break;
    case 't':
        if (!common_u64(arg, 1, 4096, &v))
            common_bad_value(c, state, "--threads", arg, "not a number from 1 to 4096");
        c->threads = (unsigned)v;
        break;
    case KEY_ISA:
        check_isa(c, state, arg);
        c->isa = arg;
        break;
    case KEY_EXACT: c->exact = true; break;
    case KEY_CTX:
        if (!common_u64(arg, 2, 1u << 30, &v))
            common_bad_value(c, state, "--ctx", arg, "not a number of tokens (at least 2)");
        c->ctx_tokens = (uint32_t)v;
        break;
    case KEY_KV_TYPE:
        if (strcmp(arg, "bf16") && strcmp(arg, "f32"))
            common_bad_value(c, state, "--kv-type", arg, "not bf16 or f32");
        c->kv_type = strcmp(arg, "f32") ? KV_BF16 : KV_F32;
        break;
    case KEY_KV_MEMORY:
        if (!common_size(arg, &c->kv_bytes))
            common_bad_value(c, state, "--kv-memory", arg, "not a size such as 512M or 1.5G");
        break;
    case KEY_MEMORY:
        if (!common_size(arg, &c->memory_bytes))
            common_bad_value(c, state, "--memory", arg, "not a size such as 512M or 1.5G");
        break;
    case KEY_SEED:
        if (!common_u64(arg, 0, UINT64_MAX, &c->seed))
            common_bad_value(c, state, "--seed", arg, "not a number from 0 to 2^64 - 1");
        c->seed_given = true;
        break;
    case KEY_JSON: c->json = true; break;
    case KEY_CONFIG: c->config = arg; break;
    case 'q': c->quiet = true; break;
    case 'v': c->verbose++; break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}
