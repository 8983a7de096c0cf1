/* Error codes and messages. The library returns 0 or a negative enum err_code and fills a struct err that the caller
 * owns; it never prints, exits or aborts. A message says what is wrong, where (file, tensor, byte offset, line) and
 * what to do. struct err is meaningful only after a negative return. Every function that takes one accepts NULL. */
#ifndef SLUICE_CORE_ERR_H
#define SLUICE_CORE_ERR_H

#include <stdarg.h>

enum err_code {
    ERR_OK = 0,
    ERR_INVAL = -1,       /* an argument or option is out of range */
    ERR_NOMEM = -2,
    ERR_IO = -3,          /* the system refused a file operation; the message has strerror */
    ERR_FORMAT = -4,      /* bytes from outside break their format */
    ERR_UNSUPPORTED = -5, /* valid, but not something this build or version handles */
    ERR_NOTFOUND = -6,
    ERR_LIMIT = -7,       /* a configured limit (context, pool, memory) is reached */
    ERR_CANCELED = -8
};

struct err {
    int code;
    char msg[1024];
};

/* Writes code and message into e (when not NULL) and returns code, so that `return err_set(...)` works. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_setv(struct err *e, int code, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));

/* Puts "PREFIX: " before the message that e already holds. Returns e->code, or ERR_INVAL when e is NULL. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A short fixed name of a code ("invalid", "no memory", ...), never NULL. */
const char *err_name(int code);

#endif
