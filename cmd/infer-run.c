/* infer-run: text from a language model. The modes are in cmd/infer-run/. */
#include "cmd/infer-run/run.h"

static int print_names(const char *const *names)
{
    for (; *names; names++)
        puts(*names);
    return EXIT_GOOD;
}

static int print_formats(void)
{
    printf("# %-6s %8s\n", "type", "bits");
    for (uint32_t t = 0; t <= UINT16_MAX; t++) {
        const struct dtype_info *i = dtype_info(t);

        if (i)
            printf("%-8s %8.4f\n", i->name, 8.0 * i->block_bytes / i->block);
    }
    return EXIT_GOOD;
}

static int run_mode(const struct run_args *a)
{
    switch (a->mode) {
    case RUN_BATCH: return run_batch(a);
    case RUN_PROMPT: return run_prompt(a);
    case RUN_CHAT: return run_chat(a);
    case RUN_DESCRIBE: return run_describe(a);
    case RUN_TOKENIZE: return run_tokenize(a);
    case RUN_DETOKENIZE: return run_detokenize(a);
    case RUN_ARCHS: return print_names(model_arch_names());
    case RUN_FORMATS: return print_formats();
    case RUN_TEMPLATES: return print_names(chat_template_names());
    }
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct run_args a;
    int status;

    common_signals();
    run_args_parse(&a, argc, argv);
    status = run_mode(&a);
    run_args_fini(&a);
    return common_exit(&a.common, status);
}
