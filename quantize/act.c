#include "quantize/act.h"

#include "core/step/act_format.h"

#include <stdlib.h>

struct sizes {
    float *size;
    const struct input_rows *x;
    int n;
};

static void size_columns(void *arg, int task, int thread)
{
    const struct sizes *s = arg;
    double sum[TN_COLUMNS] = {0};
    const float *x = s->x->x + (size_t)task * TN_COLUMNS;
    (void)thread;
    for (int64_t r = 0; r < s->x->n; r++, x += s->x->stride)
        for (int i = 0; i < TN_COLUMNS; i++) sum[i] += (double)x[i] * (double)x[i];
    for (int i = 0; i < TN_COLUMNS; i++) s->size[task * TN_COLUMNS + i] = (float)sum[i];
}

void act_sizes(float *size, int n, const struct input_rows *x, struct pool *p)
{
    struct sizes s = {size, x, n};
    CHECK(n % TN_COLUMNS == 0 && !x->index);
    pool_run(p, n / TN_COLUMNS, size_columns, &s);
}

struct rounding {
    const struct input_rows *x;
    const struct factor *f;
    float *group; /* [threads][n] */
};

static void round_row(void *arg, int task, int thread)
{
    const struct rounding *t = arg;
    const struct factor *f = t->f;
    float *row = (float *)(uintptr_t)t->x->x + (size_t)task * t->x->stride,
          *x = t->group + (size_t)thread * (size_t)f->n;
    for (int g = 0; g < f->n_groups; g++) {
        const struct order_group *of = &f->groups[g];
        const int *input = f->order + of->first;
        int low = g + 1 < f->n_groups;
        float scale;
        for (int i = 0; i < of->n; i++) x[i] = row[input[i]];
        int32_t largest = kv_largest(x, of->n);
        float factor = low ? act_low_factor(largest, &scale)
                           : kv_group_factor(largest, KV_TOP_INT8, &scale);
        for (int i = 0; i < of->n; i++) {
            int32_t v = factor == 0 ? 0 : kv_round(x[i], factor);
            if (low && v > ACT_LOW_TOP) v = ACT_LOW_TOP;
            row[input[i]] = scale * (float)v;
        }
    }
}

int act_round(const struct input_rows *x, const struct factor *f, struct pool *p, struct err *e)
{
    struct rounding t = {x, f, malloc((size_t)pool_n_threads(p) * (size_t)f->n * sizeof *t.group)};
    CHECK(!x->index && x->n < 1 << 30);
    if (!t.group) return err_memory(e);
    pool_run(p, (int)x->n, round_row, &t);
    free(t.group);
    return 0;
}
