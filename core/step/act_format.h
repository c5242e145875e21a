/* act_format.h: how activations enter 4-bit linears (--act): for each arithmetic its name and, of
 * integers, digits and largest values. Everybody who quantizes, sizes or offers one reads it here.
 * Must not know: backends. */
#ifndef CORE_ACT_FORMAT_H
#define CORE_ACT_FORMAT_H

#include "core/step/kv_format.h"

/* Arithmetic of activations in 4-bit linears; a backend refuses those that it does not have.
 *  ACT_F32   fp32
 *  ACT_I16   integers of about 15 bits (two int8 digits) with a scale for each row and sub-group of
 *            at most 128 inputs; the sum of their products with the codes is exact
 *  ACT_INT8  the same with integers of 8 bits (one digit)
 *  ACT_F16   fp16 with a power of two for each row, which brings the row's largest magnitude into
 *            [2^14, 2^15); the products are summed in fp32
 *  ACT_INT4  int8, but groups of a linear with outliers (core/step/linear.h) other than its last
 *            two take integers of 4 bits, -8 to 7, with scales for nine tenths of the largest
 *            magnitude (Atom, Zhao et al. 2023); linears whose codes all have 8 bits as ACT_INT8,
 *            others not at all
 *  ACT_INT8_TOKEN  int8 with one scale for all of a row, as checkpoints in W8A8 mean it
 * With integers attention over KV_INT8 is in integers, too. */
enum act { ACT_F32, ACT_I16, ACT_INT8, ACT_F16, ACT_INT4, ACT_INT8_TOKEN, ACT_TYPES };

struct act_format {
    const char *name;
    int digits;                /* int8 digits of an integer; 0: not in integers */
    int top;                   /* the largest integer */
    int group;                 /* most inputs that share a scale */
    int query_top, weight_top; /* attention over KV_INT8: the largest integer of a query and of a
                                  chunk's weights; 0: in fp32 */
    int low;    /* groups of 4-bit codes take integers of 4 bits: needs linears with outliers */
    int by_row; /* all groups of a row have one scale */
};
extern const struct act_format act_formats[]; /* [ACT_TYPES], then name NULL */

static inline int act_is_integer(enum act act) { return act_formats[act].digits > 0; }

/* Of ACT_INT4: the largest integer of 4 bits, and the part of the largest magnitude that it is. */
enum { ACT_LOW_TOP = 7 };
#define ACT_LOW_CLIP 0.9f

/* kv_group_factor of such a group; an integer is the smaller of kv_round and ACT_LOW_TOP. */
static inline float act_low_factor(int32_t max_bits, float *scale)
{
    float largest;
    memcpy(&largest, &max_bits, sizeof largest);
    largest *= ACT_LOW_CLIP;
    memcpy(&max_bits, &largest, sizeof largest);
    return kv_group_factor(max_bits, ACT_LOW_TOP, scale);
}

#endif
