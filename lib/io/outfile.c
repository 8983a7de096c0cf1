#include "lib/io/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TRIES 100

static int no_memory(const char *path, struct err *e)
{
    return err_set(e, ERR_NOMEM, "%s: no memory", path);
}

/* Sets o->path to the file that path means, and *mode to its type and rights; 0 when there is none yet. */
static int resolve(struct outfile *o, const char *path, mode_t *mode, struct err *e)
{
    struct stat st;

    *mode = stat(path, &st) ? 0 : st.st_mode;
    if (S_ISDIR(*mode))
        return err_set(e, ERR_IO, "%s: is a folder", path);
    if (S_ISREG(*mode))
        o->path = realpath(path, NULL);
    if (!o->path)
        o->path = strdup(path);
    return o->path ? 0 : no_memory(path, e);
}

/* Makes the temporary file; its descriptor or a negative error. */
static int make_temp(struct outfile *o, mode_t mode, struct err *e)
{
    size_t n = strlen(o->path) + 48;
    int fd = -1;

    if (!(o->temp = malloc(n)))
        return no_memory(o->path, e);
    for (int i = 0; fd < 0 && i < MAX_TRIES; i++) {
        snprintf(o->temp, n, "%s.tmp-%ld-%d", o->path, (long)getpid(), i);
        fd = open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0) {
        int why = errno;

        free(o->temp);
        o->temp = NULL;
        return err_set(e, ERR_IO, "%s: cannot create a file beside it: %s", o->path, strerror(why));
    }
    if (mode)
        (void)fchmod(fd, mode & 0777); /* best effort: some file systems have no rights to set */
    return fd;
}

int outfile_open(struct outfile *o, const char *path, struct err *e)
{
    mode_t mode;
    int fd, rc;

    memset(o, 0, sizeof *o);
    if (!path || !strcmp(path, "-")) {
        o->f = stdout;
        return 0;
    }
    if ((rc = resolve(o, path, &mode, e)))
        goto fail;
    if (mode && !S_ISREG(mode)) {
        fd = open(o->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            rc = err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    } else {
        rc = fd = make_temp(o, mode, e);
    }
    if (rc < 0)
        goto fail;
    if (!(o->f = fdopen(fd, "w"))) {
        close(fd);
        rc = no_memory(path, e);
        goto fail;
    }
    return 0;
fail:
    outfile_abort(o);
    return rc;
}

int outfile_create(struct outfile *o, const char *path, struct err *e)
{
    mode_t mode = 0;
    int rc;

    memset(o, 0, sizeof *o);
    if (!path || !strcmp(path, "-"))
        rc = err_set(e, ERR_INVAL, "this output cannot be a stream: give it a file name");
    else if (!(rc = resolve(o, path, &mode, e)) && mode && !S_ISREG(mode))
        rc = err_set(e, ERR_INVAL, "%s: this output must be a regular file", path);
    else if (!rc && (rc = make_temp(o, mode, e)) >= 0) {
        close(rc);
        return 0;
    }
    outfile_abort(o);
    return rc;
}

/* Makes sure that the renamed entry is on disk; an error here leaves a complete file, so it is none. */
static void sync_folder(const char *path)
{
    char *dir = strdup(path), *slash = dir ? strrchr(dir, '/') : NULL;
    int fd;

    if (slash)
        slash[slash == dir] = '\0';
    fd = dir ? open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

static int sync_temp(const struct outfile *o)
{
    int fd = open(o->temp, O_RDONLY | O_CLOEXEC), bad = fd < 0 || fsync(fd), why = errno;

    if (fd >= 0)
        close(fd);
    errno = why;
    return bad;
}

int outfile_commit(struct outfile *o, struct err *e)
{
    const char *name = o->path ? o->path : "standard output";
    int rc = 0;

    errno = 0; /* an error of an earlier write may have left none */
    if (o->f && (fflush(o->f) || ferror(o->f)))
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", name, errno ? strerror(errno) : "an earlier write failed");
    if (o->f && o->path && fclose(o->f) && !rc)
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", name, strerror(errno));
    o->f = NULL;
    if (!rc && o->temp && sync_temp(o))
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", name, strerror(errno));
    if (!rc && o->temp) {
        if (rename(o->temp, o->path)) {
            rc = err_set(e, ERR_IO, "%s: cannot rename the finished file: %s", name, strerror(errno));
        } else {
            sync_folder(o->path);
            free(o->temp);
            o->temp = NULL;
        }
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
