#include "backend-hip/runtime/hip_images.h"

#include "backend-hip/hip.h"

#include <lzma.h>
#include <stdlib.h>
#include <string.h>

/* HIP_IMAGES is the folder of the compiled kernels, given by the Makefile when it could compile
 * them. They lie there as xz -9e makes them: with zlib, whose window is 32 KiB, they take twice the
 * room. */
#ifdef HIP_IMAGES
#define EMBED(symbol, file)                                                                        \
    __asm__(".section .rodata\n" symbol ": .incbin \"" HIP_IMAGES "/" file "\"\n" symbol "_end:\n" \
            ".byte 0\n.previous\n")
#define EMBED_IMAGE(arch, file)                                                                    \
    EMBED("hip_image_" #arch, file);                                                               \
    extern const unsigned char hip_image_##arch[], hip_image_##arch##_end[]
EMBED_IMAGE(gfx906, "gfx906.co.xz");
EMBED_IMAGE(gfx908, "gfx908.co.xz");
EMBED_IMAGE(gfx90a, "gfx90a.co.xz");
EMBED_IMAGE(gfx942, "gfx942.co.xz");
EMBED_IMAGE(gfx1030, "gfx1030.co.xz");
EMBED_IMAGE(gfx1100, "gfx1100.co.xz");
EMBED_IMAGE(gfx1201, "gfx1201.co.xz");
EMBED_IMAGE(sm_90a, "sm_90a.ptx.xz");
EMBED_IMAGE(sm_80, "sm_80.ptx.xz");
EMBED_IMAGE(sm_70, "sm_70.ptx.xz");
EMBED_IMAGE(sources, "sources.xz");
EMBED(".globl hip_kernel_table\nhip_kernel_table", "gfx906.tsv");
#define IMAGE(arch, is_ptx) {#arch, hip_image_##arch, hip_image_##arch##_end, is_ptx}
#else
const char hip_kernel_table[] = "";
#endif

const struct hip_image hip_images[] = {
#ifdef HIP_IMAGES
    IMAGE(gfx906, 0),
    IMAGE(gfx908, 0),
    IMAGE(gfx90a, 0),
    IMAGE(gfx942, 0),
    IMAGE(gfx1030, 0),
    IMAGE(gfx1100, 0),
    IMAGE(gfx1201, 0),
    IMAGE(sm_90a, 1), /* newest first: later GPUs accept PTX of earlier ones */
    IMAGE(sm_80, 1),
    IMAGE(sm_70, 1),
#endif
    {0},
};

const struct hip_image hip_kernel_sources =
#ifdef HIP_IMAGES
    IMAGE(sources, 0);
#else
    {0};
#endif

void *hip_image_unpack(const struct hip_image *image, struct err *e)
{
    lzma_stream z = LZMA_STREAM_INIT;
    size_t room = 0;
    unsigned char *out = NULL;
    lzma_ret rc = lzma_stream_decoder(&z, UINT64_MAX, 0);
    z.next_in = image->data;
    z.avail_in = (size_t)(image->end - image->data);
    while (rc == LZMA_OK) {
        if (z.avail_out == 0) {
            room = room ? 2 * room : (size_t)1 << 20;
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
    }
    size_t n = (size_t)z.total_out;
    lzma_end(&z);
    if (rc != LZMA_STREAM_END) {
        free(out);
        if (rc == LZMA_MEM_ERROR) err_memory(e);
        else err_set(e, "the kernels of %s in this program are damaged", image->arch);
        return NULL;
    }
    out[n] = 0;
    return out;
}
