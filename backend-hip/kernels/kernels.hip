/* kernels.hip: all kernels as one translation unit, compiled once for each target. */
#include "backend-hip/kernels/args.h"

#include "backend-hip/kernels/prelude.h"

#include "backend-hip/kernels/linear.h"

/* Instructions of NVIDIA's matrix units, in inline assembly: other families of kernels for fp16 activations, of sm_80 and of sm_90a.
 * The host has them where tests/fiber_cuda.c is CUDA's driver. */
#if defined(__NVPTX__)
#define NVIDIA __CUDA_ARCH__
#elif defined(FIBERS_CUDA)
#define NVIDIA (10 * FIBERS_CUDA)
#else
#define NVIDIA 0
#endif
#if NVIDIA >= 800
#define MATRIX_F16 1
#else
#define MATRIX_F16 0
#endif

/* AMD's matrix instructions: another kernel for prompts with fp16 activations. The host has all, and tests/fibers.c lets each device
 * that it pretends to be have its own. */
#if defined(__AMDGCN__) && (defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx1100__) || defined(__gfx1201__))
#define MATRIX_AMD 1
#else
#define MATRIX_AMD 0
#endif

#include "backend-hip/kernels/vector.hip"

#include "backend-hip/kernels/argmax.hip"
#include "backend-hip/kernels/attention.hip"
#include "backend-hip/kernels/decode.hip"
#include "backend-hip/kernels/pack.hip"
#include "backend-hip/kernels/paper.hip"
#include "backend-hip/kernels/prefill.hip"
#include "backend-hip/kernels/top.hip"

#if MATRIX_F16
#include "backend-hip/kernels/nvidia.h"

#include "backend-hip/kernels/mma_split.hip"

#if NVIDIA >= 900
#include "backend-hip/kernels/hopper.h"

#include "backend-hip/kernels/hopper_decode.hip"
#include "backend-hip/kernels/hopper_rows.hip"

#include "backend-hip/kernels/hopper_one.hip"

#include "backend-hip/kernels/wgmma.hip"
#include "backend-hip/kernels/wgmma_few.hip"

#include "backend-hip/kernels/hopper_attend.hip"
#else
#include "backend-hip/kernels/mma_attend.hip"
#include "backend-hip/kernels/mma_decode.hip"
#include "backend-hip/kernels/mma_prefill.hip"
#endif

#include "backend-hip/kernels/mma_dense.hip"
#endif

#if MATRIX_AMD || !(defined(__AMDGCN__) || defined(__NVPTX__))
#include "backend-hip/kernels/matrix_prefill.hip"
#endif
