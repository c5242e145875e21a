/* sincos.h: sine and cosine in basic operations, the same bits on every machine. */
#ifndef CORE_SINCOS_H
#define CORE_SINCOS_H

/* sin and cos of an angle up to 2^25, computed in double and rounded once. */
void step_sincos(float angle, float *s, float *c);

#endif
