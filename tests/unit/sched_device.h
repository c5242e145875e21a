/* sched_device.h: properties of devices that the CPU's backend lacks. */
#ifndef TESTS_SCHED_DEVICE_H
#define TESTS_SCHED_DEVICE_H

#include "core/sample/logits.h"
#include "tests/unit/ever_top.h"
#include "tests/unit/sched_odd.h"
#include "tests/unit/sched_records.h"

/* Another kernel for each phase, as devices have them: rows of prompts get another rounding. */
__attribute__((unused)) static void linear_by_phase(struct be *be, const struct stepwise_call *c)
{
    const struct op *op = c->op;
    (void)be;
    if (op->kind != OP_LINEAR) return;
    for (int i = 0; i < op->n; i++) {
        const struct buffer *b = &c->plan->buffer[op->out[i]];
        int of_step = b->rows == ROWS_STEP, rows = of_step ? c->batch->n_rows : c->batch->n_logits,
            n_decode = of_step ? c->batch->n_decode : c->batch->n_decode_logits;
        size_t width = b->row_bytes / sizeof(float);
        float *y = odd_buffer(c, op->out[i]);
        for (size_t j = (size_t)n_decode * width; j < (size_t)rows * width; j++)
            y[j] *= 1 + 0x1p-9f;
    }
}

static int n_top_rows, n_without_room;

/* What a backend with OP_TOP does, on its tenth row as if there was not room. */
__attribute__((unused)) static void find_top(struct be *be, const struct stepwise_call *c)
{
    (void)be;
    if (c->op->kind != OP_TOP) return;
    const float *logits = odd_buffer(c, c->op->in[0]);
    struct logits_entry *top = odd_buffer(c, c->op->out[0]);
    size_t vocab = c->plan->buffer[c->op->in[0]].row_bytes / sizeof *logits;
    for (int r = 0; r < c->batch->n_top; r++, top += OP_TOP_ROOM) {
        const float *x = logits + (size_t)c->batch->top_row[r] * vocab;
        uint8_t is[VOCAB];
        int n = 0;
        ever_top(x, (int)vocab, OP_TOP_KEPT, is);
        for (int i = 0; i < (int)vocab; i++)
            if (is[i]) top[n++] = (struct logits_entry){x[i], i};
        top[n].id = -1;
        if (++n_top_rows % 10 == 0) top->id = -1, n_without_room++;
    }
}

#endif
