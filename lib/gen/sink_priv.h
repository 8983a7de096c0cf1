/* Private to lib/gen: the parts of a sink, shared by sink.c (writing) and journal.c (reading back and sorting). */
#ifndef SLUICE_GEN_SINK_PRIV_H
#define SLUICE_GEN_SINK_PRIV_H

#include "lib/gen/sink.h"

struct place {
    uint64_t offset, bytes; /* in the journal; bytes 0: not there */
};

struct kept_record { /* of the run that is resumed */
    uint64_t key;        /* line * GEN_N_MAX + index + 1; 0: empty */
    uint64_t id_hash;
    struct place place;
};

struct sink {
    int fd;
    const char *name;      /* for messages */
    char *path, *partial;  /* NULL for standard output */
    const char *journal;   /* path or partial; NULL for streams, and once it is done */
    bool unordered;
    uint64_t bytes;        /* written so far: the journal's length */
    uint64_t n_slots, n_open;
    struct place *places;  /* journals: [n_slots of places_cap] */
    uint64_t places_cap;
    char **ring;           /* streams: record of slot i at i mod ring_cap (a power of two), for first <= i < n_slots */
    uint64_t ring_cap, first;
    struct kept_record *kept; /* hash table, kept_cap a power of two */
    uint64_t kept_cap, matched;
    struct sink_stats stats;
};

const struct kept_record *sink_find_kept(const struct sink *s, uint64_t line, uint32_t index);
/* Reads the records that a resumed journal holds and drops a torn last line. */
int sink_load(struct sink *s, struct err *e);
/* True when the journal has all records in the order of their slots and no others. */
bool sink_in_order(const struct sink *s);
/* Writes the records in order of slots to a new file, those that no slot has last, and renames it to path. */
int sink_sort(struct sink *s, struct err *e);

#endif
