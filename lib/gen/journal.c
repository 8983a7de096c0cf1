/* Journals of batch runs: reading one back, and putting it in order. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/gen/record.h"
#include "lib/gen/sink_priv.h"

static int keep_grow(struct sink *s, struct err *e)
{
    uint64_t cap = s->kept_cap ? 2 * s->kept_cap : 1024;
    struct kept_record *old = s->kept, *v;

    if (2 * (s->stats.kept + 1) <= s->kept_cap)
        return 0;
    v = calloc(cap, sizeof *v);
    if (!v)
        return err_set(e, ERR_NOMEM, "table of %llu records", (unsigned long long)cap);
    for (uint64_t i = 0; i < s->kept_cap; i++) {
        uint64_t at = old[i].key * 0x9e3779b97f4a7c15u >> 20;

        if (!old[i].key)
            continue;
        while (v[at & (cap - 1)].key)
            at++;
        v[at & (cap - 1)] = old[i];
    }
    free(old);
    s->kept = v;
    s->kept_cap = cap;
    return 0;
}

static int keep(struct sink *s, const char *text, size_t len, uint64_t offset, struct err *e)
{
    struct record_key k;
    uint64_t key, at;
    int rc = record_read(&k, text, len, e);

    if (rc)
        return rc;
    if (k.line > UINT64_MAX / GEN_N_MAX - 1)
        return err_set(e, ERR_FORMAT, "line %llu is too large a number", (unsigned long long)k.line);
    if (sink_find_kept(s, k.line, k.index))
        return err_set(e, ERR_FORMAT, "a second record for line %llu, index %u", (unsigned long long)k.line,
                       (unsigned)k.index);
    rc = keep_grow(s, e);
    if (rc)
        return rc;
    key = k.line * GEN_N_MAX + k.index + 1;
    at = key * 0x9e3779b97f4a7c15u >> 20;
    while (s->kept[at & (s->kept_cap - 1)].key)
        at++;
    s->kept[at & (s->kept_cap - 1)] = (struct kept_record){ key, k.id_hash, { offset, len + 1 } };
    s->stats.kept++;
    s->stats.kept_failed += k.failed;
    return 0;
}

int sink_load(struct sink *s, struct err *e)
{
    int fd = dup(s->fd), rc = 0;
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *line = NULL;
    size_t cap = 0;
    uint64_t number = 0;
    ssize_t n;

    if (!f) {
        if (fd >= 0)
            close(fd);
        return err_set(e, ERR_IO, "%s: %s", s->name, strerror(errno));
    }
    rewind(f);
    while (!rc && (n = getline(&line, &cap, f)) > 0) {
        number++;
        if (line[n - 1] != '\n') {
            s->stats.torn_bytes = (uint64_t)n;
            break;
        }
        rc = keep(s, line, (size_t)n - 1, s->bytes, e);
        if (rc)
            err_prefix(e, "%s, line %llu (move the file away to begin anew)", s->name, (unsigned long long)number);
        s->bytes += (uint64_t)n;
    }
    if (!rc && ferror(f))
        rc = err_set(e, ERR_IO, "%s: %s", s->name, strerror(errno));
    if (!rc && s->stats.torn_bytes && ftruncate(s->fd, (off_t)s->bytes))
        rc = err_set(e, ERR_IO, "%s: %s", s->name, strerror(errno));
    free(line);
    fclose(f);
    return rc;
}

bool sink_in_order(const struct sink *s)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < s->n_slots; i++) {
        if (!s->places[i].bytes)
            continue;
        if (s->places[i].offset != at)
            return false;
        at += s->places[i].bytes;
    }
    return at == s->bytes || s->matched < s->stats.kept;
}

static int copy_place(int from, FILE *to, struct place p, char **buf, size_t *cap)
{
    if (p.bytes > *cap) {
        char *b = realloc(*buf, p.bytes);

        if (!b)
            return ENOMEM;
        *buf = b;
        *cap = p.bytes;
    }
    for (uint64_t at = 0; at < p.bytes;) {
        ssize_t n = pread(from, *buf + at, p.bytes - at, (off_t)(p.offset + at));

        if (n <= 0)
            return n ? errno : EIO;
        at += (uint64_t)n;
    }
    errno = 0;
    return fwrite(*buf, 1, p.bytes, to) == p.bytes ? 0 : errno ? errno : EIO;
}

static int by_offset(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Copies the kept records that no slot refers to, in the order they had. */
static int copy_foreign(struct sink *s, FILE *to, char **buf, size_t *cap)
{
    const uint64_t n_kept = s->stats.kept;
    struct place *all = malloc((n_kept + s->n_slots + 1) * sizeof *all);
    uint64_t n = 0, k = 0;
    int rc = all ? 0 : ENOMEM;

    for (uint64_t i = 0; all && i < s->kept_cap; i++)
        if (s->kept[i].key)
            all[n++] = s->kept[i].place;
    if (all)
        memcpy(all + n, s->places, s->n_slots * sizeof *all);
    if (all) {
        qsort(all, n, sizeof *all, by_offset);
        qsort(all + n, s->n_slots, sizeof *all, by_offset);
    }
    for (uint64_t i = 0; !rc && i < n; i++) {
        while (k < s->n_slots && (!all[n + k].bytes || all[n + k].offset < all[i].offset))
            k++;
        if (k == s->n_slots || all[n + k].offset != all[i].offset)
            rc = copy_place(s->fd, to, all[i], buf, cap);
    }
    free(all);
    return rc;
}

int sink_sort(struct sink *s, struct err *e)
{
    size_t n = strlen(s->path) + 8, cap = 0;
    char *tmp = malloc(n), *buf = NULL;
    FILE *f = NULL;
    int why = ENOMEM;

    if (!tmp)
        goto done;
    snprintf(tmp, n, "%s.sorted", s->path);
    f = fopen(tmp, "we");
    why = f ? 0 : errno;
    for (uint64_t i = 0; !why && i < s->n_slots; i++)
        why = copy_place(s->fd, f, s->places[i], &buf, &cap);
    if (!why && s->matched < s->stats.kept)
        why = copy_foreign(s, f, &buf, &cap);
    if (!why && (fflush(f) || fsync(fileno(f))))
        why = errno;
    if (f && fclose(f) && !why)
        why = errno;
    if (!why && rename(tmp, s->path))
        why = errno;
    if (why)
        unlink(tmp);
    else if (s->journal == s->partial)
        unlink(s->partial);
done:
    free(tmp);
    free(buf);
    return why ? err_set(e, ERR_IO, "%s: putting the records in order: %s", s->path, strerror(why)) : 0;
}
