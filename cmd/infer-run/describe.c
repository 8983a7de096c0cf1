/* infer-run --describe: what a model file holds, from its metadata; no weight is read. */
#include <stdlib.h>
#include <string.h>

#include "cmd/infer-run/run.h"
#include "lib/io/outfile.h"
#include "lib/model/digest.h"

#define TYPES_MAX 64u

struct type_sum {
    const char *name;
    uint64_t tensors, weights, bytes;
};

struct subject {
    struct source *src;
    struct model_params p;
    struct model_bits bits;
    struct tokenizer *tok;       /* NULL: tok_error says why */
    struct err tok_error, chat_error;
    const struct chat_template *chat;
    struct type_sum types[TYPES_MAX];
    uint32_t n_types;
};

static uint64_t n_weights(const struct source_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < t->n_dims; d++)
        n *= t->dims[d];
    return n;
}

/* What the tensors say rather than the metadata: the rows of the embedding, and whether there is a head of its own. */
static void look_at_tensors(struct subject *s)
{
    s->p.tied = true;
    for (size_t i = 0; i < source_n_tensors(s->src); i++) {
        const struct source_tensor *t = source_tensor_at(s->src, i);
        char buf[128];
        const char *name = model_canonical_name(s->src, &s->p, t->name, buf, sizeof buf);

        if (name && !strcmp(name, "token_embd.weight") && t->n_dims == 2 && t->dims[0] <= UINT32_MAX)
            s->p.n_vocab = (uint32_t)t->dims[0];
        if (name && !strcmp(name, "output.weight"))
            s->p.tied = false;
    }
}

static int open_subject(struct subject *s, const struct run_args *a, struct err *e)
{
    int rc = source_open(&s->src, a->common.model, e);

    if (!rc)
        rc = model_params_read(&s->p, s->src, e);
    if (rc)
        return rc;
    source_bits_count(s->src, &s->p, &s->bits);
    look_at_tensors(s);
    for (size_t i = 0; i < source_n_tensors(s->src); i++) {
        const struct source_tensor *t = source_tensor_at(s->src, i);
        const char *name = dtype_info(t->type)->name;
        uint32_t k = 0;

        while (k < s->n_types && s->types[k].name != name)
            k++;
        if (k == TYPES_MAX)
            continue;
        s->n_types += k == s->n_types;
        s->types[k].name = name;
        s->types[k].tensors++;
        s->types[k].weights += n_weights(t);
        s->types[k].bytes += t->bytes;
    }
    if (!tokenizer_open(&s->tok, s->src, a->pre_tokenizer, &s->tok_error))
        chat_template_find(&s->chat, s->tok, a->template_name, &s->chat_error);
    return 0;
}

static void close_subject(struct subject *s)
{
    tokenizer_close(s->tok);
    source_close(s->src);
}

static const char *scaling_name(enum rope_scaling r)
{
    return r == ROPE_LLAMA3 ? "llama3" : r == ROPE_LINEAR ? "linear" : "none";
}

/* Hyperparameters, the same for text and JSON. */
static json_t *params_json(const struct model_params *p)
{
    json_t *o = json_pack("{sI sI sI sI sI sI sI sI}", "n_layers", (json_int_t)p->n_layers, "n_embd",
                          (json_int_t)p->n_embd, "n_heads", (json_int_t)p->n_heads, "n_kv_heads",
                          (json_int_t)p->n_kv_heads, "head_dim", (json_int_t)p->head_dim, "n_ff", (json_int_t)p->n_ff,
                          "n_vocab", (json_int_t)p->n_vocab, "n_ctx_train", (json_int_t)p->n_ctx_train);
    json_t *more = json_pack("{sf sf sf ss ss sf sf ss sI sI sb sb sb sb sb}", "rms_eps", (double)p->rms_eps,
                             "attn_scale", (double)p->attn_scale, "embed_scale", (double)p->embed_scale, "activation",
                             p->act == MODEL_SILU ? "silu" : "gelu_tanh", "rope_pairs",
                             p->rope_interleaved ? "interleaved" : "halves", "rope_theta", (double)p->rope_theta,
                             "rope_theta_local", (double)p->rope_theta_local, "rope_scaling",
                             scaling_name(p->rope_scaling), "window", (json_int_t)p->window, "window_pattern",
                             (json_int_t)p->window_pattern, "qkv_bias", p->qkv_bias, "qk_norm", p->qk_norm, "post_norms",
                             p->post_norms, "norm_plus_one", p->norm_plus_one, "tied", p->tied);

    if (o && more)
        json_object_update(o, more);
    json_decref(more);
    return o;
}

static json_t *tokenizer_json(const struct subject *s)
{
    json_t *o;

    if (!s->tok)
        return json_pack("{ss}", "error", s->tok_error.msg);
    o = json_pack("{ss ss sI si si sb sb}", "kind", tokenizer_kind(s->tok), "pre_tokenizer", tokenizer_pre(s->tok),
                  "n_vocab", (json_int_t)tokenizer_n_vocab(s->tok), "bos", (int)tokenizer_bos(s->tok), "eos",
                  (int)tokenizer_eos(s->tok), "add_bos", tokenizer_add_bos(s->tok), "add_eos",
                  tokenizer_add_eos(s->tok));
    json_object_set_new(o, "chat_template", s->chat ? json_string(chat_template_name(s->chat)) : json_null());
    return o;
}

static json_t *tensors_json(const struct subject *s)
{
    json_t *all = json_array();

    for (size_t i = 0; i < source_n_tensors(s->src); i++) {
        const struct source_tensor *t = source_tensor_at(s->src, i);
        json_t *shape = json_array();

        for (uint32_t d = 0; d < t->n_dims; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->dims[d]));
        json_array_append_new(all, json_pack("{ss ss so sI}", "name", t->name, "type", dtype_info(t->type)->name, "shape",
                                             shape, "bytes", (json_int_t)t->bytes));
    }
    return all;
}

static json_t *types_json(const struct subject *s)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < s->n_types; i++)
        json_array_append_new(all, json_pack("{ss sI sI sI}", "type", s->types[i].name, "tensors",
                                             (json_int_t)s->types[i].tensors, "weights",
                                             (json_int_t)s->types[i].weights, "bytes", (json_int_t)s->types[i].bytes));
    return all;
}

static json_t *subject_json(const struct subject *s, json_t *row)
{
    json_t *sizes = json_pack("{ss ss ss sI sI sI sf sf}", "model", source_path(s->src), "container",
                              source_kind(s->src) == SOURCE_GGUF ? "gguf" : "hf", "architecture", s->p.arch, "file_bytes",
                              (json_int_t)source_file_bytes(s->src), "weights", (json_int_t)s->bits.n_weights,
                              "weight_bytes", (json_int_t)s->bits.bytes, "bits_per_weight", s->bits.bits_per_weight,
                              "bits_per_weight_linear", s->bits.bits_per_weight_linear);

    if (sizes && row)
        json_object_update(row, sizes);
    json_decref(sizes);
    json_object_set_new(row, "parameters", params_json(&s->p));
    json_object_set_new(row, "tokenizer", tokenizer_json(s));
    json_object_set_new(row, "types", types_json(s));
    json_object_set_new(row, "tensors", tensors_json(s));
    return row;
}

/* "name value" lines of a flat object. */
static void print_flat(FILE *f, json_t *o)
{
    const char *key;
    json_t *v;

    json_object_foreach(o, key, v) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));

        if (json_is_string(v))
            fprintf(f, "%-22s %s\n", key, json_string_value(v));
        else
            fprintf(f, "%-22s %s\n", key, text ? text : "");
        free(text);
    }
    json_decref(o);
}

static void print_text(const struct subject *s, FILE *f)
{
    int width = 6;

    fprintf(f, "# model\n%-22s %s\n%-22s %s\n%-22s %s\n", "path", source_path(s->src), "container",
            source_kind(s->src) == SOURCE_GGUF ? "gguf" : "hf", "architecture", s->p.arch);
    print_flat(f, params_json(&s->p));
    fprintf(f, "# size\n%-22s %llu\n%-22s %llu\n%-22s %llu\n%-22s %.4f\n%-22s %.4f\n", "file_bytes",
            (unsigned long long)source_file_bytes(s->src), "weights", (unsigned long long)s->bits.n_weights,
            "weight_bytes", (unsigned long long)s->bits.bytes, "bits_per_weight", s->bits.bits_per_weight,
            "bits_per_weight_linear", s->bits.bits_per_weight_linear);
    fprintf(f, "# tokenizer\n");
    print_flat(f, tokenizer_json(s));
    fprintf(f, "# %-6s %8s %14s %14s %9s\n", "type", "tensors", "weights", "bytes", "bits");
    for (uint32_t i = 0; i < s->n_types; i++)
        fprintf(f, "%-8s %8llu %14llu %14llu %9.4f\n", s->types[i].name, (unsigned long long)s->types[i].tensors,
                (unsigned long long)s->types[i].weights, (unsigned long long)s->types[i].bytes,
                s->types[i].weights ? 8.0 * (double)s->types[i].bytes / (double)s->types[i].weights : 0);
    for (size_t i = 0; i < source_n_tensors(s->src); i++) {
        int n = (int)strlen(source_tensor_at(s->src, i)->name);

        width = n > width ? n : width;
    }
    fprintf(f, "# %-*s %-8s %12s  %s\n", width - 2, "tensor", "type", "bytes", "shape");
    for (size_t i = 0; i < source_n_tensors(s->src); i++) {
        const struct source_tensor *t = source_tensor_at(s->src, i);

        fprintf(f, "%-*s %-8s %12llu  ", width, t->name, dtype_info(t->type)->name, (unsigned long long)t->bytes);
        for (uint32_t d = 0; d < t->n_dims; d++)
            fprintf(f, "%s%llu", d ? " x " : "", (unsigned long long)t->dims[d]);
        fputc('\n', f);
    }
}

int run_describe(const struct run_args *a)
{
    struct subject s = { 0 };
    struct outfile out = { 0 };
    struct err e;
    int rc = open_subject(&s, a, &e);

    if (!rc)
        rc = outfile_open(&out, a->common.output, &e);
    if (!rc) {
        if (a->common.json)
            rc = common_row_print(out.f, subject_json(&s, common_row(&a->common, NULL)));
        else
            print_text(&s, out.f);
        if (rc)
            err_set(&e, rc, "out of memory");
        else if (out.f != stdout)
            rc = outfile_commit(&out, &e);
    }
    if (rc)
        common_fail(&a->common, &e);
    outfile_abort(&out);
    close_subject(&s);
    return rc ? EXIT_FAILED : EXIT_GOOD;
}
