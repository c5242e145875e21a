/* sched_backends.h: for unit_scheduler.c, backends that differ from the CPU's in one operation:
 * properties of devices, and faults that a test must detect. */
#ifndef TESTS_SCHED_BACKENDS_H
#define TESTS_SCHED_BACKENDS_H

#include "backend-cpu/cpu.h"
#include "core/sample/logits.h"
#include "tests/unit/ever_top.h"
#include "tests/unit/sched_records.h"

#include <math.h>

static struct backend odd;
static const struct batch *odd_batch;
static int odd_calls;

/* A different kernel per phase, as on devices: prompt rows are rounded differently. */
static void linear_by_phase(struct be *be, int n, const struct be_linear *const w[],
                            const float *d_x, float *const d_y[], int rows, int n_decode)
{
    /* The CPU's be_linear begins with the canonical one. */
    backend_cpu.linear(be, n, w, d_x, d_y, rows, n_decode);
    for (int i = 0; i < n; i++) {
        int out = ((const struct linear *)w[i])->out;
        for (size_t j = (size_t)n_decode * (size_t)out; j < (size_t)rows * (size_t)out; j++)
            d_y[i][j] *= 1 + 0x1p-9f;
    }
}

/* The block table occasionally contains a wrong page. */
static void begin_with_wrong_page(struct be *be, const struct batch *b)
{
    int longest = 0;
    for (int i = 1; i < b->n_seqs; i++)
        if (b->kv_len[i] > b->kv_len[longest]) longest = i;
    int32_t *first_page = b->block_table + (size_t)longest * (size_t)b->table_stride;
    if (++odd_calls % 8 == 0) *first_page ^= 1;
    backend_cpu.begin_step(be, b);
}

/* All rows take the token that the first row of the last step chose. */
static void embed_the_first(struct be *be, const struct be_linear *table, const int32_t *d_chosen,
                            float *d_out)
{
    static int32_t same[64];
    for (int i = 0; i < 64; i++) same[i] = d_chosen[0];
    backend_cpu.embed(be, table, same, d_out);
}

/* The phase is lost: all rows count as prompt rows. */
static void begin_without_phase(struct be *be, const struct batch *b)
{
    ((struct batch *)b)->n_decode = 0;
    backend_cpu.begin_step(be, b);
}

static int n_chosen_there;

static void begin_and_count(struct be *be, const struct batch *b)
{
    for (int i = 0; i < b->n_rows; i++) n_chosen_there += b->token[i] < 0;
    backend_cpu.begin_step(be, b);
}

static int n_top_rows, n_without_room;

/* `top` of a backend that has it; its tenth row overflows. */
static void find_top(struct be *be, const float *d_logits, struct logits_entry *d_top, int vocab)
{
    (void)be;
    for (int r = 0; r < odd_batch->n_top; r++, d_top += BE_TOP_ROOM) {
        const float *x = d_logits + (size_t)odd_batch->top_row[r] * (size_t)vocab;
        uint8_t is[VOCAB];
        int n = 0;
        ever_top(x, vocab, BE_TOP, is);
        for (int i = 0; i < vocab; i++)
            if (is[i]) d_top[n++] = (struct logits_entry){x[i], i};
        d_top[n].id = -1;
        if (++n_top_rows % 10 == 0) d_top->id = -1, n_without_room++;
    }
}

static void begin_and_remember(struct be *be, const struct batch *b)
{
    odd_batch = b;
    backend_cpu.begin_step(be, b);
}

enum { POISON = 317 };

/* NaN logits after one token. */
static void argmax_of_poisoned(struct be *be, const float *d_logits, int32_t *d_id, int rows,
                               int vocab)
{
    for (int i = 0; i < odd_batch->n_logits; i++) /* the CPU's memory is the host's */
        if (odd_batch->token[odd_batch->logit_row[i]] == POISON)
            ((float *)d_logits)[i * VOCAB + 7] = NAN;
    backend_cpu.argmax(be, d_logits, d_id, rows, vocab);
}

#endif
