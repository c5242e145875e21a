/* cpu_choose.c: OP_CHOOSE (core/step/op.h), and the chosen keys side by side for OP_ATTEND. Rows
 * are scored some at a time, pages of a sequence by all threads. Must not know: attention, an
 * instruction set. */
#include "backend-cpu/cpu_internal.h"
#include "backend-cpu/packed.h"
#include "core/step/kv_open.h"

#include <stdlib.h>
#include <string.h>

/* Rows that have scores at once; positions of a task. */
enum { ROUND_ROWS = 16, TASK_PAGES = 16 };

struct chosen_scratch {
    size_t positions;        /* of a sequence at most */
    size_t pages, key_bytes; /* of the chosen keys of a row */
    float *score;            /* [ROUND_ROWS][positions] */
    char *keys;              /* [n_threads][key_bytes] */
    int32_t *page;           /* [pages] 0, 1, 2 .. */
};

static size_t page_bytes(enum kv_type t, int head_dim)
{
    enum kv_type as = kv_is_integer(t) ? KV_INT8 : t;
    size_t scales = kv_is_integer(t) ? 2 * KV_PAGE * sizeof(float) : 0;
    return kv_part_bytes(as, head_dim) + scales;
}

static size_t pages_of(int n) { return ((size_t)n + KV_PAGE - 1) / KV_PAGE; }

/* What a plan needs. */
struct need {
    size_t positions;        /* that have scores at once; 0: none */
    size_t pages, key_bytes; /* of the chosen keys of a row, the most that an operation has */
};

static struct need need_of(const struct be_config *g, const struct step_plan *p)
{
    struct need n = {0};
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind == OP_CHOOSE) n.positions = (size_t)g->max_pages * KV_PAGE;
        if (op->kind != OP_ATTEND || !op->as.attend.chosen) continue;
        size_t pages = pages_of(op->as.attend.chosen),
               bytes = pages * page_bytes(g->kv, op->as.attend.heads.head_dim);
        if (bytes > n.key_bytes) n.key_bytes = bytes;
        if (pages > n.pages) n.pages = pages;
    }
    n.key_bytes = (n.key_bytes + 63) / 64 * 64;
    return n;
}

uint64_t cpu_choose_bytes(const struct be_config *g, const struct step_plan *p)
{
    struct need n = need_of(g, p);
    size_t threads = g->n_threads > 0 ? (size_t)g->n_threads : (size_t)pool_n_cores();
    return ROUND_ROWS * n.positions * sizeof(float) + threads * n.key_bytes;
}

void cpu_choose_free(struct cpu *c)
{
    if (!c->chosen) return;
    c->be.ops->free(&c->be, c->chosen->score);
    c->be.ops->free(&c->be, c->chosen->keys);
    free(c->chosen->page);
    free(c->chosen);
    c->chosen = NULL;
}

int cpu_choose_grow(struct cpu *c, const struct step_plan *p, struct err *e)
{
    struct chosen_scratch had = {0}, *s;
    struct need n = need_of(&c->config, p);
    if (c->chosen) had = *c->chosen;
    if (n.positions <= had.positions && n.key_bytes <= had.key_bytes && n.pages <= had.pages)
        return 0;
    cpu_choose_free(c);
    if (!(s = c->chosen = calloc(1, sizeof *s))) return err_memory(e);
    s->positions = n.positions > had.positions ? n.positions : had.positions;
    s->key_bytes = n.key_bytes > had.key_bytes ? n.key_bytes : had.key_bytes;
    s->pages = n.pages > had.pages ? n.pages : had.pages;
    s->score = c->be.ops->alloc(&c->be, ROUND_ROWS * s->positions * sizeof *s->score + 1);
    s->keys = c->be.ops->alloc(&c->be, (size_t)pool_n_threads(c->pool) * s->key_bytes + 1);
    s->page = malloc(s->pages * sizeof *s->page + 1);
    if (!s->score || !s->keys || !s->page) {
        cpu_choose_free(c);
        return err_memory_for(e, "out of memory for the chosen keys of rows");
    }
    for (size_t i = 0; i < s->pages; i++) s->page[i] = (int32_t)i;
    return 0;
}

/* ---- keys of a page */

/* The keys of latent heads on a page of a sequence, as a row at `pos` reads them: as in a page of
 * KV_INT8 where they are integers. room: [page_bytes] for those that have to be unpacked. */
static const char *keys_of(const struct call *t, int kv, int seq, int pos, int page, char *room)
{
    const struct cpu *c = t->c;
    const struct batch *b = c->batch;
    const struct kv_cache *cache = &t->p->plan->kv[kv];
    int n = kv_padded(KV_INT8, cache->head_dim), open = kv_has_open(c->config.kv);
    if (open && page == pos / KV_PAGE) return cpu_open_page(t, kv, seq, page);
    const int32_t *table = b->block_table + (size_t)seq * (size_t)b->table_stride;
    const char *from = (const char *)t->p->memory->kv[kv] +
                       (size_t)table[page] * cpu_kv_page_bytes(c->config.kv, cache);
    if (!open) return from;
    c->kernels->unpack(from, KEYS, cache->head_dim, room);
    memcpy(room + KV_PAGE * n, packed_scales(from, n, 1), 2 * KV_PAGE * sizeof(float));
    return room;
}

/* The same as numbers, [head_dim][KV_PAGE]. */
static void widen(enum kv_type t, const char *keys, const struct kv_cache *cache, float *to)
{
    int n = cache->head_dim;
    if (t == KV_F32) memcpy(to, keys, (size_t)n * KV_PAGE * sizeof *to);
    for (int i = 0; t == KV_F16 && i < n * KV_PAGE; i++)
        to[i] = f32_from_f16(((const uint16_t *)keys)[i]);
    if (!kv_is_integer(t)) return;
    const float *scale = latent_scales(keys, n);
    for (int d = 0; d < n; d++) {
        const float *s = scale + (d >= cache->value_dim ? KV_PAGE : 0);
        for (int i = 0; i < KV_PAGE; i++)
            to[d * KV_PAGE + i] = (float)((uint8_t)keys[key_at(d, i)] - KEY_BIAS) * s[i];
    }
}

/* ---- scores */

/* Neighbouring rows of a sequence, which read its pages alike. */
struct run {
    int row, n_rows, seq; /* of the batch */
    int at;               /* number of the first row in the round */
    int task;             /* number of its first task */
};

struct choose_job {
    const struct call *t;
    struct chosen_scratch *s;
    const float *q, *w; /* [rows][n_heads][head_dim], [rows][n_heads] */
    int32_t *out;       /* [rows][top_k] */
    struct heads heads;
    int kv, top_k;
    struct run run[ROUND_ROWS];
    int n_runs, n_rows, n_tasks, row[ROUND_ROWS];
};

/* The scores of some pages for the rows of a run. */
static void score_task(void *arg, int task, int thread)
{
    const struct choose_job *j = arg;
    const struct cpu *c = j->t->c;
    const struct batch *b = c->batch;
    const struct run *r = j->run + j->n_runs - 1;
    const struct kv_cache *cache = &j->t->p->plan->kv[j->kv];
    while (task < r->task) r--;
    int last = b->pos[r->row + r->n_rows - 1] / KV_PAGE, hd = j->heads.head_dim,
        heads = j->heads.n_heads, first = (task - r->task) * TASK_PAGES,
        end = first + TASK_PAGES < last + 1 ? first + TASK_PAGES : last + 1;
    char *scratch = c->scratch + (size_t)thread * c->scratch_bytes;
    float *wide = (float *)scratch;
    for (int page = first; page < end; page++) {
        int skip = 0; /* rows before the page */
        while (b->pos[r->row + skip] < page * KV_PAGE) skip++;
        size_t row = (size_t)(r->row + skip);
        const char *keys = keys_of(j->t, j->kv, r->seq, b->pos[row], page,
                                   scratch + (size_t)hd * KV_PAGE * sizeof *wide);
        widen(c->config.kv, keys, cache, wide);
        c->kernels->states->choose(&(struct choose_task){
            .q = j->q + row * (size_t)(heads * hd),
            .w = j->w + row * (size_t)heads,
            .keys = wide,
            .score = j->s->score + (size_t)(r->at + skip) * j->s->positions +
                     (size_t)page * KV_PAGE,
            .stride = j->s->positions,
            .rows = r->n_rows - skip,
            .n_heads = heads,
            .head_dim = hd,
        });
    }
}

/* ---- choice */

/* An integer in the order of scores: NaN is 0, the zeros are equal. */
static uint32_t rank_of(float x)
{
    uint32_t bits = f32_bits(x == 0 ? 0 : x);
    if (x != x) return 0;
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

/* The largest rank that `top` of x [n] reach; *above: how many are above it. top <= n */
static uint32_t least_rank(const float *x, int n, int top, int *above)
{
    uint32_t prefix = 0, mask = 0;
    *above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) { /* byte by byte, the highest first */
        int count[256] = {0}, byte = 255;
        for (int i = 0; i < n; i++) {
            uint32_t rank = rank_of(x[i]);
            if ((rank & mask) == prefix) count[rank >> shift & 255]++;
        }
        for (; *above + count[byte] < top; byte--) *above += count[byte];
        prefix |= (uint32_t)byte << shift;
        mask |= 255u << shift;
    }
    return prefix;
}

static void choice_task(void *arg, int task, int thread)
{
    const struct choose_job *j = arg;
    const float *x = j->s->score + (size_t)task * j->s->positions;
    int n = j->t->c->batch->pos[j->row[task]] + 1, above, k = 0;
    int32_t *to = j->out + (size_t)j->row[task] * (size_t)j->top_k;
    (void)thread;
    uint32_t least = least_rank(x, n, j->top_k, &above);
    int equal = j->top_k - above;
    for (int i = 0; i < n && k < j->top_k; i++) {
        uint32_t rank = rank_of(x[i]);
        if (rank > least || (rank == least && equal-- > 0)) to[k++] = i;
    }
}

/* Adds a row to the round. */
static void take_row(struct choose_job *j, int row)
{
    const struct batch *b = j->t->c->batch;
    struct run *r = j->run + (j->n_runs ? j->n_runs - 1 : 0);
    int open = kv_has_open(j->t->c->config.kv),
        joins = j->n_runs && r->seq == b->seq[row] && r->row + r->n_rows == row &&
                (!open || b->pos[r->row] / KV_PAGE == b->pos[row] / KV_PAGE);
    if (!joins) {
        r = &j->run[j->n_runs++];
        *r = (struct run){.row = row, .seq = b->seq[row], .at = j->n_rows};
    }
    r->n_rows++;
    j->row[j->n_rows++] = row;
}

static void run_round(struct choose_job *j)
{
    const struct batch *b = j->t->c->batch;
    struct pool *pool = j->t->c->pool;
    j->n_tasks = 0;
    for (struct run *r = j->run; r < j->run + j->n_runs; r++) {
        int pages = b->pos[r->row + r->n_rows - 1] / KV_PAGE + 1;
        r->task = j->n_tasks;
        j->n_tasks += (pages + TASK_PAGES - 1) / TASK_PAGES;
    }
    if (j->n_rows) {
        pool_run(pool, j->n_tasks, score_task, j);
        pool_run(pool, j->n_rows, choice_task, j);
    }
    j->n_runs = j->n_rows = 0;
}

void cpu_run_choose(const struct call *t)
{
    const struct op *op = t->op;
    const struct batch *b = t->c->batch;
    struct choose_job j = {
        .t = t,
        .s = t->c->chosen,
        .q = in_of(t, 0),
        .w = in_of(t, 1),
        .out = out_of(t, 0),
        .heads = op->as.choose.heads,
        .kv = op->as.choose.kv,
        .top_k = op->as.choose.top_k,
    };
    for (int row = 0; row < b->n_rows; row++) {
        if (b->pos[row] < j.top_k) continue;
        take_row(&j, row);
        if (j.n_rows == ROUND_ROWS) run_round(&j);
    }
    run_round(&j);
}

/* ---- the chosen keys of a row */

static void copy_key(enum kv_type t, int head_dim, const char *from, int at, char *to, int i)
{
    int words = kv_padded(KV_INT8, head_dim) / 4;
    if (t == KV_F16)
        for (int d = 0; d < head_dim; d++)
            ((uint16_t *)to)[d * KV_PAGE + i] = ((const uint16_t *)from)[d * KV_PAGE + at];
    if (t == KV_F32)
        for (int d = 0; d < head_dim; d++)
            ((float *)to)[d * KV_PAGE + i] = ((const float *)from)[d * KV_PAGE + at];
    if (!kv_is_integer(t)) return;
    for (int d = 0; d < words; d++) /* four elements each */
        ((uint32_t *)to)[d * KV_PAGE + i] = ((const uint32_t *)from)[d * KV_PAGE + at];
    float *scale = (float *)latent_scales(to, head_dim);
    for (int part = 0; part < 2; part++)
        scale[part * KV_PAGE + i] = latent_scales(from, head_dim)[part * KV_PAGE + at];
}

struct chosen_keys cpu_chosen_keys(const struct call *t, int row, int thread)
{
    const struct op *op = t->op;
    const struct cpu *c = t->c;
    const struct batch *b = c->batch;
    struct chosen_scratch *s = c->chosen;
    int hd = op->as.attend.heads.head_dim, kv = op->as.attend.kv, n = op->as.attend.chosen;
    const int32_t *chosen = (const int32_t *)in_of(t, 1) + (size_t)row * (size_t)n;
    size_t bytes = page_bytes(c->config.kv, hd);
    char *to = s->keys + (size_t)thread * s->key_bytes,
         *room = c->scratch + (size_t)thread * c->scratch_bytes;
    const char *from = NULL;
    for (int i = 0, page = -1; i < n; i++) {
        if (chosen[i] / KV_PAGE != page) {
            page = chosen[i] / KV_PAGE;
            from = keys_of(t, kv, b->seq[row], b->pos[row], page, room);
        }
        copy_key(c->config.kv, hd, from, chosen[i] % KV_PAGE, to + (size_t)(i / KV_PAGE) * bytes,
                 i % KV_PAGE);
    }
    return (struct chosen_keys){to, bytes, s->page};
}
