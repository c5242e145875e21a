/* kernels.hip: all kernels as one translation unit, compiled once for each target. */
#include "backend-hip/kernels/common/args.h"

#include "backend-hip/kernels/common/prelude.h"

#include "backend-hip/kernels/common/linear.h"

/* Instructions of NVIDIA's matrix units, in inline assembly: other families of kernels for fp16
 * activations, of sm_80 and of sm_90a. The host has them where tests/emulators/fibers/fiber_cuda.c
 * is CUDA's driver. */
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

/* AMD's matrix instructions: another kernel for prompts with fp16 activations. The host has all,
 * and tests/emulators/fibers/fibers.c lets each device that it pretends to be have its own. */
#if defined(__AMDGCN__) && (defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) ||   \
                            defined(__gfx1100__) || defined(__gfx1201__))
#define MATRIX_AMD 1
#else
#define MATRIX_AMD 0
#endif

#include "backend-hip/kernels/common/vector.hip"

#include "backend-hip/kernels/common/argmax.hip"
#include "backend-hip/kernels/common/attend.hip"
#include "backend-hip/kernels/common/linear_decode.hip"
#include "backend-hip/kernels/common/pack.hip"
#include "backend-hip/kernels/paper/linear_paper.hip"
#include "backend-hip/kernels/common/linear_prefill.hip"
#include "backend-hip/kernels/common/top.hip"

#if MATRIX_F16
#include "backend-hip/kernels/nvidia/ptx.h"

#include "backend-hip/kernels/nvidia/attend_decode_mma.hip"

#if NVIDIA >= 900
#include "backend-hip/kernels/hopper/ptx.h"

#include "backend-hip/kernels/hopper/linear_decode_mma.hip"
#include "backend-hip/kernels/hopper/vector_1024.hip"

#include "backend-hip/kernels/hopper/linear_gemv.hip"

#include "backend-hip/kernels/hopper/linear_prefill_wgmma.hip"
#include "backend-hip/kernels/hopper/linear_decode_wgmma.hip"

#include "backend-hip/kernels/hopper/attend_prefill_wgmma.hip"
#else
#include "backend-hip/kernels/nvidia/attend_prefill_mma.hip"
#include "backend-hip/kernels/nvidia/linear_decode_mma.hip"
#include "backend-hip/kernels/nvidia/linear_prefill_mma.hip"
#endif

#include "backend-hip/kernels/nvidia/linear_plain_mma.hip"
#endif

#if MATRIX_AMD || !(defined(__AMDGCN__) || defined(__NVPTX__))
#include "backend-hip/kernels/amd/linear_prefill_matrix.hip"
#endif
