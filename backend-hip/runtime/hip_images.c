#include "backend-hip/runtime/hip_images.h"

#include "backend-hip/hip.h"

/* HIP_IMAGES is the folder of the compiled kernels, given by the Makefile when it could compile
 * them. */
#ifdef HIP_IMAGES
#define EMBED(symbol, file)                                                                        \
    __asm__(".section .rodata\n.balign 4096\n" symbol ": .incbin \"" HIP_IMAGES "/" file           \
            "\"\n.byte 0\n.previous\n")

EMBED("hip_image_gfx906", "gfx906.co");
EMBED("hip_image_gfx908", "gfx908.co");
EMBED("hip_image_gfx90a", "gfx90a.co");
EMBED("hip_image_gfx942", "gfx942.co");
EMBED("hip_image_gfx1030", "gfx1030.co");
EMBED("hip_image_gfx1100", "gfx1100.co");
EMBED("hip_image_gfx1201", "gfx1201.co");
EMBED("hip_image_sm_90a", "sm_90a.ptx");
EMBED("hip_image_sm_80", "sm_80.ptx");
EMBED("hip_image_sm_70", "sm_70.ptx");
EMBED(".globl hip_kernel_table\nhip_kernel_table", "gfx906.tsv");
extern const unsigned char hip_image_gfx906[], hip_image_gfx908[], hip_image_gfx90a[],
    hip_image_gfx942[], hip_image_gfx1030[], hip_image_gfx1100[], hip_image_gfx1201[],
    hip_image_sm_90a[], hip_image_sm_80[], hip_image_sm_70[];
EMBED(".globl hip_kernel_sources\nhip_kernel_sources", "sources");
#else
const char hip_kernel_table[] = "", hip_kernel_sources[] = "";
#endif

const struct hip_image hip_images[] = {
#ifdef HIP_IMAGES
    {"gfx906", hip_image_gfx906, 0},
    {"gfx908", hip_image_gfx908, 0},
    {"gfx90a", hip_image_gfx90a, 0},
    {"gfx942", hip_image_gfx942, 0},
    {"gfx1030", hip_image_gfx1030, 0},
    {"gfx1100", hip_image_gfx1100, 0},
    {"gfx1201", hip_image_gfx1201, 0},
    {"sm_90a", hip_image_sm_90a,
     1}, /* newest first: later GPUs accept PTX of earlier ones */
    {"sm_80", hip_image_sm_80, 1},
    {"sm_70", hip_image_sm_70, 1},
#endif
    {0},
};
