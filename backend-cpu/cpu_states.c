/* cpu_states.c: OP_CONV and OP_DELTA, the operations with states. Owns: their cut into tasks and
 * the copies of states between slots and scratch. Must not know: the loops of a kernel. */
#include "backend-cpu/cpu_internal.h"

#include <string.h>

int cpu_states_check(const struct op *op, struct err *e)
{
    if (op->kind == OP_CONV && op->as.conv.width > CONV_WIDTH)
        return err_set(e, "--backend cpu: '%s' has a convolution of width %d, more than %d",
                       op->name, op->as.conv.width, CONV_WIDTH);
    return 0;
}

/* Slots of one state: the memory of the plan's state and the bytes of a slot. */
struct slots {
    char *base;
    size_t bytes;
};

static struct slots slots_of(const struct call *t, int state)
{
    return (struct slots){t->p->memory->state[state], t->p->plan->state[state].bytes};
}

/* NULL: zeros. */
static const float *read_slot(const struct slots *s, const struct batch *b, int seq)
{
    int at = b->state_from[seq];
    return at < 0 ? NULL : (const float *)(s->base + (size_t)at * s->bytes);
}

static float *write_slot(const struct slots *s, const struct batch *b, int seq)
{
    return (float *)(s->base + (size_t)b->state_to[seq] * s->bytes);
}

static float *scratch_of(const struct cpu *c, int thread)
{
    return (float *)(c->scratch + (size_t)thread * c->scratch_bytes);
}

struct conv_job {
    const struct cpu *c;
    const float *x, *w; /* [rows][channels]; [channels][width] */
    const float *bias;  /* [channels] or NULL */
    float *out;         /* [rows][channels] */
    struct slots slots; /* a slot is [width - 1][channels] */
    int channels, width, blocks, linear;
};

/* Reads the state of the channels first .. first + n - 1 as [width - 1][CONV_CHANNELS]. */
static void load_rows(const struct conv_job *j, const float *from, int first, int n, float *rows)
{
    for (int i = 0; i + 1 < j->width; i++, rows += CONV_CHANNELS) {
        if (from) memcpy(rows, from + i * j->channels + first, (size_t)n * sizeof *rows);
        else memset(rows, 0, (size_t)n * sizeof *rows);
    }
}

static void conv_task_run(void *arg, int task, int thread)
{
    const struct conv_job *j = arg;
    const struct batch *b = j->c->batch;
    int seq = task / j->blocks, first = task % j->blocks * CONV_CHANNELS, row = b->seq_start[seq],
        n_rows = b->seq_start[seq + 1] - row,
        n = j->channels - first < CONV_CHANNELS ? j->channels - first : CONV_CHANNELS;
    float *before = scratch_of(j->c, thread), *weight = before + (j->width - 1) * CONV_CHANNELS,
          *to = write_slot(&j->slots, b, seq);
    size_t at = (size_t)row * (size_t)j->channels + (size_t)first;
    load_rows(j, read_slot(&j->slots, b, seq), first, n, before);
    for (int c = 0; c < n; c++)
        for (int i = 0; i < j->width; i++)
            weight[i * CONV_CHANNELS + c] = j->w[(first + c) * j->width + i];
    const struct conv_task t = {.x = j->x + at,
                                .out = j->out + at,
                                .before = before,
                                .weight = weight,
                                .bias = j->bias ? j->bias + first : NULL,
                                .row_stride = j->channels,
                                .rows = n_rows,
                                .width = j->width,
                                .channels = n,
                                .linear = j->linear};
    j->c->kernels->states->conv(&t);
    for (int i = 0; i + 1 < j->width; i++) {
        int r = n_rows - j->width + 1 + i;
        memcpy(to + i * j->channels + first,
               r < 0 ? before + (r + j->width - 1) * CONV_CHANNELS
                     : t.x + (size_t)r * (size_t)j->channels,
               (size_t)n * sizeof *to);
    }
}

void cpu_run_conv(const struct call *t)
{
    int channels = t->op->as.conv.channels;
    struct conv_job j = {
        .c = t->c,
        .x = in_of(t, 0),
        .w = vector_of(t, 0),
        .bias = vector_of(t, 1),
        .out = out_of(t, 0),
        .slots = slots_of(t, t->op->as.conv.state),
        .linear = t->op->as.conv.linear,
        .channels = channels,
        .width = t->op->as.conv.width,
        .blocks = (channels + CONV_CHANNELS - 1) / CONV_CHANNELS,
    };
    pool_run(t->c->pool, t->c->batch->n_seqs * j.blocks, conv_task_run, &j);
}

struct delta_job {
    const struct cpu *c;
    const float *q, *k, *v;    /* [rows]: of rows of qk_stride and v_stride floats */
    const float *a, *b;        /* [rows][nv] */
    const float *decay, *bias; /* [nv] */
    const float *skip;         /* [nv]; NULL: none */
    enum delta_rule rule;
    float beta_scale;
    float *out;         /* [rows][nv dv] */
    struct slots slots; /* a slot is [nv][dk][dv] */
    int key_heads, value_heads, key_dim, value_dim;
    size_t qk_stride, v_stride;
    float *unit;     /* [nk][rows][2][dk] */
    float *g, *beta; /* [nv][rows] */
    int blocks;      /* blocks of columns of one head */
};

/* q, k and v: one after another in in0, or in buffers of their own. */
static void find_qkv(const struct call *t, struct delta_job *j)
{
    size_t keys = (size_t)j->key_heads * (size_t)j->key_dim,
           values = (size_t)j->value_heads * (size_t)j->value_dim;
    int apart = t->op->in[3] >= 0;
    j->q = in_of(t, 0);
    j->k = apart ? in_of(t, 3) : j->q + keys;
    j->v = apart ? in_of(t, 4) : j->k + keys;
    j->qk_stride = apart ? keys : 2 * keys + values;
    j->v_stride = apart ? values : 2 * keys + values;
}

static void prepare_task(void *arg, int row, int thread)
{
    const struct delta_job *j = arg;
    (void)thread;
    size_t heads = (size_t)j->value_heads, r = (size_t)row, rows = (size_t)j->c->batch->n_rows,
           unit = 2 * (size_t)j->key_dim;
    j->c->kernels->states->delta_prepare(&(struct delta_inputs){
        .key_heads = j->key_heads,
        .value_heads = j->value_heads,
        .key_dim = j->key_dim,
        .rule = j->rule,
        .beta_scale = j->beta_scale,
        .q = j->q + r * j->qk_stride,
        .k = j->k + r * j->qk_stride,
        .a = j->a + r * heads,
        .b = j->b ? j->b + r * heads : NULL,
        .decay = j->decay,
        .bias = j->bias,
        .unit = j->unit + r * unit,
        .g = j->g + r,
        .beta = j->beta + r,
        .unit_stride = rows * unit,
        .gate_stride = rows,
    });
}

/* Columns of one value head of one sequence: S in scratch for all rows of the step. */
static void delta_task_run(void *arg, int task, int thread)
{
    const struct delta_job *j = arg;
    const struct batch *b = j->c->batch;
    int block = task % j->blocks, head = task / j->blocks % j->value_heads,
        seq = task / j->blocks / j->value_heads, row = b->seq_start[seq],
        key = head / (j->value_heads / j->key_heads), first = block * DELTA_COLUMNS,
        n = j->value_dim - first < DELTA_COLUMNS ? j->value_dim - first : DELTA_COLUMNS;
    size_t dk = (size_t)j->key_dim, dv = (size_t)j->value_dim,
           at = (size_t)head * dk * dv + (size_t)first, bytes = (size_t)n * sizeof(float),
           value = (size_t)head * dv + (size_t)first, rows = (size_t)b->n_rows;
    const float *from = read_slot(&j->slots, b, seq);
    float *to = write_slot(&j->slots, b, seq), *s = scratch_of(j->c, thread);
    if (!from || n < DELTA_COLUMNS) memset(s, 0, dk * DELTA_COLUMNS * sizeof *s);
    for (size_t i = 0; from && i < dk; i++)
        memcpy(s + i * DELTA_COLUMNS, from + at + i * dv, bytes);
    j->c->kernels->states->delta(&(struct delta_task){
        .unit = j->unit + ((size_t)key * rows + (size_t)row) * 2 * dk,
        .v = j->v + (size_t)row * j->v_stride + value,
        .g = j->g + (size_t)head * rows + row,
        .beta = j->beta + (size_t)head * rows + row,
        .out = j->out + (size_t)row * (size_t)j->value_heads * dv + value,
        .s = s,
        .v_stride = (int)j->v_stride,
        .out_stride = j->value_heads * j->value_dim,
        .rows = b->seq_start[seq + 1] - row,
        .key_dim = j->key_dim,
        .columns = n,
        .rule = j->rule,
        .skip = j->skip ? j->skip[head] : 0,
    });
    for (size_t i = 0; i < dk; i++) memcpy(to + at + i * dv, s + i * DELTA_COLUMNS, bytes);
}

void cpu_run_delta(const struct call *t)
{
    const struct op *op = t->op;
    const struct batch *b = t->c->batch;
    struct delta_job j = {
        .c = t->c,
        .a = in_of(t, 1),
        .b = in_of(t, 2),
        .decay = vector_of(t, 0),
        .bias = vector_of(t, 1),
        .skip = vector_of(t, 2),
        .rule = op->as.delta.rule,
        .beta_scale = op->as.delta.beta_scale > 0 ? op->as.delta.beta_scale : 1,
        .out = out_of(t, 0),
        .slots = slots_of(t, op->as.delta.state),
        .key_heads = op->as.delta.key_heads,
        .value_heads = op->as.delta.value_heads,
        .key_dim = op->as.delta.key_dim,
        .value_dim = op->as.delta.value_dim,
        .unit = t->c->delta,
        .blocks = (op->as.delta.value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS,
    };
    size_t rows = (size_t)b->n_rows;
    find_qkv(t, &j);
    j.g = j.unit + rows * 2 * (size_t)j.key_heads * (size_t)j.key_dim;
    j.beta = j.g + rows * (size_t)j.value_heads;
    pool_run(t->c->pool, b->n_rows, prepare_task, &j);
    pool_run(t->c->pool, b->n_seqs * j.value_heads * j.blocks, delta_task_run, &j);
}
