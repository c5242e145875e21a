/* panels.h: packing into the layout of 4-bit linears (core/model/modelfile.h). Owns: panels of 16
 * outputs, blocks of 8 inputs, scales and zeros beside them. Pure functions. Must not know: files,
 * other programs' layouts. */
#ifndef CONVERT_PANELS_H
#define CONVERT_PANELS_H

#include "convert/slots.h"
#include "core/base/dtype.h"

#include <stddef.h>

/* codes: [in][16] of one panel -> dst: [k/8][16][4]. */
void panels_pack(uint8_t *dst, const uint8_t *codes, const struct slots *s);
/* Fast path for 4-bit words along the inputs and s->identity: only nibbles within a word and whole
 * cache lines move. words: [k/8][stride], n_panels * 16 columns -> dst: [n_panels][k/8][16][4]. */
void panels_from_words(uint8_t *dst, const uint32_t *words, size_t stride, int64_t k,
                       int64_t n_panels);
/* src: [n_source][stride] of dtype src_type, n_cols columns -> dst: [panels][n_groups][16] of F16
 * or F32. */
void panels_scales(void *dst, enum dtype dst_type, const void *src, enum dtype src_type,
                   size_t stride, int64_t n_cols, const struct slots *s);
/* zeros: [n_source][stride] -> dst: [panels][n_groups][16], the high or low base-16 digit. */
void panels_zeros(uint8_t *dst, const uint16_t *zeros, size_t stride, int64_t n_cols,
                  const struct slots *s);

#endif
