/* images.h: the families of images (an image is the kernels compiled for one architecture) and the
 * family of this one. All conditions on architectures are here. Every image is of one family:
 *   GFX906   the paper's chip
 *   VECTOR   no matrix instructions either: gfx9 before gfx908, gfx10, NVIDIA before sm_80
 *   MFMA     gfx908, gfx90a, gfx94x, gfx95x
 *   WMMA     gfx11
 *   WMMA12   gfx12
 *   SM80     NVIDIA from sm_80 on, mma
 *   SM90     NVIDIA sm_90a, mma and wgmma
 * Host code of the kernels (tests/emulators/fibers) stands for the first five, or for one of the
 * last two. kernel_list.h names sets of families: one of these or
 *   ALL, NO_MMA (the first five), MMA (the last two), SIMD (the first two),
 *   ABLATION (GFX906 and MMA: half a megabyte is saved in the other images) */
#ifndef KERNELS_IMAGES_H
#define KERNELS_IMAGES_H

#define IMAGES_GFX906 1
#define IMAGES_MFMA 2
#define IMAGES_WMMA 4
#define IMAGES_WMMA12 8
#define IMAGES_SM80 16
#define IMAGES_SM90 32
#define IMAGES_VECTOR 64
#define IMAGES_SIMD (IMAGES_GFX906 | IMAGES_VECTOR)
#define IMAGES_NO_MMA (IMAGES_SIMD | IMAGES_MFMA | IMAGES_WMMA | IMAGES_WMMA12)
#define IMAGES_MMA (IMAGES_SM80 | IMAGES_SM90)
#define IMAGES_ALL (IMAGES_NO_MMA | IMAGES_MMA)
#define IMAGES_ABLATION (IMAGES_GFX906 | IMAGES_MMA)

/* Families of AMD's architectures by compiler macros: newer compilers have a macro of the family,
 * all have the chip's own; gfx94x and gfx95x have the chip's only. */
#if defined(__GFX12__) || defined(__gfx1200__) || defined(__gfx1201__)
#define GFX12 1
#elif defined(__GFX11__) || defined(__gfx1100__) || defined(__gfx1101__) ||                        \
    defined(__gfx1102__) || defined(__gfx1103__)
#define GFX11 1
#elif defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) ||  \
    defined(__gfx9_4_generic__)
#define GFX94 1
#elif defined(__GFX9__)
#define GFX9 1
#endif

#if defined(__NVPTX__)
#define NVIDIA __CUDA_ARCH__
#elif defined(FIBERS_CUDA)
#define NVIDIA (10 * FIBERS_CUDA)
#else
#define NVIDIA 0
#endif

#if NVIDIA >= 900
#define THIS_IMAGE IMAGES_SM90
#elif NVIDIA >= 800
#define THIS_IMAGE IMAGES_SM80
#elif defined(GFX94) || defined(__gfx908__) || defined(__gfx90a__)
#define THIS_IMAGE IMAGES_MFMA
#elif defined(GFX11)
#define THIS_IMAGE IMAGES_WMMA
#elif defined(GFX12)
#define THIS_IMAGE IMAGES_WMMA12
#elif defined(__gfx906__)
#define THIS_IMAGE IMAGES_GFX906
#elif defined(__AMDGCN__) || defined(__NVPTX__)
#define THIS_IMAGE IMAGES_VECTOR
#else
#define THIS_IMAGE IMAGES_NO_MMA
#endif
#define HAS_MMA (THIS_IMAGE & IMAGES_MMA)
#define HAS_WGMMA (THIS_IMAGE & IMAGES_SM90)
#define HAS_ABLATION (THIS_IMAGE & IMAGES_ABLATION)
#define HAS_AMD_MATRIX (THIS_IMAGE & (IMAGES_MFMA | IMAGES_WMMA | IMAGES_WMMA12))

/* v_dot2_f32_f16 is missing in the first chips of gfx9 and gfx10, and where the second attempt of
 * hip_compile.c says so (NO_DOT2). */
#if defined(__AMDGCN__) && !defined(NO_DOT2) && !defined(__gfx900__) && !defined(__gfx902__) &&    \
    !defined(__gfx904__) && !defined(__gfx909__) && !defined(__gfx90c__) &&                        \
    !defined(__gfx9_generic__) && !defined(__gfx1010__) && !defined(__gfx1013__) &&                \
    !defined(__gfx10_1_generic__)
#define HAS_DOT2 1
#else
#define HAS_DOT2 0
#endif

/* v_dot8_u32_u4 is where v_dot2_f32_f16 is. */
#define HAS_DOT8 HAS_DOT2

/* ON_set(kernel): the kernel where this image is one of the set. */
#define ON_ALL(...) __VA_ARGS__
#if THIS_IMAGE & IMAGES_NO_MMA
#define ON_NO_MMA(...) __VA_ARGS__
#define ON_MMA(...)
#else
#define ON_NO_MMA(...)
#define ON_MMA(...) __VA_ARGS__
#endif
#if THIS_IMAGE & IMAGES_SIMD
#define ON_SIMD(...) __VA_ARGS__
#else
#define ON_SIMD(...)
#endif
#if THIS_IMAGE & IMAGES_MFMA
#define ON_MFMA(...) __VA_ARGS__
#else
#define ON_MFMA(...)
#endif
#if THIS_IMAGE & IMAGES_WMMA
#define ON_WMMA(...) __VA_ARGS__
#else
#define ON_WMMA(...)
#endif
#if THIS_IMAGE & IMAGES_WMMA12
#define ON_WMMA12(...) __VA_ARGS__
#else
#define ON_WMMA12(...)
#endif
#if THIS_IMAGE & IMAGES_SM80
#define ON_SM80(...) __VA_ARGS__
#else
#define ON_SM80(...)
#endif
#if THIS_IMAGE & IMAGES_SM90
#define ON_SM90(...) __VA_ARGS__
#else
#define ON_SM90(...)
#endif

#endif
