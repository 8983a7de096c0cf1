/* --config FILE.yaml: its entries become arguments ("--key=value") put before those of the command line. */
#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/common.h"
#include "lib/io/config.h"

/* One long option of the tool or of its children. */
struct known {
    const char *name;
    int key;        /* of the option that it is an alias of, too */
    bool has_arg, optional;
    bool given;     /* on the command line */
};

struct known_list {
    struct known *v;
    size_t n, cap;
};

static bool known_add(struct known_list *l, const char *name, int key, bool has_arg, bool optional)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct known *v = realloc(l->v, cap * sizeof *v);

        if (!v)
            return false;
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = (struct known){ name, key, has_arg, optional, false };
    return true;
}

static bool collect(struct known_list *l, const struct argp *argp)
{
    const struct argp_option *o = argp->options, *base = o;

    for (; o && (o->name || o->key || o->doc); o++) {
        if (!(o->flags & OPTION_ALIAS))
            base = o;
        if (o->flags & OPTION_DOC || (!o->name && !o->key))
            continue;
        if (!known_add(l, o->name, base->key, base->arg != NULL, base->flags & OPTION_ARG_OPTIONAL))
            return false;
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        if (!collect(l, c->argp))
            return false;
    return true;
}

static void mark_given(struct known_list *l, int key)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].key == key)
            l->v[i].given = true;
}

/* Looks through the command line as argp will, for the options given and the value of --config. */
static bool scan(struct known_list *l, int argc, char **argv, const char **config)
{
    struct option *longs = calloc(l->n + 4, sizeof *longs);
    char *shorts = calloc(3 * l->n + 8, 1), **copy = calloc((size_t)argc + 1, sizeof *copy);
    size_t n = 0, at = 0;
    int ch, which;
    bool ok = longs && shorts && copy;

    for (size_t i = 0; ok && i < l->n; i++) {
        const struct known *k = &l->v[i];

        if (k->name)
            longs[n++] = (struct option){ k->name, k->has_arg ? (k->optional ? 2 : 1) : 0, NULL, (int)(0x10000 + i) };
        if (k->key > ' ' && k->key < 127 && !strchr(shorts, k->key)) {
            shorts[at++] = (char)k->key;
            for (int c = 0; c < k->has_arg + (k->has_arg && k->optional); c++)
                shorts[at++] = ':';
        }
    }
    if (ok) {
        memcpy(copy, argv, (size_t)argc * sizeof *copy);
        opterr = 0;
        optind = 0; /* full reset of getopt */
        while ((ch = getopt_long(argc, copy, shorts, longs, &which)) != -1) {
            const struct known *k = ch >= 0x10000 ? &l->v[ch - 0x10000] : NULL;

            if (k && k->name && !strcmp(k->name, "config"))
                *config = optarg;
            mark_given(l, k ? k->key : ch);
        }
        optind = 0;
        opterr = 1;
    }
    free(longs);
    free(shorts);
    free(copy);
    return ok;
}

static bool same_name(const char *name, const char *key)
{
    for (; *name && *key; name++, key++)
        if (*name != *key && !(*name == '-' && *key == '_'))
            return false;
    return *name == *key;
}

static const struct known *find(const struct known_list *l, const char *key)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].name && same_name(l->v[i].name, key))
            return &l->v[i];
    return NULL;
}

static bool inject(struct common *c, const char *name, const char *value, unsigned line)
{
    size_t size = strlen(name) + (value ? strlen(value) : 0) + 4;
    char *text = malloc(size);

    if (c->n_injected == c->cap_injected) {
        size_t cap = c->cap_injected ? 2 * c->cap_injected : 16;
        char **v = realloc(c->injected, cap * sizeof *v);
        unsigned *lines = v ? realloc(c->lines, cap * sizeof *lines) : NULL;

        if (v)
            c->injected = v;
        if (lines) {
            c->lines = lines;
            c->cap_injected = cap;
        }
    }
    if (!text || c->n_injected == c->cap_injected) {
        free(text);
        return false;
    }
    snprintf(text, size, value ? "--%s=%s" : "--%s", name, value);
    c->injected[c->n_injected] = text;
    c->lines[c->n_injected++] = line;
    return true;
}

/* Turns the entries of the config file into arguments, those that the command line gives left out. */
static int read_config(struct common *c, const struct known_list *l, struct err *e)
{
    struct config *f;
    int rc = config_open(&f, c->config, e);

    for (size_t i = 0; !rc && i < config_n(f); i++) {
        const struct config_entry *en = config_at(f, i);
        const struct known *k = find(l, en->name);
        const char *value = en->value;

        if (!k || !strcmp(k->name, "config")) {
            rc = err_set(e, ERR_INVAL, "%s:%u: %s is not an option", c->config, en->line, en->name);
            break;
        }
        if (!k->has_arg && strcmp(value, "true") && strcmp(value, "false")) {
            rc = err_set(e, ERR_INVAL, "%s:%u: %s=%s: not true or false", c->config, en->line, en->name, value);
            break;
        }
        if (k->given || (!k->has_arg && !strcmp(value, "false")))
            continue;
        if (!inject(c, k->name, k->has_arg ? value : NULL, en->line))
            rc = err_set(e, ERR_NOMEM, "%s", c->config);
    }
    config_close(f);
    return rc;
}

void common_parse(struct common *c, const struct argp *argp, int argc, char **argv, void *input)
{
    struct known_list l = { 0 };
    struct err e = { 0, "" };
    bool ok = collect(&l, argp) && scan(&l, argc, argv, &c->config);

    if (ok && c->config && read_config(c, &l, &e)) {
        common_error(c, "%s", e.msg);
        exit(e.code == ERR_INVAL || e.code == ERR_FORMAT ? EXIT_USAGE : EXIT_FAILED);
    }
    free(l.v);
    if (ok && c->n_injected) {
        c->argv = calloc((size_t)argc + c->n_injected + 1, sizeof *c->argv);
        ok = c->argv != NULL;
    }
    if (!ok) {
        common_error(c, "out of memory");
        exit(EXIT_FAILED);
    }
    if (c->argv) {
        c->argv[0] = argv[0];
        memcpy(c->argv + 1, c->injected, c->n_injected * sizeof *c->argv);
        memcpy(c->argv + 1 + c->n_injected, argv + 1, (size_t)(argc - 1) * sizeof *c->argv);
        argc += (int)c->n_injected;
        argv = c->argv;
    }
    argp_parse(argp, argc, argv, 0, NULL, input);
}

void common_fini(struct common *c)
{
    for (size_t i = 0; i < c->n_injected; i++)
        free(c->injected[i]);
    free(c->injected);
    free(c->lines);
    free(c->argv);
    c->injected = NULL;
    c->lines = NULL;
    c->argv = NULL;
    c->n_injected = c->cap_injected = 0;
}
