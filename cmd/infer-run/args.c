/* Options of infer-run. */
#include <stdlib.h>
#include <string.h>

#include "cmd/infer-run/run.h"

enum {
    KEY_CHAT = 0x1000, KEY_DESCRIBE, KEY_TOKENIZE, KEY_DETOKENIZE, KEY_ARCHS, KEY_FORMATS, KEY_TEMPLATES, KEY_FORMAT, KEY_RESUME,
    KEY_UNORDERED, KEY_TOKEN_IDS, KEY_NO_TIMINGS, KEY_CHUNK, KEY_TEMPLATE, KEY_INSTRUCT, KEY_SYSTEM, KEY_SPECIAL,
    KEY_NO_SPECIAL, KEY_PRE, KEY_TEMPERATURE, KEY_TOP_K, KEY_TOP_P, KEY_MIN_P, KEY_REPETITION, KEY_PRESENCE,
    KEY_FREQUENCY, KEY_BIAS, KEY_STOP, KEY_STOP_IDS, KEY_IGNORE_EOS, KEY_LOGPROBS, KEY_N
};

static const struct argp_option options[] = {
    { 0, 0, 0, 0, "What to do (default: generate from the prompts in a file):", 10 },
    { "prompt", 'p', "TEXT", 0, "Continue TEXT and stream the result", 10 },
    { "chat", KEY_CHAT, 0, 0, "Hold a conversation in the terminal", 10 },
    { "describe", KEY_DESCRIBE, 0, 0, "Print architecture, tensors, types, sizes and tokenizer", 10 },
    { "tokenize", KEY_TOKENIZE, "FILE", 0, "Print the token ids of FILE, one per line", 10 },
    { "detokenize", KEY_DETOKENIZE, "FILE", 0, "Print the text of the token ids in FILE", 10 },
    { "list-archs", KEY_ARCHS, 0, 0, "Print the names of supported architectures", 10 },
    { "list-formats", KEY_FORMATS, 0, 0, "Print the types of weights that can be read, with bits per weight", 10 },
    { "list-templates", KEY_TEMPLATES, 0, 0, "Print the names of chat templates", 10 },
    { 0, 0, 0, 0, "Batches:", 20 },
    { "batch", 'b', "N", 0, "Sequences at once (default: 16)", 20 },
    { "chunk", KEY_CHUNK, "TOKENS", 0, "Prompt tokens computed at once (default: 512)", 20 },
    { "format", KEY_FORMAT, "text|jsonl", 0, "Format of the prompts (default: jsonl for *.jsonl, or when the first line is an object with prompt or messages)", 20 },
    { "resume", KEY_RESUME, "FILE", 0, "Write to FILE, going on after the records that it holds", 20 },
    { "unordered", KEY_UNORDERED, 0, 0, "Write records as they are finished", 20 },
    { "token-ids", KEY_TOKEN_IDS, 0, 0, "Put token_ids into records", 20 },
    { "no-timings", KEY_NO_TIMINGS, 0, 0, "Leave timings out of records", 20 },
    { 0, 0, 0, 0, "Prompts:", 30 },
    { "instruct", KEY_INSTRUCT, 0, 0, "Take text prompts as user messages of a chat, not as they are", 30 },
    { "system", KEY_SYSTEM, "TEXT", 0, "System message for --chat and text prompts; implies --instruct", 30 },
    { "chat-template", KEY_TEMPLATE, "NAME", 0, "Chat template (default: the one the model's own is recognised as)", 30 },
    { "pre-tokenizer", KEY_PRE, "NAME", 0, "Pre-tokenizer, where the model's is unknown", 30 },
    { "special", KEY_SPECIAL, 0, 0, "--tokenize: recognise special tokens in the text", 30 },
    { "no-special", KEY_NO_SPECIAL, 0, 0, "Do not recognise special tokens in text prompts", 30 },
    { 0, 0, 0, 0, "Generation, where a line does not say otherwise:", 40 },
    { "max-tokens", 'n', "N", 0, "Most tokens to generate (default: 256; --chat: as the context allows)", 40 },
    { "temperature", KEY_TEMPERATURE, "X", 0, "0 takes the most likely token (default: 0)", 40 },
    { "top-k", KEY_TOP_K, "N", 0, "Draw among the N most likely tokens (default: 0, all)", 40 },
    { "top-p", KEY_TOP_P, "X", 0, "Draw among the fewest tokens of probability X (default: 1)", 40 },
    { "min-p", KEY_MIN_P, "X", 0, "Draw among tokens of X times the best one's probability (default: 0)", 40 },
    { "repetition-penalty", KEY_REPETITION, "X", 0, "Divide the logits of tokens seen by X (default: 1)", 40 },
    { "presence-penalty", KEY_PRESENCE, "X", 0, "Subtract X for tokens generated before (default: 0)", 40 },
    { "frequency-penalty", KEY_FREQUENCY, "X", 0, "Subtract X each time a token was generated (default: 0)", 40 },
    { "logit-bias", KEY_BIAS, "ID=X", 0, "Add X to the logit of token ID; may be repeated", 40 },
    { "stop", KEY_STOP, "TEXT", 0, "End before TEXT; may be repeated", 40 },
    { "stop-token-ids", KEY_STOP_IDS, "ID,...", 0, "End at these tokens too", 40 },
    { "ignore-eos", KEY_IGNORE_EOS, 0, 0, "Go on after the model's end tokens", 40 },
    { "logprobs", KEY_LOGPROBS, "N", 0, "Log-probabilities of each token and of N alternatives", 40 },
    { "n", KEY_N, "N", 0, "Sequences for each prompt (default: 1)", 40 },
    { 0, 0, 0, 0, 0, 0 }
};

static const char doc[] = "Generate text with a language model."
    "\vPROMPTS has one prompt per line, or one JSON object per line; - is standard input. Records are JSON lines.";
static const char args_doc[] = "-m MODEL [PROMPTS]\n-m MODEL -p TEXT\n-m MODEL --chat\n-m MODEL --describe\n"
                               "-m MODEL --tokenize FILE\n-m MODEL --detokenize FILE";

static void set_mode(struct run_args *a, struct argp_state *state, enum run_mode mode, const char *option)
{
    if (a->mode_option && a->mode != mode)
        argp_error(state, "%s and %s exclude each other", a->mode_option, option);
    a->mode = mode;
    a->mode_option = option;
}

static float number(const struct run_args *a, struct argp_state *state, const char *option, const char *arg, double min,
                    double max)
{
    char want[64];
    double v = 0;

    snprintf(want, sizeof want, "not a number from %.10g to %.10g", min, max);
    if (!common_f64(arg, min, max, &v))
        common_bad_value(&a->common, state, option, arg, want);
    return (float)v;
}

static uint32_t whole(const struct run_args *a, struct argp_state *state, const char *option, const char *arg,
                      uint32_t min, uint32_t max)
{
    char want[64];
    uint64_t v = 0;

    snprintf(want, sizeof want, "not a whole number from %u to %u", (unsigned)min, (unsigned)max);
    if (!common_u64(arg, min, max, &v))
        common_bad_value(&a->common, state, option, arg, want);
    return (uint32_t)v;
}

static void set_bias(struct run_args *a, struct argp_state *state, const char *arg)
{
    char id[16], *eq = strchr(arg, '=');
    uint64_t token = 0;
    double bias = 0;

    if (!eq || (size_t)(eq - arg) >= sizeof id) {
        common_bad_value(&a->common, state, "--logit-bias", arg, "not ID=NUMBER");
        return;
    }
    memcpy(id, arg, (size_t)(eq - arg));
    id[eq - arg] = 0;
    if (!common_u64(id, 0, INT32_MAX, &token) || !common_f64(eq + 1, -1e6, 1e6, &bias) ||
        gen_params_add_bias(&a->params, (int32_t)token, (float)bias, NULL))
        common_bad_value(&a->common, state, "--logit-bias", arg, "not ID=NUMBER");
}

static void set_stop_ids(struct run_args *a, struct argp_state *state, const char *arg)
{
    uint32_t *ids;
    size_t n;
    bool ok = common_u32_list(arg, 0, INT32_MAX, &ids, &n);

    for (size_t i = 0; ok && i < n; i++)
        ok = !gen_params_add_stop_id(&a->params, (int32_t)ids[i], NULL);
    free(ids);
    if (!ok)
        common_bad_value(&a->common, state, "--stop-token-ids", arg, "not token ids, separated by commas");
}

/* Generation parameters. */
static error_t parse_params(int key, char *arg, struct argp_state *state)
{
    struct run_args *a = state->input;
    struct gen_params *p = &a->params;
    struct sample_params *s = &p->sample;
    struct err e;

    switch (key) {
    case 'n':
        p->max_tokens = whole(a, state, "--max-tokens", arg, 1, GEN_TOKENS_MAX);
        a->max_tokens_given = true;
        break;
    case KEY_TEMPERATURE: s->temperature = number(a, state, "--temperature", arg, 0, 1e6); break;
    case KEY_TOP_K: s->top_k = whole(a, state, "--top-k", arg, 0, INT32_MAX); break;
    case KEY_TOP_P: s->top_p = number(a, state, "--top-p", arg, 0, 1); break;
    case KEY_MIN_P: s->min_p = number(a, state, "--min-p", arg, 0, 1); break;
    case KEY_REPETITION: s->repetition_penalty = number(a, state, "--repetition-penalty", arg, 1e-6, 1e6); break;
    case KEY_PRESENCE: s->presence_penalty = number(a, state, "--presence-penalty", arg, -1e6, 1e6); break;
    case KEY_FREQUENCY: s->frequency_penalty = number(a, state, "--frequency-penalty", arg, -1e6, 1e6); break;
    case KEY_BIAS: set_bias(a, state, arg); break;
    case KEY_STOP:
        if (gen_params_add_stop(p, arg, strlen(arg), &e))
            common_bad_value(&a->common, state, "--stop", arg, e.msg);
        break;
    case KEY_STOP_IDS: set_stop_ids(a, state, arg); break;
    case KEY_IGNORE_EOS: p->ignore_eos = true; break;
    case KEY_LOGPROBS: p->logprobs = (int32_t)whole(a, state, "--logprobs", arg, 0, SAMPLE_TOP_MAX); break;
    case KEY_N: p->n = whole(a, state, "--n", arg, 1, GEN_N_MAX); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* The whole line is read: what does not go together? */
static void check(struct run_args *a, struct argp_state *state)
{
    const bool lists = a->mode == RUN_ARCHS || a->mode == RUN_FORMATS || a->mode == RUN_TEMPLATES;

    if (!a->common.model && !lists)
        argp_error(state, "no model: give -m PATH");
    if (a->mode != RUN_BATCH && a->input && !(a->mode == RUN_TOKENIZE || a->mode == RUN_DETOKENIZE))
        argp_error(state, "%s takes no file of prompts", a->mode_option);
    if (a->resume && a->mode != RUN_BATCH)
        argp_error(state, "%s cannot be resumed", a->mode_option);
    if (a->resume && a->common.output && strcmp(a->resume, a->common.output))
        argp_error(state, "--resume and --output name different files");
    if (a->mode == RUN_CHAT && a->params.n > 1)
        argp_error(state, "--chat holds one conversation: --n does not go with it");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct run_args *a = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->common; break;
    case 'p':
        set_mode(a, state, RUN_PROMPT, "--prompt");
        a->prompt = arg;
        break;
    case KEY_CHAT: set_mode(a, state, RUN_CHAT, "--chat"); break;
    case KEY_DESCRIBE: set_mode(a, state, RUN_DESCRIBE, "--describe"); break;
    case KEY_TOKENIZE:
        set_mode(a, state, RUN_TOKENIZE, "--tokenize");
        a->input = arg;
        break;
    case KEY_DETOKENIZE:
        set_mode(a, state, RUN_DETOKENIZE, "--detokenize");
        a->input = arg;
        break;
    case KEY_ARCHS: set_mode(a, state, RUN_ARCHS, "--list-archs"); break;
    case KEY_FORMATS: set_mode(a, state, RUN_FORMATS, "--list-formats"); break;
    case KEY_TEMPLATES: set_mode(a, state, RUN_TEMPLATES, "--list-templates"); break;
    case 'b': a->batch = whole(a, state, "--batch", arg, 1, 4096); break;
    case KEY_CHUNK: a->chunk_tokens = whole(a, state, "--chunk", arg, 1, 65536); break;
    case KEY_FORMAT:
        if (strcmp(arg, "text") && strcmp(arg, "jsonl"))
            common_bad_value(&a->common, state, "--format", arg, "not text or jsonl");
        a->format = strcmp(arg, "jsonl") ? JOB_TEXT : JOB_JSONL;
        break;
    case KEY_RESUME: a->resume = arg; break;
    case KEY_UNORDERED: a->unordered = true; break;
    case KEY_TOKEN_IDS: a->token_ids = true; break;
    case KEY_NO_TIMINGS: a->no_timings = true; break;
    case KEY_TEMPLATE: a->template_name = arg; break;
    case KEY_INSTRUCT: a->instruct = true; break;
    case KEY_SYSTEM:
        a->system = arg;
        a->instruct = true;
        break;
    case KEY_SPECIAL: a->special = true; break;
    case KEY_NO_SPECIAL: a->no_special = true; break;
    case KEY_PRE: a->pre_tokenizer = arg; break;
    case ARGP_KEY_ARG:
        if (a->input)
            argp_error(state, "%s: one file of prompts at a time", arg);
        a->input = arg;
        break;
    case ARGP_KEY_END: check(a, state); break;
    default: return parse_params(key, arg, state);
    }
    return 0;
}

void run_args_parse(struct run_args *a, int argc, char **argv)
{
    struct argp argp = { options, parse, args_doc, doc, NULL, NULL, NULL };

    memset(a, 0, sizeof *a);
    a->batch = 16;
    gen_params_init(&a->params);
    argp.children = common_init(&a->common, "infer-run", COMMON_ENGINE | COMMON_OUTPUT | COMMON_SEED | COMMON_JSON);
    common_parse(&a->common, &argp, argc, argv, a);
}

void run_args_fini(struct run_args *a)
{
    gen_params_clear(&a->params);
}
