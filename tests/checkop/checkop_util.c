#include "tests/checkop/checkop.h"

#include "backend-hip/hip.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE_BYTES = 256, MAX_PRINTED = 4 };

static const uint32_t fence_word = 0x7fc0beef; /* a NaN that nobody computes */

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "checkop: %s: %s\n", what, why);
    exit(2);
}

struct rng rng_for(uint64_t seed, const char *name)
{
    struct rng r = {seed * 0x9e3779b97f4a7c15u + 1};
    for (; *name; name++) r.s = (r.s ^ (unsigned char)*name) * 0x100000001b3u;
    rng_next(&r);
    return r;
}

uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int rng_below(struct rng *r, int n) { return (int)(rng_next(r) % (uint64_t)n); }

/* The sum of 12 uniform numbers: cheap, bounded, normal enough. */
float rng_normal(struct rng *r)
{
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t z = rng_next(r);
        for (int k = 0; k < 4; k++, z >>= 16) sum += (int)(z & 0xffff);
    }
    return (float)(sum - 6 * 0x10000 + 6) / 0x10000;
}

void *arena_get(struct arena *a, size_t bytes)
{
    if (a->n == a->cap) {
        a->cap = a->cap ? 2 * a->cap : 64;
        a->block = realloc(a->block, a->cap * sizeof *a->block);
        if (!a->block) die("arena", "out of memory");
    }
    void *p;
    if (posix_memalign(&p, 64, bytes ? bytes : 1)) die("arena", "out of memory");
    memset(p, 0, bytes);
    return a->block[a->n++] = p;
}

void arena_free(struct arena *a)
{
    while (a->n) free(a->block[--a->n]);
    free(a->block);
    memset(a, 0, sizeof *a);
}

void fill_row(struct rng *r, enum row_kind kind, int hot, float *x, int dim)
{
    for (int i = 0; i < dim; i++)
        x[i] = kind == ROW_ZERO || kind == ROW_ONE_HOT ? 0 : rng_normal(r);
    if (kind == ROW_ONE_HOT) x[hot % dim] = 1;
    if (kind == ROW_LARGE)
        for (int i = 0; i < dim; i++) x[i] *= 1e4f;
    if (kind == ROW_SPIKE) x[hot % dim] = 1000;
}

void fill_rows(struct rng *r, int first, float *x, int rows, int dim)
{
    for (int i = 0; i < rows; i++)
        fill_row(r, (enum row_kind)((first + i) % ROW_KINDS), rng_below(r, dim),
                 x + (size_t)i * (size_t)dim, dim);
}

const char *gpu_own(int query_halves)
{
    static char text[3][HIP_OPTIONS_BYTES];
    CHECK(query_halves >= 0 && query_halves < 3);
    const struct hip_options o = {.query_halves = query_halves, .library = gpu.library};
    hip_options_write(&o, text[query_halves], HIP_OPTIONS_BYTES);
    return text[query_halves];
}

void side_open(struct side *s, const struct variant *v, int n_threads, struct be_config config)
{
    struct err e;
    config.variant = v->name;
    config.n_threads = n_threads;
    if (!config.own) config.own = gpu_own(0);
    config.device = gpu.device;
    if (config.act == ACT_F32) config.act = gpu.act;
    s->ops = v->ops;
    if (s->ops->open(&s->be, &config, &e)) die(v->name, e.msg);
}

void side_close(struct side *s) { s->ops->close(s->be); }

struct be_config plain_config(int max_rows)
{
    return (struct be_config){.act = ACT_F32,
                              .kv = KV_F16,
                              .max_rows = max_rows,
                              .max_seqs = max_rows,
                              /* the harness leaves some unused */
                              .max_pages = max_rows / KV_PAGE + 8};
}

static void sync_or_die(struct side *s)
{
    struct err e;
    if (s->ops->sync(s->be, &e)) die("sync", e.msg);
}

/* So many bytes of fence words, which stay. */
static const char *fences(size_t bytes)
{
    static char *all;
    static size_t n;
    if (bytes > n) {
        all = realloc(all, bytes + 4);
        if (!all) die("fences", "out of memory");
        for (n = 0; n < bytes; n += 4) memcpy(all + n, &fence_word, 4);
    }
    return all;
}

/* A buffer between fences. */
static struct dbuf fenced(struct side *s, const void *src, size_t bytes)
{
    char *base = s->ops->alloc(s->be, bytes + 2 * FENCE_BYTES), *d = base + FENCE_BYTES;
    if (!base) die("alloc", "out of memory");
    const char *words = fences(FENCE_BYTES);
    s->ops->upload(s->be, base, words, FENCE_BYTES);
    s->ops->upload(s->be, d, src, bytes);
    s->ops->upload(s->be, d + bytes, words, FENCE_BYTES);
    sync_or_die(s);
    return (struct dbuf){d, bytes};
}

struct dbuf dbuf_new(struct side *s, size_t bytes) { return fenced(s, fences(bytes), bytes); }

struct dbuf dbuf_from(struct side *s, const void *src, size_t bytes)
{
    return fenced(s, src, bytes);
}

void dbuf_get(struct side *s, const struct dbuf *b, void *dst)
{
    s->ops->download(s->be, dst, b->d, b->bytes);
    sync_or_die(s);
}

int dbuf_fences_hold(struct side *s, const struct dbuf *b)
{
    uint32_t before[FENCE_BYTES / 4], after[FENCE_BYTES / 4];
    s->ops->download(s->be, before, b->d - FENCE_BYTES, FENCE_BYTES);
    s->ops->download(s->be, after, b->d + b->bytes, FENCE_BYTES);
    sync_or_die(s);
    for (int i = 0; i < FENCE_BYTES / 4; i++)
        if (before[i] != fence_word || after[i] != fence_word) return 0;
    return 1;
}

void dbuf_free(struct side *s, struct dbuf *b)
{
    s->ops->free(s->be, b->d - FENCE_BYTES);
    b->d = NULL;
}

static struct tally *tally_of(struct check *c, int v)
{
    return v == REF ? &c->ref_tally : &c->tally[v];
}

int is_caught(const struct check *c)
{
    return (c->quiet || c->first) && c->tally[c->n - 1].n_failed;
}

void count_case(struct check *c, int v) { tally_of(c, v)->n_cases++; }

int runs_again(const struct check *c, int v)
{
    enum { EACH = 4 };
    int on_cpu = !strcmp(c->v[v].ops->name, "cpu");
    return on_cpu || !c->quick || c->quiet || c->tally[v].n_cases % EACH == 1;
}

void fail(struct check *c, int v, const char *name, const char *fmt, ...)
{
    struct tally *t = tally_of(c, v);
    if (++t->n_failed > MAX_PRINTED || c->quiet) return;
    va_list ap;
    printf("FAIL %s %s [%s]: ", v == REF ? c->ref.name : c->v[v].name, c->op, name);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf(t->n_failed == MAX_PRINTED
               ? "\n  (further failures of this variant and operation are only counted)\n"
               : "\n");
}

void compare(struct check *c, int v, const char *name, const char *what, const float *got,
             const float *want, const float *bound, size_t rows, size_t cols)
{
    struct tally *t = tally_of(c, v);
    double worst = 0;
    size_t at = 0, n_bad = 0;
    for (size_t i = 0; i < rows * cols; i++) {
        double d = fabs((double)got[i] - want[i]), f = d == 0         ? 0
                                                       : bound[i] > 0 ? d / bound[i]
                                                                      : INFINITY;
        if (f != f) f = INFINITY; /* NaN */
        n_bad += f > 1;
        if (f > worst) worst = f, at = i;
    }
    if (worst > t->worst) t->worst = worst;
    if (n_bad)
        fail(c, v, name,
             "%s: %zu of %zu elements out of bound; worst at row %zu of %zu, column %zu of %zu: "
             "got %.9g, expected %.9g, |difference| "
             "%.3g, bound %.3g",
             what, n_bad, rows * cols, at / cols, rows, at % cols, cols, got[at], want[at],
             fabs((double)got[at] - want[at]), bound[at]);
}

void compare_bits(struct check *c, int v, const char *name, const char *what, const void *got,
                  const void *want, size_t n, size_t cols)
{
    const uint32_t *g = got, *w = want;
    for (size_t i = 0; i < n; i++)
        if (g[i] != w[i]) {
            fail(c, v, name,
                 "%s: bits differ first at row %zu, column %zu: 0x%08x (%.9g), expected 0x%08x "
                 "(%.9g)",
                 what, i / cols, i % cols, g[i], f32_from_bits(g[i]), w[i], f32_from_bits(w[i]));
            return;
        }
}

void compare_variants(struct check *c, int v, const char *name, const char *what, float *kept,
                      const float *got, size_t n, size_t cols)
{
    if (!c->v[v].agrees) return;
    for (int u = 0; u < v; u++)
        if (c->v[u].agrees && (gpu.act != ACT_F32 || c->v[u].ops == c->v[v].ops)) {
            char text[96];
            snprintf(text, sizeof text, "%s, against variant %s", what, c->v[u].name);
            compare_bits(c, v, name, text, got, kept, n, cols);
            return;
        }
    memcpy(kept, got, n * sizeof *kept);
}

void compare_fences(struct check *c, int v, const char *name, const char *what, struct side *s,
                    const struct dbuf *b)
{
    if (!dbuf_fences_hold(s, b))
        fail(c, v, name, "%s: wrote outside its %zu bytes", what, b->bytes);
}

int trial_buffer(struct trial *t, void *d, enum rows_of rows, size_t row_bytes)
{
    CHECK(t->n_buffers < TRIAL_BUFFERS);
    t->buffer[t->n_buffers] = (struct buffer){"trial", rows, row_bytes};
    t->d_buffer[t->n_buffers] = d;
    t->kept[t->n_buffers] = 1;
    return t->n_buffers++;
}

int trial_linear(struct trial *t, const struct linear *w, struct be_linear *packed)
{
    CHECK(t->n_weights < TRIAL_WEIGHTS);
    t->weight[t->n_weights] = (struct weight){.linear = *w};
    t->linear[t->n_weights] = packed;
    return t->n_weights++;
}

int trial_vector(struct trial *t, void *d, int n)
{
    CHECK(t->n_weights < TRIAL_WEIGHTS);
    t->weight[t->n_weights] = (struct weight){.vector = d, .n = n}; /* a device address */
    t->d_vector[t->n_weights] = d;
    return t->n_weights++;
}

int trial_kv(struct trial *t, void *d, int n_kv_heads, int head_dim)
{
    CHECK(t->n_kvs < TRIAL_KVS);
    t->kv[t->n_kvs] = (struct kv_cache){n_kv_heads, head_dim, 0};
    t->d_kv[t->n_kvs] = d;
    return t->n_kvs++;
}

int trial_state(struct trial *t, void *d, size_t bytes, void *d_kept, size_t kept_bytes)
{
    CHECK(t->n_states < TRIAL_STATES);
    t->state[t->n_states] = (struct state){bytes, kept_bytes};
    t->d_state[t->n_states] = d;
    t->d_kept[t->n_states] = d_kept;
    return t->n_states++;
}

struct op *trial_op(struct trial *t, enum op_kind kind)
{
    CHECK(t->n_ops < TRIAL_OPS);
    t->op[t->n_ops] = op_of(kind, "trial", -1);
    return &t->op[t->n_ops++];
}

struct op *trial_linears(struct trial *t, int in, int n, const int *w, const int *out)
{
    struct op *op = trial_op(t, OP_LINEAR);
    op->n = n;
    op->in[0] = in;
    for (int i = 0; i < n; i++) op->w[i] = w[i], op->out[i] = out[i];
    return op;
}

struct op *trial_angles(struct trial *t, int inv_freq, int pairs, float scale, void *d_cos,
                        void *d_sin)
{
    struct op *op = trial_op(t, OP_ANGLES);
    size_t row = (size_t)pairs * sizeof(float);
    op->w[0] = inv_freq;
    op->as.angles.pairs = pairs;
    op->as.angles.scale = scale;
    op->out[0] = trial_buffer(t, d_cos, ROWS_STEP, row);
    op->out[1] = trial_buffer(t, d_sin, ROWS_STEP, row);
    return op;
}

static int writes(const struct op *op, int buffer)
{
    for (int k = 0; k < OP_OUTS; k++)
        if (op->out[k] == buffer) return 1;
    return 0;
}

/* The last result in a buffer that is kept is read after the run. */
static void keep_results(struct trial *t)
{
    for (int i = 0; i < t->n_ops; i++)
        for (int k = 0; k < OP_OUTS; k++) {
            int buffer = t->op[i].out[k], is_last = buffer >= 0 && t->kept[buffer];
            for (int j = i + 1; j < t->n_ops; j++)
                if (writes(&t->op[j], buffer)) is_last = 0;
            if (is_last) t->op[i].last[k] = OP_KEPT;
        }
}

static struct be_plan *compile(struct side *s, const struct step_plan *p,
                               const struct plan_memory *m)
{
    struct be_plan *compiled;
    struct err e;
    if (s->ops->compile(s->be, p, m, &compiled, &e)) die("compile", e.msg);
    return compiled;
}

void trial_run(struct trial *t, struct side *s, const struct batch *b, int apart)
{
    struct err e;
    struct step_plan p = {.op = t->op,
                          .n_ops = t->n_ops,
                          .n_body = t->n_ops,
                          .buffer = t->buffer,
                          .n_buffers = t->n_buffers,
                          .weight = t->weight,
                          .n_weights = t->n_weights,
                          .kv = t->kv,
                          .n_kv = t->n_kvs,
                          .state = t->state,
                          .n_states = t->n_states,
                          .best = -1,
                          .logits = -1,
                          .top = -1},
                     slice[TRIAL_OPS];
    struct plan_memory m = {.buffer = t->d_buffer,
                            .linear = t->linear,
                            .vector = t->d_vector,
                            .kv = t->d_kv,
                            .seat = t->d_seat,
                            .state = t->d_state,
                            .kept = t->d_kept};
    struct be_plan *compiled[TRIAL_OPS];
    int n = apart ? t->n_ops : 1;
    step_plan_liveness(&p, 0);
    keep_results(t);
    for (int i = 0; i < n; i++) {
        if (apart && step_plan_slice(&p, i, 1, &slice[i], &e)) die("slice", e.msg);
        compiled[i] = compile(s, apart ? &slice[i] : &p, &m);
    }
    s->ops->begin_step(s->be, b);
    for (int i = 0; i < n; i++) {
        s->ops->run(s->be, compiled[i]);
        sync_or_die(s);
    }
    for (int i = 0; i < n; i++) {
        s->ops->drop_plan(s->be, compiled[i]);
        if (apart) step_plan_free_slice(&slice[i]);
    }
}

struct page_map make_pages(struct arena *a, struct rng *r, const int *n_ctx, int n_seqs)
{
    struct page_map m = {.n_pages = 3, .stride = 1};
    for (int i = 0; i < n_seqs; i++) {
        int n = (n_ctx[i] + KV_PAGE - 1) / KV_PAGE;
        m.n_pages += n;
        if (n > m.stride) m.stride = n;
    }
    int32_t *ids = arena_get(a, (size_t)m.n_pages * sizeof *ids);
    for (int i = 0; i < m.n_pages; i++) {
        int j = rng_below(r, i + 1);
        ids[i] = ids[j];
        ids[j] = i;
    }
    m.table = arena_get(a, (size_t)(n_seqs * m.stride) * sizeof *m.table);
    int used = 0;
    for (int i = 0; i < n_seqs; i++)
        for (int p = 0; p < m.stride; p++)
            m.table[i * m.stride + p] = p < (n_ctx[i] + KV_PAGE - 1) / KV_PAGE ? ids[used++] : 0;
    return m;
}

/* Each array alone, not as batch_place has them: so a read past the end of one shows. */
struct batch make_batch(struct arena *a, const struct page_map *m, const struct span *span, int n,
                        int n_decode)
{
    struct batch b = {.table_stride = m->stride};
    size_t rows = 0;
    for (int i = 0; i < n; i++) rows += (size_t)span[i].rows;
    b.token = arena_get(a, rows * sizeof(int32_t));
    b.pos = arena_get(a, rows * sizeof(int32_t));
    b.seq = arena_get(a, rows * sizeof(int32_t));
    b.slot = arena_get(a, rows * sizeof(int32_t));
    b.seq_start = arena_get(a, (size_t)(n + 1) * sizeof(int32_t));
    b.kv_len = arena_get(a, (size_t)n * sizeof(int32_t));
    b.block_table = arena_get(a, (size_t)(n * m->stride) * sizeof(int32_t));
    b.state_from = arena_get(a, (size_t)n * sizeof(int32_t));
    b.state_to = arena_get(a, (size_t)n * sizeof(int32_t));
    b.seat = arena_get(a, (size_t)n * sizeof(int32_t));
    b.logit_row = arena_get(a, 1);
    b.top_row = arena_get(a, 1);
    batch_set(&b, m, span, n, n_decode);
    return b;
}

struct batch make_plain_batch(struct arena *a, int rows, int n_decode)
{
    int n = n_decode + (rows > n_decode), *n_ctx = arena_get(a, (size_t)n * sizeof *n_ctx);
    struct span *span = arena_get(a, (size_t)n * sizeof *span);
    for (int i = 0; i < n; i++) {
        n_ctx[i] = i < n_decode ? 1 : rows - n_decode;
        span[i] = (struct span){i, 0, n_ctx[i]};
    }
    struct rng r = {1};
    struct page_map m = make_pages(a, &r, n_ctx, n);
    return make_batch(a, &m, span, n, n_decode);
}
