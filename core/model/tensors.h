/* tensors.h: fetches weights by name from a model file and checks each one's dtype, shape, scales
 * (finite), zero points and permutation. Must not know: which weights a model has. */
#ifndef CORE_TENSORS_H
#define CORE_TENSORS_H

#include "core/model/arch.h"
#include "core/model/modelfile.h"

/* The weights are views into the mapping of *f, which must outlive them. */
struct weight_source tensors_of(struct modelfile *f);

#endif
