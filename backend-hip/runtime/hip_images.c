#include "backend-hip/runtime/hip_images.h"

#include "backend-hip/hip.h"

#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* HIP_IMAGES is the folder of the compiled kernels, given by the Makefile when it could compile
 * them. They lie there as xz makes them: with zlib, whose window is 32 KiB, they take twice the
 * room; images one by one take 1.6 times the room of a vendor's together. */
#ifdef HIP_IMAGES
#define EMBED(symbol, file)                                                                        \
    __asm__(".section .rodata\n" symbol ": .incbin \"" HIP_IMAGES "/" file "\"\n" symbol "_end:\n" \
            ".byte 0\n.previous\n")
#define EMBED_IMAGES(name)                                                                         \
    EMBED("hip_images_" #name, #name ".xz");                                                       \
    extern const unsigned char hip_images_##name[], hip_images_##name##_end[]
EMBED_IMAGES(amd);
EMBED_IMAGES(nvidia);
EMBED_IMAGES(sources);
EMBED(".globl hip_kernel_table\nhip_kernel_table", "gfx906.tsv");
#define AMD(arch, nth) {#arch, hip_images_amd, hip_images_amd_end, 0, nth}
#define NVIDIA(arch, nth) {#arch, hip_images_nvidia, hip_images_nvidia_end, 1, nth}
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
    {"sources", hip_images_sources, hip_images_sources_end, 0, 0};
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
    lzma_stream z = LZMA_STREAM_INIT;
    struct part p = {0};
    size_t room = 0, needed = LINE_BYTES; /* images behind this one are not unpacked */
    unsigned char *out = NULL;
    int found = 0;
    lzma_ret rc = lzma_stream_decoder(&z, UINT64_MAX, 0);
    z.next_in = image->data;
    z.avail_in = (size_t)(image->end - image->data);
    while (rc == LZMA_OK && !found) {
        if (z.avail_out == 0) {
            room = needed;
            unsigned char *more = realloc(out, room + 1);
            if (!more) {
                rc = LZMA_MEM_ERROR;
                break;
            }
            out = more;
            z.next_out = out + z.total_out;
            z.avail_out = room - (size_t)z.total_out;
        }
        rc = lzma_code(&z, LZMA_FINISH);
        if (rc == LZMA_OK || rc == LZMA_STREAM_END)
            found = find_part(out, (size_t)z.total_out, image->nth, &p, &needed);
    }
    lzma_end(&z);
    if (found > 0 && crc32_z(0, out + p.first, p.bytes) != p.crc) found = -1;
    if (found <= 0) {
        free(out);
        if (rc == LZMA_MEM_ERROR) err_memory(e);
        else err_set(e, "the kernels of %s in this program are damaged", image->arch);
        return NULL;
    }
    memmove(out, out + p.first, p.bytes);
    out[p.bytes] = 0;
    return out;
}
