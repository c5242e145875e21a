/* sha256.h: SHA-256 (FIPS 180-4), for names by which contents are found again. */
#ifndef CORE_SHA256_H
#define CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };

struct sha256 {
    uint32_t h[8];
    uint8_t block[SHA256_BLOCK];
    uint64_t n; /* bytes so far */
};

void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

#endif
