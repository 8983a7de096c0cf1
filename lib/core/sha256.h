/* SHA-256 (FIPS 180-4), for provenance digests that sha256sum can check. Each state belongs to one thread. */
#ifndef SLUICE_CORE_SHA256_H
#define SLUICE_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_HEX_SIZE 65 /* 64 hexadecimal digits and the NUL */

struct sha256 {
    uint32_t h[8];
    uint64_t n_bytes;
    unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
/* The little-endian bytes of v, so that digests do not depend on the machine. */
void sha256_add_u64(struct sha256 *s, uint64_t v);
/* Ends the state: only sha256_init may follow. */
void sha256_end(struct sha256 *s, unsigned char out[SHA256_BYTES]);

/* Lower-case hexadecimal digits, NUL-terminated. */
void sha256_hex(const unsigned char digest[SHA256_BYTES], char out[SHA256_HEX_SIZE]);

#endif
