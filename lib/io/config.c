#include "lib/io/config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "lib/io/map.h"

#define CONFIG_MAX_BYTES ((size_t)1 << 20)
#define CONFIG_MAX_ENTRIES 4096

struct config {
    struct config_entry *v; /* names and values are ours */
    size_t n, cap;
};

struct parse {
    yaml_parser_t yaml;
    struct config *c;
    char **keys; /* all that came, those of empty lists too */
    size_t n_keys, cap_keys;
    const char *file;
    struct err *e;
};

static int fail(const struct parse *p, const yaml_mark_t *at, const char *what)
{
    return err_set(p->e, ERR_FORMAT, "%s:%zu:%zu: %s", p->file, at->line + 1, at->column + 1, what);
}

static int next(struct parse *p, yaml_event_t *ev)
{
    if (yaml_parser_parse(&p->yaml, ev))
        return 0;
    memset(ev, 0, sizeof *ev);
    if (p->yaml.error == YAML_MEMORY_ERROR)
        return err_set(p->e, ERR_NOMEM, "%s: no memory", p->file);
    return fail(p, p->yaml.problem_mark.line ? &p->yaml.problem_mark : &p->yaml.mark,
                p->yaml.problem ? p->yaml.problem : "not YAML");
}

static int check_scalar(const struct parse *p, const yaml_event_t *ev)
{
    if (ev->data.scalar.anchor || ev->data.scalar.tag)
        return fail(p, &ev->start_mark, "anchors and tags are not allowed");
    if (memchr(ev->data.scalar.value, 0, ev->data.scalar.length))
        return fail(p, &ev->start_mark, "a NUL character in a value");
    return 0;
}

static int add(struct parse *p, const char *name, const yaml_event_t *value)
{
    struct config *c = p->c;
    struct config_entry *t;
    bool null;
    int rc = check_scalar(p, value);

    if (rc)
        return rc;
    if (c->n == CONFIG_MAX_ENTRIES)
        return fail(p, &value->start_mark, "too many values (4096)");
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 32;

        if (!(t = realloc(c->v, cap * sizeof *t)))
            return err_set(p->e, ERR_NOMEM, "%s: no memory", p->file);
        c->v = t;
        c->cap = cap;
    }
    t = &c->v[c->n];
    null = value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!strcmp((char *)value->data.scalar.value, "~") || !strcmp((char *)value->data.scalar.value, "null"));
    t->name = strdup(name);
    t->value = strdup(null ? "" : (char *)value->data.scalar.value);
    t->line = (unsigned)value->start_mark.line + 1;
    c->n++;
    return t->name && t->value ? 0 : err_set(p->e, ERR_NOMEM, "%s: no memory", p->file);
}

/* The value of a key: a scalar, or a list of them. */
static int read_value(struct parse *p, const char *name)
{
    yaml_event_t ev;
    int rc = next(p, &ev);

    if (!rc && ev.type == YAML_SCALAR_EVENT) {
        rc = add(p, name, &ev);
    } else if (!rc && ev.type == YAML_SEQUENCE_START_EVENT && !ev.data.sequence_start.anchor &&
               !ev.data.sequence_start.tag) {
        for (bool end = false; !rc && !end;) {
            yaml_event_delete(&ev);
            if ((rc = next(p, &ev)))
                break;
            if (ev.type == YAML_SCALAR_EVENT)
                rc = add(p, name, &ev);
            else if (!(end = ev.type == YAML_SEQUENCE_END_EVENT))
                rc = fail(p, &ev.start_mark, "a list may hold only single values");
        }
    } else if (!rc) {
        rc = fail(p, &ev.start_mark, "a value must be a single value or a list of them");
    }
    yaml_event_delete(&ev);
    return rc;
}

/* Remembers a key; one that came before is an error. */
static int add_key(struct parse *p, const yaml_event_t *key)
{
    const char *name = (const char *)key->data.scalar.value;

    for (size_t i = 0; i < p->n_keys; i++)
        if (!strcmp(p->keys[i], name))
            return fail(p, &key->start_mark, "this key occurs twice");
    if (p->n_keys == CONFIG_MAX_ENTRIES)
        return fail(p, &key->start_mark, "too many keys (4096)");
    if (p->n_keys == p->cap_keys) {
        size_t cap = p->cap_keys ? 2 * p->cap_keys : 32;
        char **grown = realloc(p->keys, cap * sizeof *grown);

        if (!grown)
            return err_set(p->e, ERR_NOMEM, "%s: no memory", p->file);
        p->keys = grown;
        p->cap_keys = cap;
    }
    if (!(p->keys[p->n_keys] = strdup(name)))
        return err_set(p->e, ERR_NOMEM, "%s: no memory", p->file);
    p->n_keys++;
    return 0;
}

/* Behind the start of the top mapping. */
static int read_mapping(struct parse *p)
{
    for (;;) {
        yaml_event_t key;
        int rc = next(p, &key);

        if (!rc && key.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&key);
            return 0;
        }
        if (!rc && key.type != YAML_SCALAR_EVENT)
            rc = fail(p, &key.start_mark, "a key must be a name");
        if (!rc && !(rc = check_scalar(p, &key)) && !(rc = add_key(p, &key)))
            rc = read_value(p, (char *)key.data.scalar.value);
        yaml_event_delete(&key);
        if (rc)
            return rc;
    }
}

static int read_stream(struct parse *p)
{
    bool seen = false;

    for (;;) {
        yaml_event_t ev;
        yaml_event_type_t type;
        int rc = next(p, &ev);

        type = ev.type;
        if (!rc && type == YAML_MAPPING_START_EVENT && (ev.data.mapping_start.anchor || ev.data.mapping_start.tag))
            rc = fail(p, &ev.start_mark, "anchors and tags are not allowed");
        else if (!rc && type == YAML_DOCUMENT_START_EVENT && seen)
            rc = fail(p, &ev.start_mark, "more than one document");
        else if (!rc && type == YAML_SCALAR_EVENT && ev.data.scalar.length)
            rc = fail(p, &ev.start_mark, "expected a mapping of option names to values");
        else if (!rc && (type == YAML_SEQUENCE_START_EVENT || type == YAML_ALIAS_EVENT))
            rc = fail(p, &ev.start_mark, "expected a mapping of option names to values");
        seen |= type == YAML_DOCUMENT_START_EVENT;
        yaml_event_delete(&ev);
        if (!rc && type == YAML_MAPPING_START_EVENT)
            rc = read_mapping(p);
        if (rc || type == YAML_STREAM_END_EVENT)
            return rc;
    }
}

int config_parse(struct config **out, const char *text, size_t len, const char *name, struct err *e)
{
    struct parse p = { .file = name, .e = e };
    int rc;

    *out = NULL;
    if (len > CONFIG_MAX_BYTES)
        return err_set(e, ERR_LIMIT, "%s: %zu bytes: at most %zu", name, len, CONFIG_MAX_BYTES);
    p.c = calloc(1, sizeof *p.c);
    if (!p.c || !yaml_parser_initialize(&p.yaml)) {
        free(p.c);
        return err_set(e, ERR_NOMEM, "%s: no memory", name);
    }
    yaml_parser_set_input_string(&p.yaml, (const unsigned char *)(text ? text : ""), len);
    yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
    rc = read_stream(&p);
    yaml_parser_delete(&p.yaml);
    for (size_t i = 0; i < p.n_keys; i++)
        free(p.keys[i]);
    free(p.keys);
    if (rc)
        config_close(p.c);
    else
        *out = p.c;
    return rc;
}

int config_open(struct config **out, const char *path, struct err *e)
{
    struct map m;
    int rc = map_open(&m, path, e);

    *out = NULL;
    if (rc)
        return rc;
    rc = config_parse(out, (const char *)m.data, m.bytes, path, e);
    map_close(&m);
    return rc;
}

void config_close(struct config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++) {
        free((void *)(uintptr_t)c->v[i].name);
        free((void *)(uintptr_t)c->v[i].value);
    }
    free(c->v);
    free(c);
}

size_t config_n(const struct config *c)
{
    return c->n;
}

const struct config_entry *config_at(const struct config *c, size_t i)
{
    return &c->v[i];
}
