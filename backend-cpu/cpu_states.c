/* cpu_states.c: OP_CONV and OP_DELTA, the operations with states. Owns: their cut into tasks and
 * the copies of states between slots and scratch. Must not know: the loops of a kernel. */
#include "backend-cpu/cpu_internal.h"

#include <string.h>

int cpu_states_check(const struct op *op, struct err *e)
{
    if (op->kind == OP_CONV && op->as.conv.width > CONV_WIDTH)
        return err_set(e, "--backend cpu: '%s' has a convolution of width %d, more than %d",
                       op->name, op->as.conv.width, CONV_WIDTH);
    if (op->kind == OP_DELTA && op->as.delta.rule == DELTA_SCAN)
        CHECK(op->as.delta.key_heads == 1 && op->as.delta.value_heads == 1);
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

/* Rows of drafts at the end of a sequence's rows, and those that were right in its last step. */
static int n_drafts_of(const struct batch *b, int seq)
{
    return b->n_drafts ? b->n_drafts[seq] : 0;
}
static int n_right_of(const struct batch *b, int seq) { return b->n_right ? b->n_right[seq] : 0; }

/* What the sequence's seat keeps of the rows of drafts; NULL: nothing. */
static float *kept_of(const struct call *t, int state, int seq)
{
    char *base = t->p->memory->kept ? t->p->memory->kept[state] : NULL;
    size_t bytes = STATE_DRAFTS * t->p->plan->state[state].kept_bytes;
    return base ? (float *)(base + (size_t)t->c->batch->seat[seq] * bytes) : NULL;
}

static float *scratch_of(const struct cpu *c, int thread)
{
    return (float *)(c->scratch + (size_t)thread * c->scratch_bytes);
}

struct conv_job {
    const struct call *t;
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

/* Moves the rows on by those of drafts that were right: [STATE_DRAFTS][channels] of the seat. */
static void add_right(const struct conv_job *j, int seq, int first, int n, float *rows)
{
    int right = n_right_of(j->c->batch, seq), last = j->width - 1;
    const float *kept = right ? kept_of(j->t, j->t->op->as.conv.state, seq) : NULL;
    for (int i = 0; i < last && right; i++) {
        int from = i + right;
        float *to = rows + i * CONV_CHANNELS;
        if (from < last) memcpy(to, rows + from * CONV_CHANNELS, (size_t)n * sizeof *to);
        else memcpy(to, kept + (from - last) * j->channels + first, (size_t)n * sizeof *to);
    }
}

/* Keeps the inputs of rows of drafts, after all tasks have read those that were kept. */
static void keep_conv(const struct conv_job *j)
{
    const struct batch *b = j->c->batch;
    for (int s = 0; s < b->n_seqs && b->n_drafts; s++) {
        int n = b->n_drafts[s];
        size_t row = (size_t)j->channels;
        if (n)
            memcpy(kept_of(j->t, j->t->op->as.conv.state, s),
                   j->x + (size_t)(b->seq_start[s + 1] - n) * row, (size_t)n * row * sizeof(float));
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
    add_right(j, seq, first, n, before);
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
        int r = n_rows - n_drafts_of(b, seq) - j->width + 1 + i;
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
        .t = t,
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
    keep_conv(&j);
}

struct delta_job {
    const struct call *t;
    const struct cpu *c;
    const float *q, *k, *v;    /* [rows]: of rows of qk_stride and v_stride floats */
    const float *a, *b;        /* in1, in2 */
    const float *decay, *bias; /* w0, w1 */
    const float *skip;         /* w2; NULL: none */
    enum delta_rule rule;
    float beta_scale;
    float *out;         /* [rows][nv dv] */
    struct slots slots; /* a slot is [nv][dk][dv] */
    int key_heads, value_heads, key_dim, value_dim;
    size_t gates, steps; /* delta_decays(), delta_steps() */
    size_t qk_stride, v_stride;
    float *unit;     /* [nk][rows][2][dk] */
    float *g, *beta; /* [nv][rows][gates], [nv][rows][steps] */
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
        .gates = (int)j->gates,
        .steps = (int)j->steps,
        .rule = j->rule,
        .beta_scale = j->beta_scale,
        .q = j->q + r * j->qk_stride,
        .k = j->k + r * j->qk_stride,
        .a = j->a + r * heads * (j->steps > j->gates ? j->steps : j->gates),
        .b = j->b ? j->b + r * heads : NULL,
        .decay = j->decay,
        .bias = j->bias,
        .unit = j->unit + r * unit,
        .g = j->g + r * j->gates,
        .beta = j->beta + r * j->steps,
        .unit_stride = rows * unit,
        .gate_stride = rows * j->gates,
        .step_stride = rows * j->steps,
    });
}

/* What a seat keeps of rows of drafts: the inputs of delta_task, of all heads. */
struct kept_rows {
    float *unit;     /* [nk][STATE_DRAFTS][2][dk] */
    float *v;        /* [STATE_DRAFTS][nv dv] */
    float *g, *beta; /* [nv][STATE_DRAFTS][gates], [nv][STATE_DRAFTS][steps] */
};

static struct kept_rows kept_rows_of(const struct delta_job *j, int seq)
{
    size_t heads = (size_t)j->value_heads * STATE_DRAFTS;
    struct kept_rows k = {.unit = kept_of(j->t, j->t->op->as.delta.state, seq)};
    k.v = k.unit + (size_t)j->key_heads * STATE_DRAFTS * 2 * (size_t)j->key_dim;
    k.g = k.v + heads * (size_t)j->value_dim;
    k.beta = k.g + heads * j->gates;
    return k;
}

/* Keeps what rows of drafts would change, after all tasks have read what was kept. */
static void keep_delta(const struct delta_job *j)
{
    const struct batch *b = j->c->batch;
    size_t unit = 2 * (size_t)j->key_dim, rows = (size_t)b->n_rows,
           values = (size_t)j->value_heads * (size_t)j->value_dim;
    for (int s = 0; s < b->n_seqs && b->n_drafts; s++) {
        size_t n = (size_t)b->n_drafts[s], row = (size_t)b->seq_start[s + 1] - n;
        if (!n) continue;
        struct kept_rows k = kept_rows_of(j, s);
        for (size_t h = 0; h < (size_t)j->key_heads; h++)
            memcpy(k.unit + h * STATE_DRAFTS * unit, j->unit + (h * rows + row) * unit,
                   n * unit * sizeof(float));
        for (size_t i = 0; i < n; i++)
            memcpy(k.v + i * values, j->v + (row + i) * j->v_stride, values * sizeof(float));
        for (size_t h = 0; h < (size_t)j->value_heads; h++) {
            memcpy(k.g + h * STATE_DRAFTS * j->gates, j->g + (h * rows + row) * j->gates,
                   n * j->gates * sizeof(float));
            memcpy(k.beta + h * STATE_DRAFTS * j->steps, j->beta + (h * rows + row) * j->steps,
                   n * j->steps * sizeof(float));
        }
    }
}

/* The rows of drafts that were right, whose results are there already. t: of the same head and
 * columns, its S the only thing that changes. */
static void replay(const struct delta_job *j, int seq, int head, int first, struct delta_task t)
{
    float unused[STATE_DRAFTS * DELTA_COLUMNS];
    int n = n_right_of(j->c->batch, seq), key = head / (j->value_heads / j->key_heads);
    if (!n) return;
    struct kept_rows k = kept_rows_of(j, seq);
    t.unit = k.unit + (size_t)key * STATE_DRAFTS * 2 * (size_t)j->key_dim;
    t.v = k.v + (size_t)head * (size_t)j->value_dim + (size_t)first;
    t.v_stride = j->value_heads * j->value_dim;
    t.g = k.g + (size_t)head * STATE_DRAFTS * j->gates;
    t.beta = k.beta + (size_t)head * STATE_DRAFTS * j->steps + (j->steps > 1 ? first : 0);
    t.out = unused;
    t.out_stride = DELTA_COLUMNS;
    t.rows = n;
    j->c->kernels->states->delta(&t);
}

/* Moves the task behind its first n rows. */
static void move_on(const struct delta_job *j, struct delta_task *t, int n)
{
    t->unit += (size_t)n * 2 * (size_t)t->key_dim;
    t->v += (size_t)n * (size_t)t->v_stride;
    t->g += (size_t)n * j->gates;
    t->beta += (size_t)n * j->steps;
    t->out += (size_t)n * (size_t)t->out_stride;
}

/* Columns first .. first + n - 1 of the decays of DELTA_SCAN, to `to` [dk][DELTA_COLUMNS]. */
static const float *load_decays(const struct delta_job *j, int first, int n, float *to)
{
    for (int i = 0; i < j->key_dim; i++) {
        float *row = to + i * DELTA_COLUMNS;
        memcpy(row, j->decay + (size_t)i * (size_t)j->value_dim + first, (size_t)n * sizeof *row);
        memset(row + n, 0, (size_t)(DELTA_COLUMNS - n) * sizeof *row);
    }
    return to;
}

/* Columns of one value head of one sequence: S in scratch for all rows of the step. */
static void delta_task_run(void *arg, int task, int thread)
{
    const struct delta_job *j = arg;
    const struct batch *b = j->c->batch;
    int block = task % j->blocks, head = task / j->blocks % j->value_heads,
        seq = task / j->blocks / j->value_heads, row = b->seq_start[seq],
        key = head / (j->value_heads / j->key_heads), first = block * DELTA_COLUMNS,
        n = j->value_dim - first < DELTA_COLUMNS ? j->value_dim - first : DELTA_COLUMNS,
        scan = j->rule == DELTA_SCAN;
    size_t dk = (size_t)j->key_dim, dv = (size_t)j->value_dim,
           at = (size_t)head * dk * dv + (size_t)first, bytes = (size_t)n * sizeof(float),
           value = (size_t)head * dv + (size_t)first, rows = (size_t)b->n_rows;
    const float *from = read_slot(&j->slots, b, seq);
    float *to = write_slot(&j->slots, b, seq), *s = scratch_of(j->c, thread);
    if (!from || n < DELTA_COLUMNS) memset(s, 0, dk * DELTA_COLUMNS * sizeof *s);
    for (size_t i = 0; from && i < dk; i++)
        memcpy(s + i * DELTA_COLUMNS, from + at + i * dv, bytes);
    struct delta_task t = {
        .unit = j->unit + ((size_t)key * rows + (size_t)row) * 2 * dk,
        .v = j->v + (size_t)row * j->v_stride + value,
        .g = j->g + ((size_t)head * rows + (size_t)row) * j->gates,
        .beta = j->beta + ((size_t)head * rows + (size_t)row) * j->steps + (scan ? first : 0),
        .out = j->out + (size_t)row * (size_t)j->value_heads * dv + value,
        .s = s,
        .v_stride = (int)j->v_stride,
        .beta_stride = (int)j->steps,
        .out_stride = j->value_heads * j->value_dim,
        .rows = b->seq_start[seq + 1] - row - n_drafts_of(b, seq),
        .key_dim = j->key_dim,
        .columns = n,
        .rule = j->rule,
        .skip = j->skip ? j->skip[head] : 0,
        .decay = scan ? load_decays(j, first, n, s + dk * DELTA_COLUMNS) : NULL,
        .skips = scan ? j->skip + first : NULL,
    };
    replay(j, seq, head, first, t);
    j->c->kernels->states->delta(&t);
    for (size_t i = 0; i < dk; i++) memcpy(to + at + i * dv, s + i * DELTA_COLUMNS, bytes);
    if (!n_drafts_of(b, seq)) return;
    move_on(j, &t, t.rows);
    t.rows = n_drafts_of(b, seq);
    j->c->kernels->states->delta(&t);
}

void cpu_run_delta(const struct call *t)
{
    const struct op *op = t->op;
    const struct batch *b = t->c->batch;
    struct delta_job j = {
        .t = t,
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
        .gates = (size_t)delta_decays(op),
        .steps = (size_t)delta_steps(op),
        .unit = t->c->delta,
        .blocks = (op->as.delta.value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS,
    };
    size_t rows = (size_t)b->n_rows;
    find_qkv(t, &j);
    j.g = j.unit + rows * 2 * (size_t)j.key_heads * (size_t)j.key_dim;
    j.beta = j.g + rows * (size_t)j.value_heads * j.gates;
    pool_run(t->c->pool, b->n_rows, prepare_task, &j);
    pool_run(t->c->pool, b->n_seqs * j.value_heads * j.blocks, delta_task_run, &j);
    keep_delta(&j);
}
