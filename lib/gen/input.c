#include "lib/gen/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 10)

struct input {
    int fd;
    const char *name;
    char *buf;                /* [begin, end) is not handed out yet, [begin, seen) has no line end */
    size_t begin, seen, end, cap;
    uint64_t line, handed, size;
    bool eof, skipping, known;
};

int input_open(struct input **out, const char *path, struct err *e)
{
    struct input *in = calloc(1, sizeof *in);
    struct stat st;

    *out = NULL;
    if (!in)
        return err_set(e, ERR_NOMEM, "reading %s", path);
    in->name = strcmp(path, "-") ? path : "standard input";
    in->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (in->fd < 0 || fstat(in->fd, &st) || (S_ISDIR(st.st_mode) && (errno = EISDIR))) {
        int rc = err_set(e, ERR_IO, "%s: %s", in->name, strerror(errno));

        input_close(in);
        return rc;
    }
    in->known = S_ISREG(st.st_mode) && st.st_size > 0;
    in->size = in->known ? (uint64_t)st.st_size : 0;
    *out = in;
    return 0;
}

void input_close(struct input *in)
{
    if (!in)
        return;
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    free(in->buf);
    free(in);
}

/* Reads more bytes behind `end`. 1: read some, or the end; 0: nothing there yet, or a signal. */
static int fill(struct input *in, bool wait, struct err *e)
{
    struct pollfd p = { in->fd, POLLIN, 0 };
    ssize_t n;

    if (in->begin && in->begin == in->end)
        in->begin = in->seen = in->end = 0;
    if (in->cap - in->end < READ_BYTES + 1) {
        if (in->begin > in->cap / 2) {
            memmove(in->buf, in->buf + in->begin, in->end - in->begin);
            in->end -= in->begin;
            in->seen -= in->begin;
            in->begin = 0;
        } else {
            size_t cap = in->cap ? 2 * in->cap : 2 * READ_BYTES;
            char *buf = realloc(in->buf, cap);

            if (!buf)
                return err_set(e, ERR_NOMEM, "%s: a line of more than %zu bytes", in->name, in->cap);
            in->buf = buf;
            in->cap = cap;
        }
    }
    if (in->cap - in->end < READ_BYTES + 1)
        return fill(in, wait, e);
    if (!wait && poll(&p, 1, 0) == 0)
        return 0;
    n = read(in->fd, in->buf + in->end, READ_BYTES);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n < 0)
        return err_set(e, ERR_IO, "%s: %s", in->name, strerror(errno));
    in->eof = n == 0;
    in->end += (size_t)n;
    return 1;
}

/* Hands out [begin, begin + len), followed by `ending` bytes of line end. */
static int hand_out(struct input *in, size_t len, size_t ending, const char **text, size_t *n, uint64_t *line)
{
    char *s = in->buf + in->begin;

    in->begin += len + ending;
    in->seen = in->begin;
    in->handed += len + ending;
    *line = ++in->line;
    if (in->skipping) {
        in->skipping = false;
        return INPUT_LONG;
    }
    if (len && s[len - 1] == '\r')
        len--;
    s[len] = 0;
    if (in->line == 1 && len >= 3 && !memcmp(s, "\xef\xbb\xbf", 3)) {
        s += 3;
        len -= 3;
    }
    *text = s;
    *n = len;
    return INPUT_LINE;
}

int input_next(struct input *in, bool wait, const char **text, size_t *len, uint64_t *line, struct err *e)
{
    for (;;) {
        char *nl = in->end > in->seen ? memchr(in->buf + in->seen, '\n', in->end - in->seen) : NULL;
        int rc;

        if (nl)
            return hand_out(in, (size_t)(nl - in->buf) - in->begin, 1, text, len, line);
        in->seen = in->end;
        if (in->eof && in->begin == in->end && !in->skipping)
            return INPUT_END;
        if (in->eof)
            return hand_out(in, in->end - in->begin, 0, text, len, line);
        if (in->end - in->begin > INPUT_LINE_MAX) {
            in->handed += in->end - in->begin;
            in->begin = in->seen = in->end = 0;
            in->skipping = true;
        }
        rc = fill(in, wait, e);
        if (rc <= 0)
            return rc ? rc : INPUT_AGAIN;
    }
}

double input_fraction(const struct input *in)
{
    if (!in->known)
        return -1;
    return in->handed < in->size ? (double)in->handed / (double)in->size : 1;
}
