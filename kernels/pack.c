/* From ggml's row-major blocks to the tiles of blocks.h. Codes move as 32-bit words of four columns: a word that holds a
 * quad in the source (four low or high nibbles, four bit pairs) becomes the word of one row in a packed vector, so packing
 * is a few word operations for each four to sixteen weights. */
#include <string.h>

#include "kernels/blocks.h"
#include "lib/core/mem.h"

bool wmat_init(struct wmat *w, enum dtype type, uint64_t n_rows, uint64_t n_cols)
{
    const struct dtype_info *info = dtype_info((uint32_t)type);
    const struct unit_info *u = unit_info(type);
    size_t bytes, total;

    memset(w, 0, sizeof *w);
    if (!info || (info->quantised && !u) || n_rows == 0 || n_cols == 0 || n_rows > UINT32_MAX - TILE_ROWS ||
        n_cols > UINT32_MAX / 2 || n_cols % info->block)
        return false;
    if (u)
        bytes = (size_t)(n_cols / u->cols);
    else
        bytes = (size_t)(type == DT_BF16 ? n_cols + n_cols % 2 : n_cols);
    if (!mem_mul(bytes, u ? u->bytes : TILE_ROWS * info->block_bytes, &bytes) || bytes > SIZE_MAX - 63)
        return false;
    w->type = type;
    w->n_rows = (uint32_t)n_rows;
    w->n_cols = (uint32_t)n_cols;
    w->n_tiles = (w->n_rows + TILE_ROWS - 1) / TILE_ROWS;
    w->tile_bytes = mem_round_up(bytes, 64);
    return mem_mul(w->tile_bytes, w->n_tiles, &total);
}

/* --- words ---------------------------------------------------------------------------------------------------------- */

static uint32_t load_word(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Word of row r in vector v of the code block at q. */
static void store_word(unsigned char *q, unsigned v, unsigned r, uint32_t word)
{
    memcpy(q + 64 * v + 4 * r, &word, sizeof word);
}

#define LOW_NIBBLES 0x0f0f0f0fu
#define LOW_PAIRS   0x03030303u
#define LOW_BITS    0x01010101u

/* Eight quads, each in the low bits of its word, into one of the bit-packed parts of a code block. */
static void store_nibbles(unsigned char *q, unsigned r, const uint32_t quad[8])
{
    for (unsigned i = 0; i < 4; i++)
        store_word(q, i, r, (quad[i] & LOW_NIBBLES) | (quad[i + 4] & LOW_NIBBLES) << 4);
}

static void store_pairs(unsigned char *q, unsigned r, const uint32_t quad[8])
{
    for (unsigned v = 0; v < 2; v++) {
        uint32_t word = 0;

        for (unsigned i = 0; i < 4; i++)
            word |= (quad[4 * v + i] & LOW_PAIRS) << 2 * i;
        store_word(q, v, r, word);
    }
}

static void store_bits(unsigned char *q, unsigned r, const uint32_t quad[8])
{
    uint32_t word = 0;

    for (unsigned i = 0; i < 8; i++)
        word |= (quad[i] & LOW_BITS) << i;
    store_word(q, 0, r, word);
}

/* Eight words of 32 bytes, each byte shifted right; the callers mask. */
static void load_quads(const unsigned char *p, unsigned shift, uint32_t quad[8])
{
    for (unsigned i = 0; i < 8; i++)
        quad[i] = load_word(p + 4 * i) >> shift;
}

/* --- one block of one row --------------------------------------------------------------------------------------------
 * b: the source block; u: the unit, whose row r is written. */

static void put_half(uint16_t *dst, unsigned r, const unsigned char *p)
{
    dst[r] = (uint16_t)(p[0] | p[1] << 8);
}

/* Q4_0 order is the packed order: byte j holds columns j and j + 16. */
static void pack_nibbles(unsigned char *q, unsigned r, const unsigned char *qs)
{
    for (unsigned i = 0; i < 4; i++)
        store_word(q, i, r, load_word(qs + 4 * i));
}

/* The fifth bits of Q5_0 and Q5_1: bit c of qh belongs to column c. */
static void pack_fifth(unsigned char *q, unsigned r, const unsigned char *qh)
{
    const uint32_t h = (uint32_t)qh[0] | (uint32_t)qh[1] << 8 | (uint32_t)qh[2] << 16 | (uint32_t)qh[3] << 24;

    for (unsigned k = 0; k < 4; k++) { /* the bits k, k + 4, ..., k + 28 become byte k */
        uint32_t x = h >> k & 0x11111111u;

        x = (x | x >> 3) & 0x03030303u;
        x = (x | x >> 6) & 0x000f000fu;
        q[4 * r + k] = (unsigned char)(x | x >> 12);
    }
}

static void pack_q4_0(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q4_0 *u = unit;

    put_half(u->d, r, b);
    pack_nibbles(u->q, r, b + 2);
}

static void pack_q4_1(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q4_1 *u = unit;

    put_half(u->d, r, b);
    put_half(u->m, r, b + 2);
    pack_nibbles(u->q, r, b + 4);
}

static void pack_q5_0(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q5_0 *u = unit;

    put_half(u->d, r, b);
    pack_nibbles(u->q, r, b + 6);
    pack_fifth(u->q + CODES_4, r, b + 2);
}

static void pack_q5_1(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q5_1 *u = unit;

    put_half(u->d, r, b);
    put_half(u->m, r, b + 2);
    pack_nibbles(u->q, r, b + 8);
    pack_fifth(u->q + CODES_4, r, b + 4);
}

static void pack_q8_0(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q8_0 *u = unit;

    put_half(u->d, r, b);
    for (unsigned i = 0; i < 8; i++)
        store_word(u->q, i, r, load_word(b + 2 + 4 * i) ^ 0x80808080u); /* + 128 */
}

static void pack_q2_k(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q2_k *u = unit;

    put_half(u->d, r, b + 80);
    put_half(u->dmin, r, b + 82);
    for (unsigned k = 0; k < 16; k++)
        u->sc[k][r] = b[k];
    for (unsigned g = 0; g < 8; g++) {
        uint32_t quad[8];

        load_quads(b + 16 + 32 * (g / 4), 2 * (g % 4), quad);
        store_pairs(u->q[g], r, quad);
    }
}

static void pack_q3_k(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q3_k *u = unit;

    put_half(u->d, r, b + 108);
    for (unsigned k = 0; k < 8; k++) /* same nibbles: k low, k + 8 high */
        u->lo[k][r] = b[96 + k];
    for (unsigned k = 0; k < 4; k++) /* same pairs: k, k + 4, k + 8, k + 12 */
        u->hi[k][r] = b[104 + k];
    for (unsigned g = 0; g < 8; g++) {
        uint32_t quad[8];

        load_quads(b + 32 + 32 * (g / 4), 2 * (g % 4), quad);
        store_pairs(u->q[g], r, quad);
        load_quads(b, g, quad);
        store_bits(u->q[g] + CODES_2, r, quad);
    }
}

/* s: the 12 bytes of 6-bit scales and minima of Q4_K and Q5_K. */
static void pack_scales_k4(uint8_t lo[8][16], uint8_t hi[4][16], unsigned r, const unsigned char *s)
{
    for (unsigned j = 0; j < 4; j++) {
        lo[j][r] = (uint8_t)((s[j] & 15) | (s[j + 4] & 15) << 4);
        lo[j + 4][r] = s[j + 8];
        /* sub-block j in the low nibble: bits 4, 5 of its scale and minimum; j + 4, kept in bits 6, 7, in the high one */
        hi[j][r] = (uint8_t)((s[j] >> 4 & 3) | (s[j + 4] >> 4 & 3) << 2 | (s[j] >> 6) << 4 | (s[j + 4] >> 6) << 6);
    }
}

static void pack_q4_k(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q4_k *u = unit;

    put_half(u->d, r, b);
    put_half(u->dmin, r, b + 2);
    pack_scales_k4(u->lo, u->hi, r, b + 4);
    for (unsigned g = 0; g < 8; g++) {
        uint32_t quad[8];

        load_quads(b + 16 + 32 * (g / 2), 4 * (g % 2), quad);
        store_nibbles(u->q[g], r, quad);
    }
}

static void pack_q5_k(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q5_k *u = unit;

    put_half(u->d, r, b);
    put_half(u->dmin, r, b + 2);
    pack_scales_k4(u->lo, u->hi, r, b + 4);
    for (unsigned g = 0; g < 8; g++) {
        uint32_t quad[8];

        load_quads(b + 48 + 32 * (g / 2), 4 * (g % 2), quad);
        store_nibbles(u->q[g], r, quad);
        load_quads(b + 16, g, quad);
        store_bits(u->q[g] + CODES_4, r, quad);
    }
}

static void pack_q6_k(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_q6_k *u = unit;

    put_half(u->d, r, b + 208);
    for (unsigned k = 0; k < 16; k++)
        u->sc[k][r] = (int8_t)b[192 + k];
    for (unsigned g = 0; g < 8; g++) {
        const unsigned h = g / 4, v = g % 4;
        uint32_t quad[8];

        load_quads(b + 64 * h + 32 * (v % 2), 4 * (v / 2), quad);
        store_nibbles(u->q[g], r, quad);
        load_quads(b + 128 + 32 * h, 2 * v, quad);
        store_pairs(u->q[g] + CODES_4, r, quad);
    }
}

static void pack_iq4_xs(void *unit, unsigned r, const unsigned char *b)
{
    struct unit_iq4_xs *u = unit;
    const unsigned high = b[2] | (unsigned)b[3] << 8; /* bits 2g, 2g + 1: sub-block g */

    put_half(u->d, r, b);
    for (unsigned g = 0; g < 4; g++) {
        const unsigned low = b[4 + g / 2] >> 4 * (g % 2) & 15u, low4 = b[6 + g / 2] >> 4 * (g % 2) & 15u;

        u->lo[g][r] = (uint8_t)(low | low4 << 4);
    }
    for (unsigned g = 0; g < 2; g++) {
        unsigned v = 0;

        for (unsigned i = 0; i < 4; i++)
            v |= (high >> 2 * (g + 2 * i) & 3u) << 2 * i;
        u->hi[g][r] = (uint8_t)v;
    }
    for (unsigned g = 0; g < 8; g++)
        pack_nibbles(u->q[g], r, b + 8 + 16 * g);
}

static void (*pack_block(enum dtype type))(void *, unsigned, const unsigned char *)
{
    switch (type) {
    case DT_Q4_0:
    case DT_IQ4_NL:
        return pack_q4_0;
    case DT_Q4_1:
        return pack_q4_1;
    case DT_Q5_0:
        return pack_q5_0;
    case DT_Q5_1:
        return pack_q5_1;
    case DT_Q8_0:
        return pack_q8_0;
    case DT_Q2_K:
        return pack_q2_k;
    case DT_Q3_K:
        return pack_q3_k;
    case DT_Q4_K:
        return pack_q4_k;
    case DT_Q5_K:
        return pack_q5_k;
    case DT_Q6_K:
        return pack_q6_k;
    case DT_IQ4_XS:
        return pack_iq4_xs;
    default:
        return NULL;
    }
}

/* --- tiles ---------------------------------------------------------------------------------------------------------- */

static void pack_quantised(const struct wmat *w, const unsigned char *src, unsigned char *tile, uint32_t row0)
{
    const struct unit_info *u = unit_info(w->type);
    const struct dtype_info *info = dtype_info((uint32_t)w->type);
    void (*const pack)(void *, unsigned, const unsigned char *) = pack_block(w->type);
    const size_t n_units = w->n_cols / u->cols, row_bytes = n_units * info->block_bytes;
    const unsigned rows = w->n_rows - row0 < TILE_ROWS ? w->n_rows - row0 : TILE_ROWS;

    if (rows < TILE_ROWS)
        memset(tile, 0, w->tile_bytes); /* scale and minimum 0: the missing rows are zero */
    else
        memset(tile + n_units * u->bytes, 0, w->tile_bytes - n_units * u->bytes);
    for (size_t i = 0; i < n_units; i++)
        for (unsigned r = 0; r < rows; r++)
            pack(tile + i * u->bytes, r, src + (row0 + r) * row_bytes + i * info->block_bytes);
}

static void pack_float(const struct wmat *w, const unsigned char *src, unsigned char *tile, uint32_t row0)
{
    const size_t size = w->type == DT_F32 ? 4 : 2, row_bytes = w->n_cols * size;
    const unsigned rows = w->n_rows - row0 < TILE_ROWS ? w->n_rows - row0 : TILE_ROWS;

    memset(tile, 0, w->tile_bytes);
    for (size_t c0 = 0; c0 < w->n_cols; c0 += 64) { /* 64 columns of all rows stay in the first-level cache */
        const size_t c1 = c0 + 64 < w->n_cols ? c0 + 64 : w->n_cols;

        for (unsigned r = 0; r < rows; r++) {
            const unsigned char *row = src + (row0 + r) * row_bytes;

            if (w->type == DT_F32)
                for (size_t c = c0; c < c1; c++)
                    memcpy(tile + 4 * (16 * c + r), row + 4 * c, 4);
            else if (w->type == DT_F16)
                for (size_t c = c0; c < c1; c++)
                    memcpy(tile + 2 * (16 * c + r), row + 2 * c, 2);
            else
                for (size_t c = c0; c < c1; c++)
                    memcpy(tile + 2 * (32 * (c / 2) + 2 * r + c % 2), row + 2 * c, 2);
        }
    }
}

void wmat_pack(const struct wmat *w, const void *src, unsigned char *dst, uint32_t tile0, uint32_t tile1)
{
    for (uint32_t t = tile0; t < tile1; t++) {
        unsigned char *tile = dst + (size_t)t * w->tile_bytes;

        if (unit_info(w->type))
            pack_quantised(w, src, tile, t * TILE_ROWS);
        else
            pack_float(w, src, tile, t * TILE_ROWS);
    }
}
