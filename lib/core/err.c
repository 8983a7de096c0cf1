#include "lib/core/err.h"

#include <stdio.h>
#include <string.h>

int err_setv(struct err *e, int code, const char *fmt, va_list ap)
{
    if (e) {
        e->code = code;
        vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    }
    return code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_setv(e, code, fmt, ap);
    va_end(ap);
    return code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    char old[sizeof e->msg];
    va_list ap;
    int n;

    if (!e)
        return ERR_INVAL;
    memcpy(old, e->msg, sizeof old);
    va_start(ap, fmt);
    n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg - 3)
        snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", old);
    return e->code;
}

const char *err_name(int code)
{
    static const char *const names[] = { "ok", "invalid", "no memory", "i/o", "format", "unsupported",
                                         "not found", "limit", "canceled" };

    if (code > 0 || -code >= (int)(sizeof names / sizeof names[0]))
        return "unknown";
    return names[-code];
}
