/* infer-run --tokenize and --detokenize. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/infer-run/run.h"
#include "lib/io/outfile.h"

/* The whole of a file ("-": standard input), NUL-terminated; the caller frees it. */
static int read_all(const char *path, char **text, size_t *len, struct err *e)
{
    int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO, rc = 0;
    size_t cap = 1 << 16, n = 0;
    char *buf = malloc(cap);
    ssize_t got = -1;

    if (fd >= 0 && buf)
        while ((got = read(fd, buf + n, cap - n - 1)) > 0) {
            n += (size_t)got;
            if (n + 1 == cap) {
                char *b = realloc(buf, cap * 2);

                if (!b) {
                    errno = ENOMEM;
                    got = -1;
                    break;
                }
                buf = b;
                cap *= 2;
            }
        }
    if (got < 0)
        rc = err_set(e, ERR_IO, "%s: %s", strcmp(path, "-") ? path : "standard input", strerror(errno));
    if (fd > STDIN_FILENO)
        close(fd);
    if (rc) {
        free(buf);
        return rc;
    }
    buf[n] = 0;
    *text = buf;
    *len = n;
    return 0;
}

static int open_tokenizer(const struct run_args *a, struct source **src, struct tokenizer **tok, struct err *e)
{
    int rc = source_open(src, a->common.model, e);

    return rc ? rc : tokenizer_open(tok, *src, a->pre_tokenizer, e);
}

int run_tokenize(const struct run_args *a)
{
    struct source *src = NULL;
    struct tokenizer *tok = NULL;
    struct token_list ids = { 0 };
    struct outfile out = { 0 };
    char *text = NULL;
    size_t len = 0;
    struct err e;
    int rc = open_tokenizer(a, &src, &tok, &e);

    if (!rc)
        rc = read_all(a->input, &text, &len, &e);
    if (!rc)
        rc = tokenizer_encode(tok, text, len, a->special ? TOKEN_PARSE_SPECIAL : 0, &ids, &e);
    if (!rc)
        rc = outfile_open(&out, a->common.output, &e);
    if (!rc) {
        for (size_t i = 0; i < ids.n; i++)
            fprintf(out.f, "%d\n", (int)ids.ids[i]);
        if (out.f != stdout)
            rc = outfile_commit(&out, &e);
    }
    if (rc)
        common_fail(&a->common, &e);
    free(ids.ids);
    free(text);
    tokenizer_close(tok);
    source_close(src);
    return rc ? EXIT_FAILED : EXIT_GOOD;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',';
}

/* Numbers between blanks to ids. */
static int read_ids(const char *name, const char *text, size_t len, uint32_t n_vocab, struct token_list *ids,
                    struct err *e)
{
    size_t line = 1;

    for (size_t i = 0; i < len;) {
        char word[24];
        size_t n = 0;
        uint64_t id;

        if (is_blank(text[i])) {
            line += text[i++] == '\n';
            continue;
        }
        while (i + n < len && !is_blank(text[i + n]) && n < sizeof word - 1) {
            word[n] = text[i + n];
            n++;
        }
        word[n] = 0;
        i += n;
        if (!common_u64(word, 0, n_vocab - 1, &id))
            return err_set(e, ERR_FORMAT, "%s:%zu: \"%s\" is not a token id from 0 to %u", name, line, word,
                           (unsigned)(n_vocab - 1));
        if (ids->n == ids->cap) {
            size_t cap = ids->cap ? 2 * ids->cap : 4096;
            int32_t *v = realloc(ids->ids, cap * sizeof *v);

            if (!v)
                return err_set(e, ERR_NOMEM, "%zu token ids", cap);
            ids->ids = v;
            ids->cap = cap;
        }
        ids->ids[ids->n++] = (int32_t)id;
    }
    return 0;
}

int run_detokenize(const struct run_args *a)
{
    struct source *src = NULL;
    struct tokenizer *tok = NULL;
    struct token_list ids = { 0 };
    struct outfile out = { 0 };
    char *text = NULL, *bytes = NULL;
    size_t len = 0, n = 0;
    struct err e;
    int rc = open_tokenizer(a, &src, &tok, &e);

    if (!rc)
        rc = read_all(a->input, &text, &len, &e);
    if (!rc)
        rc = read_ids(a->input, text, len, tokenizer_n_vocab(tok), &ids, &e);
    if (!rc)
        rc = tokenizer_decode(tok, ids.ids, ids.n, true, &bytes, &n, &e);
    if (!rc)
        rc = outfile_open(&out, a->common.output, &e);
    if (!rc) {
        fwrite(bytes ? bytes : "", 1, n, out.f);
        if (out.f != stdout)
            rc = outfile_commit(&out, &e);
    }
    if (rc)
        common_fail(&a->common, &e);
    free(bytes);
    free(ids.ids);
    free(text);
    tokenizer_close(tok);
    source_close(src);
    return rc ? EXIT_FAILED : EXIT_GOOD;
}
