#include "lib/token/utf8.h"

#include <string.h>
#include <utf8proc.h>

static bool is_cont(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

unsigned utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned c = p[0];

    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    if (c < 0xc2 || c > 0xf4 || n < 2 || !is_cont(p[1]))
        return 0;
    if (c < 0xe0) {
        *cp = (c & 31) << 6 | (p[1] & 63);
        return 2;
    }
    if (n < 3 || !is_cont(p[2]))
        return 0;
    if (c < 0xf0) {
        uint32_t u = (c & 15) << 12 | (uint32_t)(p[1] & 63) << 6 | (p[2] & 63);

        *cp = u;
        return u < 0x800 || (u >= 0xd800 && u < 0xe000) ? 0 : 3;
    }
    if (n < 4 || !is_cont(p[3]))
        return 0;
    *cp = (c & 7) << 18 | (uint32_t)(p[1] & 63) << 12 | (uint32_t)(p[2] & 63) << 6 | (p[3] & 63);
    return *cp < 0x10000 || *cp > 0x10ffff ? 0 : 4;
}

unsigned utf8_decode_last(const char *s, size_t n, uint32_t *cp)
{
    for (size_t k = 1; k <= 4 && k <= n; k++) {
        if (!is_cont((unsigned char)s[n - k]))
            return utf8_decode(s + n - k, k, cp) == k ? (unsigned)k : 0;
    }
    return 0;
}

unsigned utf8_encode(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 63));
        out[2] = (char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 63));
    out[2] = (char)(0x80 | (cp >> 6 & 63));
    out[3] = (char)(0x80 | (cp & 63));
    return 4;
}

size_t utf8_valid_prefix(const char *s, size_t n)
{
    size_t i = 0;
    uint32_t cp;

    while (i < n) {
        uint64_t w;
        unsigned k;

        while (n - i >= sizeof w) { /* ASCII, eight at a time */
            memcpy(&w, s + i, sizeof w);
            if (w & 0x8080808080808080u)
                break;
            i += sizeof w;
        }
        if (i == n)
            break;
        k = utf8_decode(s + i, n - i, &cp);
        if (k == 0)
            break;
        i += k;
    }
    return i;
}

/* Whether s[0..n) is a proper beginning of some character. */
static bool is_beginning(const unsigned char *s, size_t n)
{
    static const unsigned char ends[2] = { 0x80, 0xbf };
    char full[4];
    uint32_t cp;
    unsigned need = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;

    if (n >= need)
        return false;
    for (int hi = 0; hi < 2; hi++) { /* the least and the greatest completion: one is valid when any is */
        memcpy(full, s, n);
        for (size_t i = n; i < need; i++)
            full[i] = (char)ends[hi];
        if (utf8_decode(full, need, &cp) == need)
            return true;
    }
    return false;
}

unsigned utf8_incomplete_tail(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)s[n - k];

        if (!is_cont(c))
            return is_beginning((const unsigned char *)s + n - k, k) ? (unsigned)k : 0;
    }
    return 0;
}

bool utf8_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool utf8_is_word(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z') || cp == '_';
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}
