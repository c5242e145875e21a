#include "backend-hip/runtime/hip_images.h"

#include "backend-hip/hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* HIP_IMAGES is the folder of the compiled kernels, given by the Makefile when it could compile
 * them. They lie there as zstd makes them: with zlib, whose window is 32 KiB, they take twice the
 * room; xz takes 2% less, but ten times as long to unpack them when a run begins. Images one by one
 * take 1.6 times the room of a vendor's together. */
#ifdef HIP_IMAGES
#define EMBED(symbol, file)                                                                        \
    __asm__(".section .rodata\n" symbol ": .incbin \"" HIP_IMAGES "/" file "\"\n" symbol "_end:\n" \
            ".byte 0\n.previous\n")
#define EMBED_IMAGES(name)                                                                         \
    EMBED("hip_images_" #name, #name ".zst");                                                      \
    extern const unsigned char hip_images_##name[], hip_images_##name##_end[]
EMBED_IMAGES(amd);
EMBED_IMAGES(nvidia);
EMBED_IMAGES(sources);
EMBED(".globl hip_kernel_table\nhip_kernel_table", "gfx906.tsv");
#define IMAGE(arch, of, is_ptx, nth)                                                               \
    (struct hip_image) { arch, hip_images_##of, hip_images_##of##_end, is_ptx, nth }
#define AMD(arch, nth) IMAGE(#arch, amd, 0, nth)
#define NVIDIA(arch, nth) IMAGE(#arch, nvidia, 1, nth)
#else
const char hip_kernel_table[] = "";
#endif

enum { MAX_PART = 1 << 30 };

const struct hip_image hip_images[] = {
#ifdef HIP_IMAGES
/* what is for a chip comes before what is for all of a family, the newest PTX first: later GPUs
 * accept that of earlier ones */
#include "images.inc"
#endif
    {0},
};

const struct hip_image hip_kernel_sources =
#ifdef HIP_IMAGES
    IMAGE("sources", sources, 0, 0);
#else
    {0};
#endif

struct part {
    size_t first, bytes;
    unsigned long crc;
};

enum { LINE_BYTES = 64 };

/* Part `nth` in the first n bytes of a stream; 0: not in them yet, more are known by `needed`; -1:
 * these are no parts. */
static int find_part(const unsigned char *all, size_t n, int nth, struct part *p, size_t *needed)
{
    char line[LINE_BYTES];
    size_t at = 0;
    for (; at < n; at += p->bytes) {
        const unsigned char *end = memchr(all + at, '\n', n - at);
        size_t length = end ? (size_t)(end - all) - at : n - at;
        if (length >= sizeof line) return -1;
        if (!end) break;
        memcpy(line, all + at, length);
        line[length] = 0;
        if (sscanf(line, "%zu %lx", &p->bytes, &p->crc) != 2 || p->bytes > MAX_PART) return -1;
        p->first = at += length + 1;
        *needed = at + p->bytes;
        if (!nth--) return n >= *needed;
    }
    *needed = at + LINE_BYTES;
    return 0;
}

void *hip_image_unpack(const struct hip_image *image, struct err *e)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = {image->data, (size_t)(image->end - image->data), 0};
    ZSTD_outBuffer out = {NULL, 0, 0};
    struct part p = {0};
    size_t needed = LINE_BYTES; /* images behind this one are not unpacked */
    int found = 0, memory = z != NULL;
    for (size_t rest = 1; memory && rest && !found;) {
        if (out.pos == out.size) {
            void *more = realloc(out.dst, needed + 1);
            if (!more) {
                memory = 0;
                break;
            }
            out.dst = more, out.size = needed;
        }
        const size_t in_before = in.pos, out_before = out.pos;
        rest = ZSTD_decompressStream(z, &out, &in);
        if (ZSTD_isError(rest) || (in.pos == in_before && out.pos == out_before)) break;
        found = find_part(out.dst, out.pos, image->nth, &p, &needed);
    }
    ZSTD_freeDStream(z);
    if (found > 0 && crc32_z(0, (unsigned char *)out.dst + p.first, p.bytes) != p.crc) found = -1;
    if (found <= 0) {
        free(out.dst);
        if (!memory) err_memory(e);
        else err_set(e, "the kernels of %s in this program are damaged", image->arch);
        return NULL;
    }
    char *bytes = memmove(out.dst, (char *)out.dst + p.first, p.bytes);
    bytes[p.bytes] = 0;
    return bytes;
}
