/* kernels.hip: all kernels as one translation unit, compiled once for each target. It includes what
 * the target has only, so that the others are not compiled anew after an edit of the rest. */
#include "backend-hip/kernels/common/args.h"
#include "backend-hip/kernels/common/images.h"
#if HAS_ABLATION
#include "backend-hip/kernels/paper/args.h"
#endif
#if HAS_AMD_MATRIX
#include "backend-hip/kernels/amd/args.h"
#endif
#if HAS_WGMMA
#include "backend-hip/kernels/hopper/args.h"
#elif HAS_MMA
#include "backend-hip/kernels/nvidia/args.h"
#endif

#define KERNEL_ROW(name, images, op, threads, blocks, shared, pieces, spread)                      \
    enum {                                                                                         \
        THREADS_OF_##name = threads,                                                               \
        BLOCKS_OF_##name = blocks,                                                                 \
        PIECES_OF_##name = pieces,                                                                 \
        IMAGES_OF_##name = IMAGES_##images                                                         \
    };
#include "backend-hip/kernels/common/list.h"
#if HAS_ABLATION
#include "backend-hip/kernels/paper/list.h"
#endif
#if HAS_AMD_MATRIX
#include "backend-hip/kernels/amd/list.h"
#endif
#if HAS_MMA
#include "backend-hip/kernels/nvidia/list.h"
#endif
#if HAS_WGMMA
#include "backend-hip/kernels/hopper/list.h"
#endif
#undef KERNEL_ROW

#include "backend-hip/kernels/common/prelude.h"

#include "backend-hip/kernels/common/linear.h"

#include "backend-hip/kernels/common/vector.hip"

#include "backend-hip/kernels/common/exact_math.h"
#include "backend-hip/kernels/common/kv_int8.h"
#include "backend-hip/kernels/common/kv_int4.h"

#include "backend-hip/kernels/common/argmax.hip"
#include "backend-hip/kernels/common/rope.hip"
#include "backend-hip/kernels/common/attend.hip"
#include "backend-hip/kernels/common/attend_int8.hip"
#include "backend-hip/kernels/common/kept.hip"

#include "backend-hip/kernels/common/conv.hip"
#include "backend-hip/kernels/common/delta.hip"
#include "backend-hip/kernels/common/element.hip"
#include "backend-hip/kernels/common/exchange.hip"
#include "backend-hip/kernels/common/experts.hip"
#include "backend-hip/kernels/common/linear_decode.hip"
#include "backend-hip/kernels/common/pack.hip"
#if HAS_ABLATION
#include "backend-hip/kernels/paper/linear_paper.hip"
#endif
#include "backend-hip/kernels/common/linear_prefill.hip"
#include "backend-hip/kernels/common/norm.hip"
#include "backend-hip/kernels/common/open_pages.hip"
#include "backend-hip/kernels/common/top.hip"
#include "backend-hip/kernels/common/sample.hip"
#include "backend-hip/kernels/common/score.hip"

#if HAS_MMA
#include "backend-hip/kernels/nvidia/ptx.h"

#include "backend-hip/kernels/nvidia/attend_decode_mma.hip"
#include "backend-hip/kernels/nvidia/attend_prefill_mma.hip"
#include "backend-hip/kernels/nvidia/attend_prefill_int8.hip"

#if HAS_WGMMA
#include "backend-hip/kernels/hopper/ptx.h"

#include "backend-hip/kernels/hopper/linear_decode_mma.hip"
#include "backend-hip/kernels/hopper/experts_decode_mma.hip"
#include "backend-hip/kernels/hopper/experts_route_gemv.hip"
#include "backend-hip/kernels/hopper/conv_few.hip"
#include "backend-hip/kernels/hopper/delta_gated.hip"
#include "backend-hip/kernels/hopper/vector_1024.hip"

#include "backend-hip/kernels/hopper/linear_gemv.hip"

#include "backend-hip/kernels/hopper/linear_prefill_wgmma.hip"
#include "backend-hip/kernels/hopper/linear_decode_wgmma.hip"
#include "backend-hip/kernels/hopper/linear_dealt_wgmma.hip"

#include "backend-hip/kernels/hopper/attend_prefill_wgmma.hip"
#include "backend-hip/kernels/hopper/attend_prefill_pages.hip"
#include "backend-hip/kernels/hopper/attend_prefill_256.hip"
#include "backend-hip/kernels/hopper/attend_prefill_int8.hip"
#else
#include "backend-hip/kernels/nvidia/linear_decode_mma.hip"
#include "backend-hip/kernels/nvidia/linear_prefill_mma.hip"
#endif

#include "backend-hip/kernels/nvidia/linear_plain_mma.hip"
#include "backend-hip/kernels/nvidia/linear_few_mma.hip"
#if HAS_WGMMA
#include "backend-hip/kernels/hopper/linear_plain_wgmma.hip"
#include "backend-hip/kernels/hopper/plain_decode_wgmma.hip"
#include "backend-hip/kernels/hopper/dense_gemv.hip"
#include "backend-hip/kernels/hopper/dense_rows.hip"
#include "backend-hip/kernels/hopper/router_gemv.hip"
#include "backend-hip/kernels/hopper/norm_route.hip"
#include "backend-hip/kernels/hopper/experts_mix_gemv.hip"
#endif
#endif

#if HAS_AMD_MATRIX
#include "backend-hip/kernels/amd/linear_prefill_matrix.hip"
#endif

#include "backend-hip/kernels/common/exact_vector.hip"

#include "backend-hip/kernels/common/exact_attend.hip"
#include "backend-hip/kernels/common/exact_attend_int8.hip"
#include "backend-hip/kernels/common/latent.hip"
#include "backend-hip/kernels/common/choose.hip"
#include "backend-hip/kernels/common/exact_linear.hip"
#include "backend-hip/kernels/common/exact_states.hip"
#include "backend-hip/kernels/common/gptq.hip"
#include "backend-hip/kernels/common/delta_channels.hip"
#include "backend-hip/kernels/common/delta_scan.hip"
#if !HAS_MMA
#include "backend-hip/kernels/common/exact_linear_lanes.hip"
#endif
#if HAS_AMD_MATRIX
#include "backend-hip/kernels/amd/exact_linear_matrix.hip"
#include "backend-hip/kernels/amd/attend_matrix.hip"
#endif
#if HAS_MMA
#include "backend-hip/kernels/nvidia/rope_pages.hip"
#include "backend-hip/kernels/nvidia/attend_chunk.hip"
#if HAS_WGMMA
#include "backend-hip/kernels/hopper/attend_latent.hip"
#include "backend-hip/kernels/hopper/attend_warp.hip"
#endif
#include "backend-hip/kernels/nvidia/exact_attend_mma.hip"
#include "backend-hip/kernels/nvidia/exact_linear_mma.hip"
#include "backend-hip/kernels/nvidia/exact_dense.hip"
#include "backend-hip/kernels/nvidia/exact_delta.hip"
#if HAS_WGMMA
#include "backend-hip/kernels/hopper/exact_digits.hip"
#include "backend-hip/kernels/hopper/exact_linear_wgmma.hip"
#include "backend-hip/kernels/hopper/exact_gemv.hip"
#endif
#endif
