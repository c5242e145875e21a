/* sched_backends.h: for unit_scheduler.c, backends that differ from the CPU's in one operation:
 * properties of devices, and faults that a test must detect. */
#ifndef TESTS_SCHED_BACKENDS_H
#define TESTS_SCHED_BACKENDS_H

#include "core/sample/logits.h"
#include "tests/unit/sched_device.h"
#include "tests/unit/sched_odd.h"
#include "tests/unit/sched_records.h"

#include <math.h>

static int odd_calls;

/* The block table occasionally contains a wrong page. */
static void begin_with_wrong_page(struct be *be, const struct batch *b)
{
    int longest = 0;
    for (int i = 1; i < b->n_seqs; i++)
        if (b->kv_len[i] > b->kv_len[longest]) longest = i;
    int32_t *first_page = b->block_table + (size_t)longest * (size_t)b->table_stride;
    if (++odd_calls % 8 == 0) *first_page ^= 1;
    odd_begin_step(be, b);
}

/* Two sequences occasionally have each other's seat. */
static void begin_with_wrong_seat(struct be *be, const struct batch *b)
{
    int32_t *last = b->seat + b->n_seqs - 1, seat = *last;
    if (++odd_calls % 8 == 0) *last = *b->seat, *b->seat = seat;
    odd_begin_step(be, b);
}

/* All rows take what the first row of the last step chose. */
static void embed_the_first(struct be *be, const struct stepwise_call *c)
{
    (void)be;
    int32_t *chosen = c->op->kind == OP_EMBED ? odd_buffer(c, c->op->in[0]) : NULL;
    for (int i = 0; chosen && i < c->batch->n_rows; i++)
        if (c->batch->token[i] < 0) chosen[-1 - c->batch->token[i]] = chosen[0];
}

/* The phase is lost: all rows count as prompt rows. */
static void begin_without_phase(struct be *be, const struct batch *b)
{
    ((struct batch *)b)->n_decode = 0;
    odd_begin_step(be, b);
}

static int n_chosen_there;

static void begin_and_count(struct be *be, const struct batch *b)
{
    for (int i = 0; i < b->n_rows; i++) n_chosen_there += b->token[i] < 0;
    odd_begin_step(be, b);
}

#endif
