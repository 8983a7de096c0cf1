/* Packed weight tiles: the layout that every CPU kernel reads.
 *
 * A tile holds TILE_ROWS = 16 rows. Quantised types cut its columns into units, one after another, in column order; a
 * unit holds the scales of its 16 rows and then, for every 32 columns, one code block. Columns come in quads: for the
 * quad j (columns 4j .. 4j+3 of the 32) the codes of the 16 rows make one 64-byte vector, row r at bytes 4r .. 4r+3,
 * which is the operand of a u8 x s8 dot product whose 32-bit lanes are the rows. Code blocks store the eight vectors of 32
 * columns bit-packed so that shifts and masks on whole vectors bring them back:
 *
 *   bits  bytes  vectors in memory
 *   8     512    V0..V7 as they are
 *   4     256    N0..N3: Ni holds quad i in its low and quad i + 4 in its high nibbles
 *   5     320    N0..N3, B: bit j of every byte of B is bit 4 of quad j
 *   6     384    N0..N3, P0, P1: bits 2i, 2i+1 of P0 are bits 4, 5 of quad i, of P1 those of quad i + 4
 *   2     128    P0, P1 as above, as bits 0, 1
 *   3     192    P0, P1, B: as above, B for bit 2
 *
 * A code is unsigned; the weight is scale * (code - offset), or scale * code + minimum, or scale * iq4_values[code].
 * The float types are not cut into units: F32 [n_cols][16], F16 [n_cols][16], BF16 [ceil(n_cols / 2)][16][2].
 * A tile ends with zero bytes up to a multiple of 64. Sizes equal those of the source, 16 rows of blocks a unit. */
#ifndef SLUICE_KERNELS_BLOCKS_H
#define SLUICE_KERNELS_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"

#define CODES_8 512u
#define CODES_6 384u
#define CODES_5 320u
#define CODES_4 256u
#define CODES_3 192u
#define CODES_2 128u

/* 32 columns a unit; d and m are IEEE halves, one per row. */
struct unit_q4_0 { uint16_t d[16]; uint8_t q[CODES_4]; };                   /* offset 8; IQ4_NL: values by table */
struct unit_q4_1 { uint16_t d[16], m[16]; uint8_t q[CODES_4]; };            /* minimum m */
struct unit_q5_0 { uint16_t d[16]; uint8_t q[CODES_5]; };                   /* offset 16 */
struct unit_q5_1 { uint16_t d[16], m[16]; uint8_t q[CODES_5]; };            /* minimum m */
struct unit_q8_0 { uint16_t d[16]; uint8_t q[CODES_8]; };                   /* offset 128 */

/* 256 columns a unit. */

/* Scale of 32 columns d * sc, minimum -dmin * mn, sc and mn of 6 bits. lo[g][row]: low nibbles of sc (low) and mn (high).
 * hi[g % 4][row]: nibble g / 4 has bits 4, 5 of sc and then of mn. */
struct unit_q4_k { uint16_t d[16], dmin[16]; uint8_t lo[8][16], hi[4][16]; uint8_t q[8][CODES_4]; };
struct unit_q5_k { uint16_t d[16], dmin[16]; uint8_t lo[8][16], hi[4][16]; uint8_t q[8][CODES_5]; };

/* Scale of 16 columns d * sc, offset 32. */
struct unit_q6_k { uint16_t d[16]; int8_t sc[16][16]; uint8_t q[8][CODES_6]; };

/* Scale of 16 columns d * (sc & 15), minimum -dmin * (sc >> 4). */
struct unit_q2_k { uint16_t d[16], dmin[16]; uint8_t sc[16][16]; uint8_t q[8][CODES_2]; };

/* Scale of 16 columns d * (sc - 32), offset 4, sc of 6 bits. lo[g % 8][row]: nibble g / 8 is the low part. hi[g % 4][row]:
 * bits 2 (g / 4) and up are bits 4, 5. */
struct unit_q3_k { uint16_t d[16]; uint8_t lo[8][16], hi[4][16]; uint8_t q[8][CODES_3]; };

/* Scale of 32 columns d * (sc - 32), values by table. lo[g % 4][row]: nibble g / 4; hi[g % 2][row]: bits 2 (g / 2) and up. */
struct unit_iq4_xs { uint16_t d[16]; uint8_t lo[4][16], hi[2][16]; uint8_t q[8][CODES_4]; };

_Static_assert(sizeof(struct unit_q4_0) == 16 * 18, "Q4_0, IQ4_NL");
_Static_assert(sizeof(struct unit_q4_1) == 16 * 20, "Q4_1");
_Static_assert(sizeof(struct unit_q5_0) == 16 * 22, "Q5_0");
_Static_assert(sizeof(struct unit_q5_1) == 16 * 24, "Q5_1");
_Static_assert(sizeof(struct unit_q8_0) == 16 * 34, "Q8_0");
_Static_assert(sizeof(struct unit_q4_k) == 16 * 144, "Q4_K");
_Static_assert(sizeof(struct unit_q5_k) == 16 * 176, "Q5_K");
_Static_assert(sizeof(struct unit_q6_k) == 16 * 210, "Q6_K");
_Static_assert(sizeof(struct unit_q2_k) == 16 * 84, "Q2_K");
_Static_assert(sizeof(struct unit_q3_k) == 16 * 110, "Q3_K");
_Static_assert(sizeof(struct unit_iq4_xs) == 16 * 136, "IQ4_XS");

struct unit_info {
    enum dtype type;
    uint16_t cols, bytes;  /* of a unit */
    uint16_t codes;        /* offset of the first code block */
    uint8_t bits;          /* of a code */
    uint8_t offset;        /* subtracted from a code; 128 where codes go through iq4_values */
    uint8_t group;         /* columns that share a scale: 16 or 32 */
    bool minimum, table;
};

/* NULL for float types and types without a packed layout. */
const struct unit_info *unit_info(enum dtype type);

extern const int8_t iq4_values[16];

/* Columns 32 g .. 32 g + 31 of a tile, decoded without SIMD: q[row][col] = code - offset (or the table's value), and for the
 * one or two scale groups sw and mw (0 for types without a minimum) of every row. */
struct group_values {
    int8_t q[16][32];
    float sw[2][16], mw[2][16];
};
void tile_group(const struct wmat *w, uint32_t tile, uint32_t g, struct group_values *out);

#endif
