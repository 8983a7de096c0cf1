#include "lib/gen/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/gen/record.h"
#include "lib/gen/sink_priv.h"

static int put_bytes(struct sink *s, const char *text, size_t len, struct err *e)
{
    size_t at = 0;

    while (at < len) {
        ssize_t n = write(s->fd, text + at, len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int why = n ? errno : EIO;

            s->stats.closed = why == EPIPE;
            if (s->journal && at && ftruncate(s->fd, (off_t)s->bytes))
                why = errno; /* the torn line stays; a resumed run drops it */
            return err_set(e, ERR_IO, "%s: %s", s->name, strerror(why));
        }
        at += (size_t)n;
    }
    s->bytes += len;
    s->stats.written++;
    return 0;
}

static char *join(const char *a, const char *b)
{
    size_t n = strlen(a) + strlen(b) + 1;
    char *s = malloc(n);

    if (s)
        snprintf(s, n, "%s%s", a, b);
    return s;
}

/* Chooses the journal's name and says whether it is to be there already. */
static int name_journal(struct sink *s, bool resume, struct err *e)
{
    bool have_partial = s->partial && !access(s->partial, F_OK), have = !access(s->path, F_OK);

    if (!s->partial)
        return err_set(e, ERR_NOMEM, "output %s", s->path);
    if (!resume) {
        if (have_partial)
            return err_set(e, ERR_INVAL, "%s holds finished records of an interrupted run: go on with --resume %s, or remove it",
                           s->partial, s->path);
        s->journal = s->partial;
        return 0;
    }
    if (have && have_partial)
        return err_set(e, ERR_INVAL, "both %s and %s are there: remove the one not to go on with", s->path, s->partial);
    if (have_partial && rename(s->partial, s->path))
        return err_set(e, ERR_IO, "%s: %s", s->path, strerror(errno));
    s->journal = s->path;
    return 0;
}

static int open_journal(struct sink *s, bool resume, struct err *e)
{
    int rc = name_journal(s, resume, e);

    if (rc)
        return rc;
    s->name = s->journal;
    s->fd = open(s->journal, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | (resume ? 0 : O_EXCL), 0666);
    if (s->fd < 0)
        return err_set(e, ERR_IO, "%s: %s", s->journal, strerror(errno));
    if (flock(s->fd, LOCK_EX | LOCK_NB))
        return err_set(e, ERR_IO, "%s: %s", s->journal,
                       errno == EWOULDBLOCK ? "another process is writing it" : strerror(errno));
    return resume ? sink_load(s, e) : 0;
}

int sink_open(struct sink **out, const struct sink_opts *o, struct err *e)
{
    struct sink *s = calloc(1, sizeof *s);
    struct stat st;
    int rc = 0;

    *out = NULL;
    if (!s)
        return err_set(e, ERR_NOMEM, "output");
    s->fd = -1;
    s->unordered = o->unordered;
    if (!o->path || !strcmp(o->path, "-")) {
        s->fd = STDOUT_FILENO;
        s->name = "standard output";
        if (o->resume)
            rc = err_set(e, ERR_INVAL, "--resume needs a file");
    } else {
        s->path = join(o->path, "");
        s->partial = join(o->path, ".partial");
        s->name = s->path;
        if (!s->path || !s->partial)
            rc = err_set(e, ERR_NOMEM, "output %s", o->path);
        else if (!stat(o->path, &st) && !S_ISREG(st.st_mode)) { /* a pipe or a device: a stream */
            s->fd = o->resume ? -1 : open(o->path, O_WRONLY | O_CLOEXEC);
            if (s->fd < 0)
                rc = err_set(e, ERR_IO, "%s: %s", o->path, o->resume ? "--resume needs a regular file" : strerror(errno));
        } else {
            rc = open_journal(s, o->resume, e);
        }
    }
    if (rc) {
        sink_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void sink_close(struct sink *s)
{
    if (!s)
        return;
    if (s->fd > STDERR_FILENO)
        close(s->fd);
    for (uint64_t i = 0; s->ring && i < s->n_slots - s->first; i++)
        free(s->ring[(s->first + i) & (s->ring_cap - 1)]);
    free(s->ring);
    free(s->places);
    free(s->kept);
    free(s->path);
    free(s->partial);
    free(s);
}

const struct kept_record *sink_find_kept(const struct sink *s, uint64_t line, uint32_t index)
{
    const uint64_t key = line * GEN_N_MAX + index + 1;

    for (uint64_t i = key * 0x9e3779b97f4a7c15u >> 20; s->kept_cap; i++) {
        const struct kept_record *k = &s->kept[i & (s->kept_cap - 1)];

        if (!k->key || k->key == key)
            return k->key ? k : NULL;
    }
    return NULL;
}

/* A stream needs room in the ring for records that come early, a journal the places of all records. */
static int grow_slots(struct sink *s, struct err *e)
{
    if (s->journal && s->n_slots == s->places_cap) {
        uint64_t cap = s->places_cap ? 2 * s->places_cap : 1024;
        struct place *p = realloc(s->places, cap * sizeof *p);

        if (!p)
            return err_set(e, ERR_NOMEM, "places of %llu records", (unsigned long long)cap);
        s->places = p;
        s->places_cap = cap;
    }
    if (!s->journal && s->n_slots - s->first == s->ring_cap) {
        uint64_t cap = s->ring_cap ? 2 * s->ring_cap : 256;
        char **ring = calloc(cap, sizeof *ring);

        if (!ring)
            return err_set(e, ERR_NOMEM, "queue of %llu records", (unsigned long long)cap);
        for (uint64_t i = s->first; i < s->n_slots; i++)
            ring[i & (cap - 1)] = s->ring[i & (s->ring_cap - 1)];
        free(s->ring);
        s->ring = ring;
        s->ring_cap = cap;
    }
    return 0;
}

int sink_expect(struct sink *s, uint64_t line, uint32_t index, const json_t *id, uint64_t *slot, bool *done,
                struct err *e)
{
    const struct kept_record *k = sink_find_kept(s, line, index);
    int rc = grow_slots(s, e);

    if (rc)
        return rc;
    if (k && k->id_hash != record_id_hash(id))
        return err_set(e, ERR_INVAL, "%s holds another id for line %llu: it was made from another input", s->name,
                       (unsigned long long)line);
    *slot = s->n_slots++;
    *done = k != NULL;
    if (s->journal)
        s->places[*slot] = k ? k->place : (struct place){ 0, 0 };
    if (k)
        s->matched++;
    else
        s->n_open++;
    return 0;
}

/* Streams: writes what is next in order, as far as it is there. */
static int drain(struct sink *s, bool gaps, struct err *e)
{
    int rc = 0;

    while (!rc && s->first < s->n_slots) {
        char **at = &s->ring[s->first & (s->ring_cap - 1)];

        if (!*at && !gaps)
            break;
        if (*at && **at)
            rc = put_bytes(s, *at, strlen(*at), e);
        free(*at);
        *at = NULL;
        s->first++;
    }
    return rc;
}

int sink_put(struct sink *s, uint64_t slot, char *record, struct err *e)
{
    const size_t len = record ? strlen(record) : 0;
    int rc;

    if (!record)
        return err_set(e, ERR_NOMEM, "record for the output");
    if (s->journal) {
        if (s->places[slot].bytes) {
            free(record);
            return 0;
        }
        s->places[slot] = (struct place){ s->bytes, len };
        rc = put_bytes(s, record, len, e);
        s->n_open--;
        free(record);
        return rc;
    }
    s->n_open--;
    if (s->unordered && slot != s->first) { /* the ring only remembers that it is gone */
        rc = put_bytes(s, record, len, e);
        record[0] = 0;
        s->ring[slot & (s->ring_cap - 1)] = record;
        return rc;
    }
    s->ring[slot & (s->ring_cap - 1)] = record;
    return drain(s, false, e);
}

uint64_t sink_open_slots(const struct sink *s)
{
    return s->journal ? s->n_open : s->n_slots - s->first;
}

const char *sink_journal(const struct sink *s)
{
    return s->journal;
}

void sink_stats(const struct sink *s, struct sink_stats *out)
{
    *out = s->stats;
    out->foreign = s->stats.kept - s->matched;
}

int sink_finish(struct sink *s, bool complete, struct err *e)
{
    int rc = 0;

    if (!s->journal)
        return drain(s, true, e);
    if (!complete) {
        if (!s->bytes) {
            unlink(s->journal);
            s->journal = NULL;
        }
        return 0;
    }
    if (!s->unordered && !sink_in_order(s))
        rc = sink_sort(s, e);
    else if (fsync(s->fd) || (s->journal == s->partial && rename(s->partial, s->path)))
        rc = err_set(e, ERR_IO, "%s: %s", s->path, strerror(errno));
    if (!rc)
        s->journal = NULL;
    return rc;
}
