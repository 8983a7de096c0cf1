#include "lib/io/json.h"

#include <stdio.h>
#include <string.h>

#include "lib/io/map.h"

/* jansson recurses over nested values and stops at a depth of 2048 by itself. */
int json_parse(json_t **out, const char *text, size_t len, const char *what, struct err *e)
{
    json_error_t je;

    *out = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (*out)
        return 0;
    if (json_error_code(&je) == json_error_out_of_memory)
        return err_set(e, ERR_NOMEM, "%s: no memory to parse JSON", what);
    return err_set(e, ERR_FORMAT, "%s: line %d, column %d: %s", what, je.line, je.column, je.text);
}

int json_read_file(json_t **out, const char *path, size_t max_bytes, struct err *e)
{
    struct map m;
    int rc = map_open(&m, path, e);

    *out = NULL;
    if (rc)
        return rc;
    if (m.bytes > max_bytes)
        rc = err_set(e, ERR_LIMIT, "%s: %zu bytes of JSON: at most %zu", path, m.bytes, max_bytes);
    else
        rc = json_parse(out, (const char *)m.data, m.bytes, path, e);
    map_close(&m);
    return rc;
}
