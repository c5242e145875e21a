/* checkop_mutate.c: the test of the test. A mutant is a backend that passes everything on to a good
 * one, but breaks one thing: what a wrong kernel, a wrong repack or a wrong index would do. The
 * checks run on it unchanged and must fail. The first "mutant" breaks nothing and must pass, or the
 * wrapper itself would be what is caught. */
#include "tests/checkop/checkop.h"
#include "tests/checkop/checkop_mutants.h"
#include "tests/checkop/checkop_pages.h"
#include "core/step/stepwise.h"
#include "tests/unit/ever_top.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kind now;          /* what the next mutant to be opened breaks */
static struct variant healthy; /* what it is built around */
static int n_threads;          /* of the one that is open */
static enum kv_type kv_type;   /* likewise */

struct mutant_be {
    struct be be;
    struct be *inner;
    struct arena arena;
    const struct batch *batch;
    const int32_t *first_perm;
    int first_k;
};

static struct mutant_be *of(struct be *be) { return (struct mutant_be *)be; }
static struct be *in(const struct be *be) { return ((const struct mutant_be *)be)->inner; }
static const struct backend *fns(void) { return healthy.ops; }

static struct backend mutant_backend; /* has the name of the one that it is built around */

static int m_open(struct be **out, const struct be_config *config, struct err *e)
{
    struct mutant_be *m = calloc(1, sizeof *m);
    if (!m) return err_set(e, "out of memory");
    struct be_config c = *config;
    c.variant = healthy.name;
    if (now == INT8_FOR_I16) c.act = ACT_INT8;
    if (now == INT8_FOR_INT4 || now == INT8_FOR_TOKEN) c.act = ACT_INT8;
    if (now == F32_FOR_F16) c.act = ACT_F32;
    if (now == TWO_HALVES) c.own = gpu_own(2);
    m->be.ops = &mutant_backend;
    n_threads = c.n_threads;
    kv_type = c.kv;
    if (fns()->open(&m->inner, &c, e)) {
        free(m);
        return -1;
    }
    *out = &m->be;
    return 0;
}

static void m_close(struct be *be)
{
    fns()->close(in(be));
    arena_free(&of(be)->arena);
    free(be);
}

static const char *m_describe(const struct be *be) { return fns()->describe(in(be)); }
static void *m_alloc(struct be *be, size_t bytes) { return fns()->alloc(in(be), bytes); }
static void m_free(struct be *be, void *d) { fns()->free(in(be), d); }
static void m_upload(struct be *be, void *d, const void *src, size_t bytes)
{
    fns()->upload(in(be), d, src, bytes);
}
static void m_download(struct be *be, void *dst, const void *d, size_t bytes)
{
    fns()->download(in(be), dst, d, bytes);
}
static void m_drop(struct be *be, struct be_linear *w) { fns()->drop(in(be), w); }
static size_t m_kv_page_bytes(enum kv_type t, const struct kv_cache *kv)
{
    return fns()->kv_page_bytes(t, kv);
}
static int m_sync(struct be *be, struct err *e) { return fns()->sync(in(be), e); }

/* Reads, changes, writes back device memory of the healthy backend. */
static float peek(struct be *inner, const float *d)
{
    struct err e;
    float x;
    fns()->download(inner, &x, d, sizeof x);
    fns()->sync(inner, &e);
    return x;
}

static void poke(struct be *inner, float *d, float x) { fns()->upload(inner, d, &x, sizeof x); }

static float next_bit(float x) { return f32_from_bits(f32_bits(x) ^ 1); }

static void *copy(struct mutant_be *m, const void *src, size_t bytes)
{
    return memcpy(arena_get(&m->arena, bytes), src, bytes);
}

static void *copy_of_device(struct arena *a, struct be *inner, const void *d, size_t bytes)
{
    struct err e;
    void *p = arena_get(a, bytes);
    fns()->download(inner, p, d, bytes);
    fns()->sync(inner, &e);
    return p;
}

/* The last output and an input in the middle that matters to it. */
static void break_quantized(struct mutant_be *m, struct linear *w)
{
    size_t panels = (size_t)(w->out + 15) / 16 * (size_t)(w->stack ? w->stack : 1),
           n_scales = panels * (size_t)w->n_groups * 16;
    int n = w->out - 1, j = w->k / 2 + 3, in_half = now == HIGH_HALF || now == LOW_HALF;
    if (in_half && w->pairs) j = w->k / 2 / (2 * w->group) * 2 * w->group + 3;
    if (in_half && w->outliers) j = w->k - 2 * w->group + 3;
    if (now == LOW_HALF && (w->pairs || w->outliers)) j += w->group;
    while (w->perm && w->perm[j] < 0) j = (j + 1) % w->k;
    size_t group_at = ((size_t)(n / 16) * (size_t)w->n_groups + (size_t)(j / w->group)) * 16 +
                      (size_t)(n % 16);
    if (now == PAIRS_APART) w->pairs = w->in_order = 0;
    if (now == CODE || (in_half && (w->pairs || w->outliers))) {
        uint8_t *codes = copy(m, w->codes, panels * (size_t)w->k * 8);
        codes[((size_t)(n / 16) * (size_t)(w->k / 8) + (size_t)(j / 8)) * 64 +
              (size_t)(n % 16 * 4 + j % 4)] ^= j % 8 < 4 ? 1 : 16;
        w->codes = codes;
    } else if (now == ZERO || now == ZERO_COLUMN) {
        uint8_t *zeros = copy(m, w->zeros, n_scales);
        for (int g = 0; g < w->n_groups; g++)
            if (now == ZERO_COLUMN || g == j / w->group) {
                uint8_t *z = zeros + ((size_t)(n / 16) * (size_t)w->n_groups + (size_t)g) * 16 +
                             (size_t)(n % 16);
                *z = *z ? *z - 1 : 1;
            }
        w->zeros = zeros;
    } else if (now == SCALE || now == SUBNORMAL_LOST) {
        void *scales = copy(m, w->scales, n_scales * dtype_bytes(w->scale_type));
        if (w->scale_type == DT_F16) {
            uint16_t *half = scales;
            if (now == SCALE) half[group_at] ^= 1;
            for (size_t i = 0; now == SUBNORMAL_LOST && i < n_scales; i++)
                if (!(half[i] & 0x7c00)) half[i] = 0;
        } else if (now == SCALE) {
            float *scale = (float *)scales + group_at;
            /* one ulp of fp16, where less is within the bound */
            *scale = gpu.act == ACT_F32 ? *scale * (1 + 0x1p-11f) : next_bit(*scale);
        }
        w->scales = scales;
    } else if (now == PERM && w->perm) {
        size_t perms = (size_t)w->k * (size_t)(w->stack ? w->stack : 1);
        int32_t *perm = copy(m, w->perm, perms * sizeof *perm);
        perm[j] = (perm[j] + 1) % w->in;
        w->perm = perm;
    } else if (now == FIRST_PERM && w->perm) {
        if (m->first_perm && m->first_k == w->k) w->perm = m->first_perm;
        else m->first_perm = w->perm, m->first_k = w->k;
    }
}

static int m_pack(struct be *be, const struct linear *good, struct be_linear **out, struct err *e)
{
    struct mutant_be *m = of(be);
    struct linear w = *good;
    if (w.codes) break_quantized(m, &w);
    else if (now == WEIGHT) {
        size_t n = (size_t)w.in * (size_t)w.out;
        void *weight = copy(m, w.weight,
                            n * (size_t)(w.stack ? w.stack : 1) * dtype_bytes(w.weight_type));
        if (w.weight_type == DT_F32) ((float *)weight)[n - 1] *= 1 + 0x1p-11f;
        else ((uint16_t *)weight)[n - 1] ^= 1;
        w.weight = weight;
    }
    if (now == BIAS && w.bias) {
        size_t n = (size_t)w.out * (size_t)(w.stack ? w.stack : 1);
        float *bias = copy(m, w.bias, n * sizeof *bias);
        bias[w.out - 1] = next_bit(bias[w.out - 1]);
        w.bias = bias;
    }
    if (now == NO_BIAS) w.bias = NULL;
    return fns()->pack(in(be), &w, out, e);
}

static void break_states(struct mutant_be *m, struct batch *b)
{
    size_t bytes = (size_t)b->n_seqs * sizeof(int32_t), last = (size_t)b->n_seqs - 1;
    b->state_from = copy(m, b->state_from, bytes);
    b->state_to = copy(m, b->state_to, bytes);
    if (now == STATE_LOST) b->state_from[last] = -1;
    if (now == STATE_WRONG) b->state_from[last] = b->state_from[0];
    if (now == STATE_IN_PLACE && b->state_from[last] >= 0)
        b->state_to[last] = b->state_from[last];
}

/* What all draws, or the last one, are told wrongly. */
static void break_samples(struct mutant_be *m, struct batch *b)
{
    size_t n = (size_t)b->n_samples, n_changes = (size_t)b->n_changes;
    b->sample = copy(m, b->sample, n * sizeof *b->sample);
    for (size_t i = 0; i < n; i++) {
        struct batch_sample *d = &b->sample[i];
        if (now == DRAW) d->bits ^= 1ull << 52;
        if (now == SHARE) d->top_p *= 0.97;
        if (now == DEEPER && d->most < 1 << 29) d->most *= 2;
        if (now == ONE_MORE) d->top_k += d->top_k > 0;
        if (now == NO_CHANGE && d->n_changes) d->n_changes--;
        if (now == SLOT && d->mask) d->mask = d->mask % b->n_logits + 1;
    }
    if (now == ELEMENT) b->sample[n - 1].score = 1;
    if (now == NEXT_ROW) b->sample[n - 1].row = (b->sample[n - 1].row + 1) % b->n_logits;
    if (now != SEEN) return;
    b->change = copy(m, b->change, n_changes * sizeof *b->change);
    for (size_t i = 0; i < n_changes; i++) b->change[i].seen++;
}

static void break_scores(struct mutant_be *m, struct batch *b)
{
    size_t n = (size_t)b->n_scores;
    b->score = copy(m, b->score, n * sizeof *b->score);
    for (size_t i = 0; i < n; i++) {
        struct batch_score *s = &b->score[i];
        if (now == ELEMENT && s->id > 0) s->id--;
        if (now == ONE_MORE) s->n_top -= s->n_top > 0;
    }
    if (now == NEXT_ROW) b->score[n - 1].row = (b->score[n - 1].row + 1) % b->n_logits;
}

static void break_drafts(struct mutant_be *m, struct batch *b)
{
    size_t bytes = (size_t)b->n_seqs * sizeof *b->seat;
    b->n_drafts = copy(m, b->n_drafts, bytes);
    b->n_right = copy(m, b->n_right, bytes);
    b->seat = copy(m, b->seat, bytes);
    for (int i = 0; i < b->n_seqs; i++) {
        if (now == SEAT_OF_ANOTHER && b->n_right[i] && b->seat[i]) b->seat[i]--;
        if (now == RIGHT_LOST) b->n_right[i] = 0;
        if (now == DRAFT_STAYS && b->n_drafts[i]) b->n_drafts[i]--;
    }
}

static void m_begin_step(struct be *be, const struct batch *good)
{
    struct mutant_be *m = of(be);
    struct batch *b = copy(m, good, sizeof *b);
    size_t rows = (size_t)b->n_rows * sizeof(int32_t), last = (size_t)b->n_rows - 1;
    b->token = copy(m, b->token, rows);
    b->pos = copy(m, b->pos, rows);
    b->slot = copy(m, b->slot, rows);
    if (now == TOKEN) b->token[last] ^= 1;
    if (now == ANGLE) b->pos[last]++;
    if (now == SLOT && b->n_rows > 1 && b->slot[last] % KV_PAGE) {
        int32_t s = b->slot[last];
        b->slot[last] = b->slot[last - 1];
        b->slot[last - 1] = s;
    }
    int integers = kv_type == KV_INT8;
    for (int i = 0; i < b->n_rows; i++) {
        if ((now == PAST_ONLY || (now == INT8_PAST && integers)) && b->pos[i]) b->pos[i]--;
        if (now == FUTURE && (b->pos[i] + 1) / KV_PAGE < b->table_stride) b->pos[i]++;
    }
    if ((now == PAGE || (now == INT8_PAGE && integers)) && b->table_stride > 1) {
        b->block_table = copy(m, b->block_table,
                              (size_t)(b->n_seqs * b->table_stride) * sizeof *b->block_table);
        int32_t *table = b->block_table + (b->n_seqs - 1) * b->table_stride;
        table[0] = table[1];
    }
    if (now == NEXT_ROW && b->n_top) {
        b->top_row = copy(m, b->top_row, (size_t)b->n_top * sizeof *b->top_row);
        b->top_row[b->n_top - 1] = (b->top_row[b->n_top - 1] + 1) % b->n_rows;
    }
    if (b->n_samples) break_samples(m, b);
    if (b->n_scores) break_scores(m, b);
    break_states(m, b);
    if (b->n_drafts) break_drafts(m, b);
    if (now == SEAT && b->n_seqs > 1) {
        b->seat = copy(m, b->seat, (size_t)b->n_seqs * sizeof *b->seat);
        b->seat[b->n_seqs - 1] = good->seat[0];
        b->seat[0] = good->seat[b->n_seqs - 1];
    }
    if (now == LOGIT_ROW && b->n_logits) {
        b->logit_row = copy(m, b->logit_row, (size_t)b->n_logits * sizeof *b->logit_row);
        b->logit_row[b->n_logits - 1] = (b->logit_row[b->n_logits - 1] + 1) % b->n_rows;
    }
    m->batch = b;
    fns()->begin_step(in(be), b);
}

/* What the operations themselves are told wrongly. */
static void change(struct op *op)
{
    if (op->kind == OP_NORM && now == NO_DELTA) op->in[1] = op->out[1] = NO_BUFFER;
    if (op->kind == OP_NORM && now == EPS) op->as.norm.eps *= 2;
    if (op->kind == OP_NORM && now == NOT_CENTERED) op->as.norm.centered = 0, op->w[1] = NO_WEIGHT;
    if (op->kind == OP_NORM && now == NO_BIAS) op->w[1] = NO_WEIGHT;
    if (op->kind == OP_NORM && now == GROUPS && op->as.norm.groups > 1) op->as.norm.groups *= 2;
    if (op->kind == OP_NORM && now == NOT_OWN) op->as.norm.own = 0;
    if (op->kind == OP_CONV && now == NO_BIAS) op->w[1] = NO_WEIGHT;
    if (op->kind == OP_CONV && now == NOT_LINEAR) op->as.conv.linear = 0;
    if (op->kind == OP_DELTA && now == NO_SCALE) op->as.delta.beta_scale = 0;
    if (op->kind == OP_DELTA && now == HEAD_GATE) op->as.delta.rule = DELTA_GATED;
    if (op->kind == OP_DELTA && now == WRONG_SKIP) op->w[2] = op->w[0];
    if (op->kind == OP_ADD && now == NO_Y) op->in[1] = op->in[2] = NO_BUFFER;
    if (op->kind == OP_ADD && now == NO_GATE) op->in[2] = NO_BUFFER;
    if (op->kind == OP_ADD && now == NO_SCALE) op->as.add.scale = 0;
    if (op->kind == OP_ADD && now == NO_POSITION) op->as.add.original = 0;
    if (op->kind == OP_ADD && now == BETA) op->as.add.beta *= 1.01f;
    if (op->kind == OP_ADD && now == NO_FIRST) op->as.add.first = 0;
    if (op->kind == OP_ROPE_STORE && now == NO_NORM) op->w[0] = NO_WEIGHT;
    if (op->kind == OP_ROPE_STORE && now == WRONG_NORM) op->w[1] = op->w[0];
    if (op->kind == OP_ROPE_STORE && now == NOT_AHEAD) op->as.rope.ahead = 0;
    if (op->kind == OP_EMBED && now == NO_SCALE) op->as.embed.scale = 0;
    if (op->kind == OP_GLU && now == SILU) op->as.glu.activation = ACTIVATION_SILU;
    if (op->kind == OP_GLU && now == LIMIT) op->as.glu.limit *= 1.01f;
    if (op->kind == OP_GLU && now == ALPHA) op->as.glu.alpha *= 1.01f;
    if (op->kind == OP_GLU && now == CURVE) op->as.glu.xielu.n *= 1.01f;
    if (op->kind == OP_SOFTCAP && now == CAP) op->as.softcap.cap *= 1.01f;
    if (op->kind == OP_ROUTE) {
        if (now == NO_CHOICE_BIAS) op->w[0] = NO_WEIGHT;
        if (now == NO_FACTOR) op->w[1] = NO_WEIGHT;
        if (now == NO_NORMALIZE) op->as.route.normalize = 0;
        if (now == NO_GROUPS) op->as.route.groups = 1;
    }
    if (op->kind == OP_EXPERTS && now == NOT_EACH) op->as.experts.each = 0;
    if (op->kind != OP_ATTEND) return;
    if (now == NOT_CHOSEN) op->as.attend.chosen = 0;
    if (now == NO_CAP) op->as.attend.softcap = 0;
    if (now == NO_SINKS) op->w[0] = NO_WEIGHT;
    if (now == NO_BIASES) op->as.attend.bias_pairs = 0;
    if (now == WINDOW && op->as.attend.window) op->as.attend.window++;
    if (now == NO_WINDOW) op->as.attend.window = 0;
    if (now == SCORE_SCALE) op->as.attend.scale *= 1.01f;
}

/* A buffer of an operation: device address, rows, elements. */
struct place {
    float *d;
    int rows;
    size_t n;
};

static struct place place_of(const struct stepwise_call *c, int buffer)
{
    const struct buffer *b = &c->plan->buffer[buffer];
    int rows = b->rows == ROWS_STEP     ? c->batch->n_rows
               : b->rows == ROWS_LOGITS ? c->batch->n_logits
               : b->rows == ROWS_SCORES ? c->batch->n_scores
                                        : c->batch->n_top;
    return (struct place){c->memory->buffer[buffer], rows,
                          (size_t)rows * b->row_bytes / sizeof(float)};
}

static void break_output(struct be *inner, const struct place *y)
{
    if (now == TAIL) poke(inner, y->d + y->n - 1, NAN);
    if (now == OVERRUN) poke(inner, y->d + y->n, 1);
    if ((now == BY_ROWS && y->rows > 4) || (now == BY_THREADS && n_threads == 3))
        poke(inner, y->d, next_bit(peek(inner, y->d)));
}

static float kept; /* what a hook changed, to be put back */

static void break_delta(struct be *inner, const struct stepwise_call *c)
{
    const struct op *op = c->op;
    struct place x = place_of(c, op->in[0]), a = place_of(c, op->in[1]);
    size_t n = x.n / (size_t)x.rows, keys = (size_t)(op->as.delta.key_heads *
                                                     op->as.delta.key_dim);
    if (now == GATE) poke(inner, a.d + a.n - 1, peek(inner, a.d + a.n - 1) * 1.01f);
    for (size_t r = 0; now == NEXT_KEY && r < (size_t)x.rows; r++)
        for (size_t i = 0; i < keys; i++) {
            float *q = x.d + r * n + i, kept_q = peek(inner, q);
            poke(inner, q, peek(inner, q + keys));
            poke(inner, q + keys, kept_q);
        }
}

/* Adds a step of the integers of its row, or two, to the last activation. */
static void break_digit(struct be *inner, const struct stepwise_call *c)
{
    struct place x = place_of(c, c->op->in[0]);
    struct arena a = {0};
    size_t n = x.n / (size_t)x.rows;
    const float *row = copy_of_device(&a, inner, x.d + x.n - n, n * sizeof *row);
    float largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(row[i]));
    kept = row[n - 1];
    poke(inner, x.d + x.n - 1, kept + largest * (gpu.act == ACT_I16 ? 0x1p-13f : 0x1p-6f));
    arena_free(&a);
}

static void before(struct be *inner, const struct stepwise_call *c)
{
    const struct op *op = c->op;
    if (op->kind == OP_LINEAR && now == DIGIT) break_digit(inner, c);
    if (op->kind == OP_NORM) kept = peek(inner, place_of(c, op->in[0]).d);
    if (op->kind == OP_GLU && now == UP && op->in[1] >= 0) {
        struct place up = place_of(c, op->in[1]);
        poke(inner, up.d + up.n / 2, peek(inner, up.d + up.n / 2) * (1 + 10 * 0x1p-23f));
    }
    if (op->kind == OP_ATTEND && now == SINK && op->w[0] >= 0) {
        float *sink = c->memory->vector[op->w[0]];
        poke(inner, sink, peek(inner, sink) * 1.01f);
    }
    if (op->kind == OP_ATTEND && now == BIAS_TURN && op->as.attend.bias_pairs) {
        float *cosine = c->memory->vector[op->w[2]];
        poke(inner, cosine, peek(inner, cosine) * 1.01f);
    }
    if (op->kind == OP_CHOOSE && now == FACTOR) {
        struct place w = place_of(c, op->in[1]);
        poke(inner, w.d + w.n - 1, -peek(inner, w.d + w.n - 1));
    }
    if (op->kind == OP_DELTA) break_delta(inner, c);
    if (op->kind == OP_EXPERTS && now == NEXT_EXPERT) {
        struct place id = place_of(c, op->in[1]);
        int n = c->plan->weight[op->w[0]].linear.stack;
        int32_t last = (int32_t)f32_bits(peek(inner, id.d + id.n - 1));
        poke(inner, id.d + id.n - 1, f32_from_bits((uint32_t)((last + 1) % n)));
    }
    if (op->kind == OP_GROUP_SUMS && now == ELEMENT) {
        struct place x = place_of(c, op->in[0]);
        poke(inner, x.d + x.n / 2, peek(inner, x.d + x.n / 2) * 1.01f + 0.01f);
    }
    if (op->kind == OP_MIX && now == FACTOR) {
        struct place w = place_of(c, op->in[1]);
        poke(inner, w.d + w.n - 1, peek(inner, w.d + w.n - 1) * 1.01f);
    }
    if (op->kind != OP_ROPE_STORE || op->in[1] < 0) return;
    struct place k = place_of(c, op->in[1]), v = place_of(c, op->in[2]);
    if (now == VALUE) poke(inner, v.d, peek(inner, v.d) * 1.01f);
    kept = peek(inner, k.d + k.n - 1);
    if (now == KEY) poke(inner, k.d + k.n - 1, kept * 1.01f);
}

static void break_argmax(struct be *inner, const struct stepwise_call *c)
{
    if (now != LAST_TIE && now != NAN_UNSEEN) return;
    struct arena a = {0};
    struct place logits = place_of(c, c->op->in[0]), best = place_of(c, c->op->out[0]);
    size_t vocab = logits.n / (size_t)logits.rows;
    const float *x = copy_of_device(&a, inner, logits.d, logits.n * sizeof *x);
    int32_t *id = copy_of_device(&a, inner, best.d, best.n * sizeof *id);
    for (int r = 0; r < best.rows; r++, x += vocab) {
        if (now == NAN_UNSEEN && id[r] < 0) id[r] = 0;
        for (int i = 0; now == LAST_TIE && id[r] >= 0 && i < (int)vocab; i++)
            if (x[i] >= x[id[r]]) id[r] = i;
    }
    fns()->upload(inner, best.d, id, best.n * sizeof *id);
    arena_free(&a);
}

/* Logits that are equal are scores that tie, where there is no bias. */
static void break_route(struct be *inner, const struct stepwise_call *c)
{
    struct place x = place_of(c, c->op->in[0]), id = place_of(c, c->op->out[0]),
                 w = place_of(c, c->op->out[1]);
    size_t n = x.n / (size_t)x.rows, top = id.n / (size_t)id.rows;
    break_output(inner, &w);
    if (now != LAST_TIE && now != NAN_UNSEEN) return;
    struct arena a = {0};
    const float *logits = copy_of_device(&a, inner, x.d, x.n * sizeof *logits);
    float *weight = copy_of_device(&a, inner, w.d, w.n * sizeof *weight);
    int32_t *ids = copy_of_device(&a, inner, id.d, id.n * sizeof *ids);
    for (size_t i = 0; i < w.n; i++)
        if (now == NAN_UNSEEN && weight[i] != weight[i]) weight[i] = 0;
    for (size_t r = 0; now == LAST_TIE && r < (size_t)x.rows; r++) {
        int32_t *last = &ids[r * top + top - 1];
        for (size_t e = (size_t)*last + 1; e < n; e++)
            if (logits[r * n + e] == logits[r * n + (size_t)*last]) *last = (int32_t)e;
    }
    fns()->upload(inner, w.d, weight, w.n * sizeof *weight);
    fns()->upload(inner, id.d, ids, id.n * sizeof *ids);
    arena_free(&a);
}

/* The last choice of the last row. */
static void break_choose(struct be *inner, const struct stepwise_call *c)
{
    struct place id = place_of(c, c->op->out[0]);
    float *last = id.d + id.n - 1;
    int at = (int)f32_bits(peek(inner, last)), pos = c->batch->pos[c->batch->n_rows - 1];
    if (pos < c->op->as.choose.top_k) return;
    if (now == NEXT_CHOSEN)
        poke(inner, last, f32_from_bits((uint32_t)(at < pos ? at + 1 : at - 1)));
    for (size_t i = 0, n = id.n / (size_t)id.rows; now == LAST_TIE && i < n; i++)
        poke(inner, last - i, f32_from_bits((uint32_t)(pos - (int)i)));
}

/* Leaves out what is not among the 63 largest up to it. */
static void keep_fewer(struct logits_entry *top)
{
    float x[OP_TOP_ROOM];
    uint8_t is[OP_TOP_ROOM];
    int n = 0, n_kept = 0;
    for (; n < OP_TOP_ROOM && top[n].id >= 0; n++) x[n] = top[n].value;
    ever_top(x, n, OP_TOP_KEPT - 1, is);
    for (int i = 0; i < n; i++)
        if (is[i]) top[n_kept++] = top[i];
    if (n_kept < n) top[n_kept].id = -1;
}

static void break_top(struct be *inner, const struct stepwise_call *c)
{
    if (now != FEW_OF_TOP && now != ELEMENT && now != TAIL) return;
    struct arena a = {0};
    struct place p = place_of(c, c->op->out[0]);
    size_t n = (size_t)p.rows * OP_TOP_ROOM;
    struct logits_entry *top = copy_of_device(&a, inner, p.d, n * sizeof *top);
    for (size_t i = 0; i < n; i += OP_TOP_ROOM) {
        int last = 0;
        while (last < OP_TOP_ROOM && top[i + (size_t)last].id >= 0) last++;
        if (now == FEW_OF_TOP) keep_fewer(top + i);
        else if (last-- > 1)
            top[i + (size_t)last].id = now == TAIL ? -1 : top[i + (size_t)last].id + 1;
    }
    fns()->upload(inner, p.d, top, n * sizeof *top);
    arena_free(&a);
}

/* Where operations are compiled together. */
static void break_fused(struct be *inner, const struct stepwise_call *c)
{
    const struct op *op = c->op;
    if (c->plan->n_ops == 1) return;
    struct place out = place_of(c, op->out[0]);
    if (op->kind == OP_NORM && now == FUSED_BIT)
        poke(inner, out.d + out.n - 1, next_bit(peek(inner, out.d + out.n - 1)));
    if (op->kind == OP_GLU && now == FUSED_GATE)
        poke(inner, out.d + out.n - 1, next_bit(peek(inner, out.d + out.n - 1)));
    if (op->kind == OP_NORM && now == FUSED_STALE)
        poke(inner, out.d, peek(inner, place_of(c, op->in[0]).d));
    if (op->kind == OP_LINEAR && now == FUSED_UNWRITTEN && op > c->plan->op &&
        op[-1].kind == OP_ATTEND && op[-1].last[0] == OP_KEPT)
        poke(inner, place_of(c, op->in[0]).d, NAN);
}

/* What the mutant breaks in the pages that a step has stored. */
static struct page_fault page_fault(void)
{
    struct page_fault f = {.kv = kv_type, .scale = FAULT_NO_SCALE, .tenth = -1};
    if (now == INT8_SCALE) f.scale = FAULT_KEY_SCALE;
    if (now == INT8_VALUE_SCALE) f.scale = FAULT_VALUE_SCALE;
    if (now >= PAGE_BYTES && now < PAGE_BYTES_END) f.tenth = now - PAGE_BYTES;
    return f;
}

static void after(struct be *inner, const struct stepwise_call *c)
{
    break_fused(inner, c);
    const struct op *op = c->op;
    struct place in0 = {0}, out = place_of(c, op->out[op->n - 1]);
    if (op->in[0] >= 0) in0 = place_of(c, op->in[0]);
    switch (op->kind) {
    case OP_NORM:
        if (now == X_KEPT) poke(inner, in0.d, kept);
        if (now == BY_THREADS && n_threads == 3) poke(inner, out.d, next_bit(peek(inner, out.d)));
        break;
    case OP_LINEAR:
        break_output(inner, &out);
        if (now == DIGIT) poke(inner, in0.d + in0.n - 1, kept);
        if (now == INPUT) poke(inner, in0.d, next_bit(peek(inner, in0.d)));
        break;
    case OP_ROPE_STORE: {
        if (op->in[1] < 0) {
            if (now == QUERIES_STORED) poke(inner, c->memory->kv[op->as.rope.kv], 1);
            break;
        }
        struct place k = place_of(c, op->in[1]);
        poke(inner, k.d + k.n - 1, kept);
        break_pages(page_fault(), inner, fns(), c);
        break;
    }
    case OP_ADD:
    case OP_CONV:
    case OP_DELTA:
    case OP_ATTEND: break_output(inner, &out); break;
    case OP_SOFTCAP:
    case OP_GLU:
        out.rows = 1;
        break_output(inner, &out);
        if (now == ELEMENT && out.n >= 8) poke(inner, out.d + 1, next_bit(peek(inner, out.d + 1)));
        break;
    case OP_CHOOSE: break_choose(inner, c); break;
    case OP_ROUTE: break_route(inner, c); break;
    case OP_EXPERTS:
    case OP_GROUP_SUMS:
    case OP_MIX: break_output(inner, &out); break;
    case OP_ARGMAX: break_argmax(inner, c); break;
    case OP_TOP: break_top(inner, c); break;
    default: break;
    }
}

static const struct stepwise_hooks hooks = {change, before, after, NULL};

static int m_compile(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                     struct be_plan **out, struct err *e)
{
    return stepwise_compile(in(be), fns(), &hooks, p, m, out, e);
}

static void m_drop_plan(struct be *be, struct be_plan *p) { stepwise_drop(in(be), fns(), p); }

static void m_run(struct be *be, const struct be_plan *p)
{
    stepwise_run(in(be), fns(), &hooks, p, of(be)->batch);
}

static struct backend mutant_backend = {
    .open = m_open,
    .close = m_close,
    .describe = m_describe,
    .alloc = m_alloc,
    .free = m_free,
    .upload = m_upload,
    .download = m_download,
    .pack = m_pack,
    .drop = m_drop,
    .kv_page_bytes = m_kv_page_bytes,
    .compile = m_compile,
    .drop_plan = m_drop_plan,
    .begin_step = m_begin_step,
    .run = m_run,
    .sync = m_sync,
};

/* Failures of one operation's checks over the mutant; *n_cases receives the cases run. With
 * integer activations the mutant comes after the CPU's variant scalar, whose bits it must have. */
static int failures(const struct check *c, const struct operation *op, enum kind kind, int quiet,
                    long *n_cases)
{
    int exact = gpu.act != ACT_F32;
    struct check m = {.ref = c->ref,
                      .n = 1 + exact,
                      .seed = c->seed,
                      .quick = 1,
                      .quiet = quiet,
                      .op = op->name,
                      .act = c->act};
    if (exact) m.v[0] = c->v[c->n - 1];
    m.v[m.n - 1] = (struct variant){&mutant_backend, "mutant", exact};
    now = kind;
    op->check(&m);
    *n_cases = m.tally[m.n - 1].n_cases;
    return m.tally[m.n - 1].n_failed;
}

/* Whether the mutant shows in this arithmetic. */
static int shows(const struct mutant *m)
{
    int by_bits = m->kind == DIGIT || m->kind == PAIRS_APART;
    if (m->kind == TWO_HALVES && !takes_one_half(&healthy)) return 0;
    return in_this_arithmetic(m->op) && (!by_bits || gpu.act != ACT_F32);
}

int check_mutants(const struct check *c, const struct variant *v, const char *only, int *n_mutants)
{
    int n_caught = 0, n_false = 0;
    long n_cases;
    healthy = *v;
    mutant_backend.name = v->ops->name;
    mutant_backend.kv_types = v->ops->kv_types;
    mutant_backend.keeps_drafts = v->ops->keeps_drafts;
    *n_mutants = 0;
    for (int i = 0; ops[i].name; i++)
        if (has(v, ops[i].name) && in_this_arithmetic(ops[i].name) &&
            (!only || listed(only, ops[i].name)) && failures(c, &ops[i], NOTHING, 0, &n_cases))
            n_false++,
                printf("FAIL mutants: %s fails on a wrapper that breaks nothing\n", ops[i].name);
    for (int i = 0; i < N_MUTANTS; i++) {
        const struct operation *op = ops;
        while (strcmp(op->name, mutants[i].op)) op++;
        if (!has(v, op->name) || !shows(&mutants[i]) || (only && !listed(only, op->name))) continue;
        if (mutants[i].kind >= INT8_PAGE && strcmp(v->ops->name, "cpu")) continue;
        ++*n_mutants;
        int n = failures(c, op, mutants[i].kind, 1, &n_cases);
        n_caught += n > 0;
        if (!n)
            printf("FAIL mutants: %s: %s: not caught in %ld cases\n", op->name, mutants[i].what,
                   n_cases);
    }
    printf("mutations caught: %d/%d (around %s)\n", n_caught, *n_mutants, v->name);
    return *n_mutants - n_caught + n_false;
}
