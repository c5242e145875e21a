/* kernels.hip: all kernels as one translation unit, compiled once for each target. */
#include "backend-hip/kernels/args.h"

#include "backend-hip/kernels/prelude.h"

#include "backend-hip/kernels/attention.hip"
#include "backend-hip/kernels/decode.hip"
#include "backend-hip/kernels/pack.hip"
#include "backend-hip/kernels/paper.hip"
#include "backend-hip/kernels/prefill.hip"
#include "backend-hip/kernels/vector.hip"
