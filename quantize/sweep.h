/* sweep.h: quantization with calibration: the step's plan runs over the calibration rows from
 * linear to linear; each is quantized when all rows are there, and the rows go on through what it
 * became. Owns: the rows between two linears. Must not know: formats, the solver's inside. */
#ifndef QUANTIZE_SWEEP_H
#define QUANTIZE_SWEEP_H

#include "quantize/run.h"

int sweep_run(struct quantize *q, struct err *e);

#endif
