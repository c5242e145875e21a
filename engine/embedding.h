/* embedding.h: rows of a model's last norm made into one vector, and what vectors and logits are
 * worth beside each other. Sums are taken in double precision and in order, so that equal rows give
 * equal bytes. Must not know: models, records, files. */
#ifndef ENGINE_EMBEDDING_H
#define ENGINE_EMBEDDING_H

#include <stddef.h>

enum { EMBEDDING_NO_NORM = -1, EMBEDDING_EUCLIDEAN = 2, EMBEDDING_MAX_NORM = 64 };

/* v [n] = sum [n] over n_rows, then, as llama.cpp's --embd-normalize numbers them, divided by: -1:
 * nothing; 0: the largest magnitude over 32760; p >= 1: the p-norm. Zeros stay zeros. 0; -1: an
 * element is not finite. */
int embedding_make(const double *sum, int n, int n_rows, int norm, float *v);
/* The cosine of a and b [n]; 0 where one of them is all zeros. */
double embedding_cosine(const float *a, const float *b, int n);
/* e^yes / (e^yes + e^no). */
double embedding_share(float yes, float no);

#endif
