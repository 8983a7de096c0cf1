#include "lib/io/outfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int outfile_open(struct outfile *o, const char *path, struct err *e)
{
    size_t n;
    int fd = -1;
    struct stat st;
    mode_t mask;

    memset(o, 0, sizeof *o);
    if (!path || !strcmp(path, "-")) {
        o->f = stdout;
        return 0;
    }
    n = strlen(path) + 16;
    o->path = strdup(path);
    if (o->path && !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) { /* a device or a pipe */
        if (!(o->f = fopen(path, "we"))) {
            err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
            outfile_abort(o);
            return ERR_IO;
        }
        return 0;
    }
    o->temp = malloc(n);
    if (!o->path || !o->temp) {
        outfile_abort(o);
        return err_set(e, ERR_NOMEM, "%s: no memory", path);
    }
    snprintf(o->temp, n, "%s.tmp.XXXXXX", path);
    fd = mkstemp(o->temp);
    if (fd < 0) {
        err_set(e, ERR_IO, "%s: cannot create a file beside it: %s", path, strerror(errno));
        free(o->temp);
        o->temp = NULL;
        outfile_abort(o);
        return ERR_IO;
    }
    umask(mask = umask(0)); /* mkstemp makes private files; give the mode that open would have */
    fchmod(fd, 0666 & ~mask);
    if (!(o->f = fdopen(fd, "w"))) {
        close(fd);
        outfile_abort(o);
        return err_set(e, ERR_NOMEM, "%s: no memory", path);
    }
    return 0;
}

int outfile_commit(struct outfile *o, struct err *e)
{
    int rc = 0;

    if (!o->path) {
        if (fflush(o->f) || ferror(o->f))
            rc = err_set(e, ERR_IO, "standard output: %s", strerror(errno));
        o->f = NULL;
        return rc;
    }
    if (fflush(o->f) || ferror(o->f) || (o->temp && fsync(fileno(o->f))))
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", o->path, strerror(errno));
    if (fclose(o->f) && !rc)
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", o->path, strerror(errno));
    o->f = NULL;
    if (!rc && o->temp && rename(o->temp, o->path))
        rc = err_set(e, ERR_IO, "%s: cannot rename the finished file: %s", o->path, strerror(errno));
    if (!rc) {
        free(o->temp);
        o->temp = NULL;
    }
    outfile_abort(o);
    return rc;
}

void outfile_abort(struct outfile *o)
{
    if (o->f && o->path)
        fclose(o->f);
    if (o->temp)
        unlink(o->temp);
    free(o->temp);
    free(o->path);
    memset(o, 0, sizeof *o);
}
