/* args.h: the arguments and constants of all kernels, for the host; a translation unit of the device
 * includes those of its folders. */
#ifndef KERNELS_ARGS_H
#define KERNELS_ARGS_H

#include "backend-hip/kernels/amd/args.h"
#include "backend-hip/kernels/common/args.h"
#include "backend-hip/kernels/hopper/args.h"
#include "backend-hip/kernels/nvidia/args.h"
#include "backend-hip/kernels/paper/args.h"

#endif
