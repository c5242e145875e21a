/* images.h: the families of images (compiled kernels, one image for each architecture) and which of
 * them this is. Conditions on architectures stand here only. Each image is of one family:
 *   SIMD     no matrix instructions are used: gfx900, gfx906, gfx10, NVIDIA before sm_80
 *   MFMA     gfx908, gfx90a, gfx94x, gfx95x
 *   WMMA     gfx11
 *   WMMA12   gfx12
 *   SM80     NVIDIA from sm_80 on, mma
 *   SM90     NVIDIA sm_90a, mma and wgmma
 * Host code of the kernels stands for the first four, or for one of the last two
 * (tests/emulators/fibers). A set of families is what kernel_list.h names: one of these or
 *   ALL, NO_MMA (the first four), MMA (the last two) */
#ifndef KERNELS_IMAGES_H
#define KERNELS_IMAGES_H

enum image_set {
    IMAGES_SIMD = 1,
    IMAGES_MFMA = 2,
    IMAGES_WMMA = 4,
    IMAGES_WMMA12 = 8,
    IMAGES_SM80 = 16,
    IMAGES_SM90 = 32,
    IMAGES_NO_MMA = 15,
    IMAGES_MMA = 48,
    IMAGES_ALL = 63
};

#if defined(__NVPTX__)
#define NVIDIA __CUDA_ARCH__
#elif defined(FIBERS_CUDA)
#define NVIDIA (10 * FIBERS_CUDA)
#else
#define NVIDIA 0
#endif

#if NVIDIA >= 900
#define THIS_IMAGE 32
#elif NVIDIA >= 800
#define THIS_IMAGE 16
#elif defined(__AMDGCN__) && (defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__))
#define THIS_IMAGE 2
#elif defined(__AMDGCN__) && defined(__gfx1100__)
#define THIS_IMAGE 4
#elif defined(__AMDGCN__) && defined(__gfx1201__)
#define THIS_IMAGE 8
#elif defined(__AMDGCN__) || defined(__NVPTX__)
#define THIS_IMAGE 1
#else
#define THIS_IMAGE 15
#endif

#define HAS_MMA (THIS_IMAGE & 48)
#define HAS_WGMMA (THIS_IMAGE & 32)
#define HAS_AMD_MATRIX (THIS_IMAGE & 14)

/* ON_set(kernel): the kernel where this image is one of the set. */
#define ON_ALL(...) __VA_ARGS__
#if THIS_IMAGE & 15
#define ON_NO_MMA(...) __VA_ARGS__
#define ON_MMA(...)
#else
#define ON_NO_MMA(...)
#define ON_MMA(...) __VA_ARGS__
#endif
#if THIS_IMAGE & 1
#define ON_SIMD(...) __VA_ARGS__
#else
#define ON_SIMD(...)
#endif
#if THIS_IMAGE & 2
#define ON_MFMA(...) __VA_ARGS__
#else
#define ON_MFMA(...)
#endif
#if THIS_IMAGE & 4
#define ON_WMMA(...) __VA_ARGS__
#else
#define ON_WMMA(...)
#endif
#if THIS_IMAGE & 8
#define ON_WMMA12(...) __VA_ARGS__
#else
#define ON_WMMA12(...)
#endif
#if THIS_IMAGE & 16
#define ON_SM80(...) __VA_ARGS__
#else
#define ON_SM80(...)
#endif
#if THIS_IMAGE & 32
#define ON_SM90(...) __VA_ARGS__
#else
#define ON_SM90(...)
#endif

#endif
