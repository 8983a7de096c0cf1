/* Where the records of a batch run go.
 *
 * A stream (standard output, a pipe, a device) gets each record when those before it in input order have been written;
 * the ones that came early wait in memory.
 *
 * A file is a journal: each record is appended by one write() as soon as it is there, so what is finished survives
 * anything that ends the process. A run for FILE writes FILE.partial and renames it at the end; a resumed run appends to
 * FILE itself, after dropping a last line that was cut off. When all is written, the records are put in input order (a new
 * file that replaces the journal by rename) unless they are in order already or any order will do. A lock keeps a second
 * process from writing to the same journal.
 *
 * A record has a slot: its place in input order. Slots are handed out by sink_expect as the input is read.
 *
 * Threads: one at a time. */
#ifndef SLUICE_GEN_SINK_H
#define SLUICE_GEN_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"
#include "lib/io/json.h"

struct sink_opts {
    const char *path; /* NULL or "-": standard output */
    bool resume;      /* go on with what path, or path.partial, holds */
    bool unordered;   /* records in the order of their completion */
};

struct sink_stats {
    uint64_t kept;        /* records that were there before */
    uint64_t kept_failed; /* of them error records */
    uint64_t foreign;     /* of them for lines that the input did not have */
    uint64_t torn_bytes;  /* dropped from the end */
    uint64_t written;     /* by this run */
    bool closed;          /* the reader of the stream has gone */
};

struct sink;

int sink_open(struct sink **out, const struct sink_opts *o, struct err *e);
/* Slot of the record `index` of input line `line`, whose id is `id`. *done: it is there already. ERR_INVAL when what is
 * there has another id: the output is of another input. */
int sink_expect(struct sink *s, uint64_t line, uint32_t index, const json_t *id, uint64_t *slot, bool *done,
                struct err *e);
/* Takes record, a whole line. A record that is there already is dropped. */
int sink_put(struct sink *s, uint64_t slot, char *record, struct err *e);
/* Slots handed out whose records are not written yet. */
uint64_t sink_open_slots(const struct sink *s);
/* Ends the output: everything that waits is written; with complete, a file gets its order and its name. Without, the
 * journal stays for --resume (an empty one is removed). */
int sink_finish(struct sink *s, bool complete, struct err *e);
/* Name of the journal while it exists, else NULL. */
const char *sink_journal(const struct sink *s);
void sink_stats(const struct sink *s, struct sink_stats *out);
void sink_close(struct sink *s); /* NULL is legal */

#endif
