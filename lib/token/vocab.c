#include <stdlib.h>

#include "lib/core/mem.h"
#include "lib/token/token_priv.h"
#include "lib/token/utf8.h"

int vocab_init(struct vocab *v, size_t n, size_t text_bytes, struct err *e)
{
    size_t slots = 16;

    memset(v, 0, sizeof *v);
    if (n == 0 || n > TOKEN_VOCAB_MAX || text_bytes >= UINT32_MAX)
        return err_set(e, ERR_FORMAT, "vocabulary of %zu tokens, %zu bytes: need 1 to %u tokens, under 4 GiB", n,
                       text_bytes, TOKEN_VOCAB_MAX);
    while (slots < 2 * n)
        slots *= 2;
    v->n = (uint32_t)n;
    v->mask = (uint32_t)(slots - 1);
    v->text = mem_alloc(text_bytes + 1);
    v->text_off = mem_zalloc((n + 1) * sizeof *v->text_off);
    v->bytes_off = mem_zalloc((n + 1) * sizeof *v->bytes_off);
    v->attr = mem_zalloc(n);
    v->slots = mem_zalloc(slots * sizeof *v->slots);
    if (!v->text || !v->text_off || !v->bytes_off || !v->attr || !v->slots)
        return err_set(e, ERR_NOMEM, "vocabulary of %zu tokens", n);
    return 0;
}

void vocab_fini(struct vocab *v)
{
    free(v->text);
    free(v->text_off);
    free(v->bytes);
    free(v->bytes_off);
    free(v->attr);
    free(v->slots);
    memset(v, 0, sizeof *v);
}

static uint64_t hash_text(const char *s, size_t n)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = n * k, w;

    for (; n >= 8; n -= 8, s += 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * k;
        h ^= h >> 29;
    }
    if (n) {
        w = 0;
        for (size_t i = 0; i < n; i++)
            w |= (uint64_t)(unsigned char)s[i] << 8 * i;
        h = (h ^ w) * k;
    }
    h ^= h >> 32;
    h *= k;
    return h ^ h >> 29;
}

void vocab_set(struct vocab *v, uint32_t id, const char *text, size_t len)
{
    uint32_t at = v->text_off[id];

    memcpy(v->text + at, text, len);
    v->text_off[id + 1] = at + (uint32_t)len;
    if (len > v->longest)
        v->longest = (uint32_t)len;
}

void vocab_index(struct vocab *v, uint32_t id)
{
    size_t len;
    const char *s = vocab_text(v, id, &len), *other;
    uint64_t h = hash_text(s, len);
    uint32_t at = (uint32_t)h & v->mask, tag = (uint32_t)(h >> 32);

    while (v->slots[at]) {
        size_t other_len;

        if (v->slots[at] >> 32 == tag) {
            other = vocab_text(v, (uint32_t)v->slots[at] - 1, &other_len);
            if (other_len == len && memcmp(other, s, len) == 0)
                return;
        }
        at = (at + 1) & v->mask;
    }
    v->slots[at] = (uint64_t)tag << 32 | (id + 1);
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t len)
{
    uint64_t h = hash_text(text, len);
    uint32_t at = (uint32_t)h & v->mask, tag = (uint32_t)(h >> 32);

    while (v->slots[at]) {
        if (v->slots[at] >> 32 == tag) {
            uint32_t id = (uint32_t)v->slots[at] - 1;
            size_t other_len;
            const char *other = vocab_text(v, id, &other_len);

            if (other_len == len && memcmp(other, text, len) == 0)
                return (int32_t)id;
        }
        at = (at + 1) & v->mask;
    }
    return -1;
}

/* GPT-2's table: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up, in order. */
static bool byte_is_printable(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

unsigned byte_level_char(unsigned char byte, char out[2])
{
    uint32_t cp = byte;

    if (!byte_is_printable(byte)) {
        cp = 256;
        for (unsigned b = 0; b < byte; b++)
            cp += !byte_is_printable(b);
    }
    return utf8_encode(cp, out);
}

/* Maps a byte-level text back; false when it has a character outside the table. */
static bool byte_level_decode(const int16_t back[324], const char *s, size_t n, char *out, size_t *out_len)
{
    size_t o = 0;
    uint32_t cp;

    for (size_t i = 0; i < n;) {
        unsigned k = utf8_decode(s + i, n - i, &cp);

        if (k == 0 || cp >= 324 || back[cp] < 0)
            return false;
        out[o++] = (char)back[cp];
        i += k;
    }
    *out_len = o;
    return true;
}

static void spm_decode_text(const char *s, size_t n, char *out, size_t *out_len)
{
    size_t o = 0;

    for (size_t i = 0; i < n;) {
        if (n - i >= TOKEN_MARK_LEN && memcmp(s + i, TOKEN_MARK, TOKEN_MARK_LEN) == 0) {
            out[o++] = ' ';
            i += TOKEN_MARK_LEN;
        } else {
            out[o++] = s[i++];
        }
    }
    *out_len = o;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int vocab_make_bytes(struct vocab *v, bool spm, struct err *e)
{
    size_t total = v->text_off[v->n], at = 0;
    int16_t back[324];

    memset(back, 0xff, sizeof back);
    for (unsigned b = 0; b < 256; b++) {
        char c[2];
        uint32_t cp;
        unsigned k = byte_level_char((unsigned char)b, c);

        utf8_decode(c, k, &cp);
        back[cp] = (int16_t)b;
    }
    v->bytes = mem_alloc(total + 1); /* neither form of decoding makes a text longer */
    if (!v->bytes)
        return err_set(e, ERR_NOMEM, "vocabulary of %zu bytes", total);
    for (uint32_t id = 0; id < v->n; id++) {
        size_t n, out_n;
        const char *s = vocab_text(v, id, &n);
        char *out = v->bytes + at;

        if (v->attr[id] & ATTR_BYTE) {
            out[0] = (char)(hex_digit(s[3]) << 4 | hex_digit(s[4]));
            out_n = 1;
        } else if (spm) {
            spm_decode_text(s, n, out, &out_n);
        } else if ((v->attr[id] & ATTR_ADDED) || !byte_level_decode(back, s, n, out, &out_n)) {
            memcpy(out, s, n);
            out_n = n;
        }
        at += out_n;
        v->bytes_off[id + 1] = (uint32_t)at;
    }
    return 0;
}
