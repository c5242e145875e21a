#include "core/base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t word_of(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void take_block(struct sha256 *s, const uint8_t *block)
{
    uint32_t w[64], v[8];
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 16; i++) w[i] = word_of(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) +
               (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4], choice = (e & v[5]) ^ (~e & v[6]),
                 most = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]),
                 t1 = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + k[i] + w[i],
                 t2 = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + most;
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

void sha256_begin(struct sha256 *s)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->h, first, sizeof first);
    s->n = 0;
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
    const uint8_t *from = p;
    while (n) {
        size_t at = s->n % SHA256_BLOCK, room = SHA256_BLOCK - at, take = n < room ? n : room;
        if (take == SHA256_BLOCK) {
            take_block(s, from);
        } else {
            memcpy(s->block + at, from, take);
            if (take == room) take_block(s, s->block);
        }
        s->n += take;
        from += take;
        n -= take;
    }
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    static const uint8_t end[SHA256_BLOCK] = {0x80};
    uint64_t bits = s->n * 8;
    uint8_t length[8];
    size_t at = s->n % SHA256_BLOCK;
    sha256_add(s, end, at < 56 ? 56 - at : 120 - at);
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < SHA256_BYTES; i++) out[i] = (uint8_t)(s->h[i / 4] >> (24 - i % 4 * 8));
}
