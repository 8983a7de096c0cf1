#include "lib/gen/text.h"

#include <stdlib.h>
#include <string.h>

void gen_text_scan(struct gen_text *t, const struct gen_stop *stops, uint32_t n_stops)
{
    size_t begin = SIZE_MAX, end = SIZE_MAX, hold = t->len;

    if (t->stopped)
        return;
    for (size_t at = t->safe; at < t->len; at++) {
        const size_t left = t->len - at;

        for (uint32_t i = 0; i < n_stops; i++) {
            const struct gen_stop *s = &stops[i];

            if (t->text[at] != s->text[0] || memcmp(t->text + at, s->text, s->len < left ? s->len : left))
                continue;
            if (s->len > left) {
                if (at < hold)
                    hold = at;
            } else if (at + s->len < end) {
                begin = at;
                end = at + s->len;
            }
        }
    }
    if (end != SIZE_MAX) {
        t->stopped = true;
        t->len = t->safe = begin;
    } else {
        t->safe = hold;
    }
}

void gen_text_end(struct gen_text *t)
{
    t->safe = t->len;
}

void gen_text_clear(struct gen_text *t)
{
    free(t->text);
    memset(t, 0, sizeof *t);
}

/* Length of the valid UTF-8 character at s, 0 when there is none. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0; /* overlong, surrogate, above U+10FFFF */
    return n;
}

char *gen_utf8_clean(const char *text, size_t len, size_t *out_len)
{
    char *out = malloc(3 * len + 1);
    size_t n = 0;

    if (!out)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t k = utf8_length((const unsigned char *)text + i, len - i);

        if (k) {
            memcpy(out + n, text + i, k);
            n += k;
            i += k;
        } else {
            memcpy(out + n, "\xef\xbf\xbd", 3);
            n += 3;
            i++;
        }
    }
    out[n] = 0;
    if (out_len)
        *out_len = n;
    return out;
}
