/* tensors.h: weights by name from a model file, each checked: dtype, shape, finite scales, zero points,
 * permutations. Must not know: which weights a model has. */
#ifndef CORE_TENSORS_H
#define CORE_TENSORS_H

#include "core/model/arch.h"
#include "core/model/modelfile.h"

/* The weights are views into the mapping of *f, which must outlive them. */
struct weight_source tensors_of(struct modelfile *f);

#endif
