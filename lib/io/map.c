#include "lib/io/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int map_memory(struct map *m, const void *data, size_t bytes, const char *name, struct err *e)
{
    *m = (struct map){ .data = data, .bytes = bytes };
    m->path = strdup(name);
    return m->path ? 0 : err_set(e, ERR_NOMEM, "no memory to open %s", name);
}

int map_open(struct map *m, const char *path, struct err *e)
{
    struct stat st;
    int fd, rc = 0;
    void *p;

    memset(m, 0, sizeof *m);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &st))
        rc = err_set(e, ERR_IO, "%s: cannot examine: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = err_set(e, ERR_IO, "%s: not a regular file", path);
    else if ((uintmax_t)st.st_size > SIZE_MAX)
        rc = err_set(e, ERR_LIMIT, "%s: too large to map", path);
    if (!rc)
        rc = map_memory(m, NULL, (size_t)st.st_size, path, e);
    if (!rc && m->bytes) {
        p = mmap(NULL, m->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            rc = err_set(e, ERR_IO, "%s: cannot map: %s", path, strerror(errno));
        } else {
            m->data = p;
            m->owned = 1;
        }
    }
    close(fd);
    if (rc)
        map_close(m);
    return rc;
}

void map_close(struct map *m)
{
    if (m->owned)
        munmap((void *)(uintptr_t)m->data, m->bytes);
    free(m->path);
    memset(m, 0, sizeof *m);
}

void map_release(const struct map *m, const void *p, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)p + page - 1) & ~(page - 1), end = ((uintptr_t)p + n) & ~(page - 1);

    if (m->owned && begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}
