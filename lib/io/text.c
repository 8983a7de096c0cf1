#include "lib/io/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Space for the file's size where it has one, so that it is read without growing. */
static size_t first_size(int fd)
{
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
        return 1 << 16;
    return (size_t)st.st_size + 2; /* the NUL, and one byte in which the end shows */
}

static int read_all(int fd, const char *path, char **buf, size_t *len, struct err *e)
{
    size_t cap = first_size(fd);

    *len = 0;
    *buf = malloc(cap);
    while (*buf) {
        ssize_t got = read(fd, *buf + *len, cap - 1 - *len);
        char *more;

        if (got < 0 && errno == EINTR)
            return err_set(e, ERR_CANCELED, "%s: interrupted", path);
        if (got < 0)
            return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        *len += (size_t)got;
        if (got == 0) {
            (*buf)[*len] = 0;
            return 0;
        }
        if (*len < cap - 1)
            continue;
        more = cap <= SIZE_MAX / 2 ? realloc(*buf, cap *= 2) : NULL;
        if (!more)
            break;
        *buf = more;
    }
    return err_set(e, ERR_NOMEM, "%s: a text of more than %zu bytes does not fit in memory", path, *len);
}

int text_read(char **out, size_t *len, const char *path, struct err *e)
{
    bool std = !strcmp(path, "-");
    int fd = std ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), rc;
    char *buf = NULL;

    *out = NULL;
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    rc = read_all(fd, path, &buf, len, e);
    if (!std)
        close(fd);
    if (rc) {
        free(buf);
        return rc;
    }
    *out = buf;
    return 0;
}
