/* cpu.c: the backend table over the rungs: memory, scratch, how an operation is cut into tasks.
 * Must not know: what a kernel does inside a task. Operations run at once, so sync has nothing to
 * wait for. */
#include "backend-cpu/cpu.h"

#include "backend-cpu/cpu_math.h"
#include "backend-cpu/kernels.h"
#include "core/base/memory.h"
#include "core/model/modelfile.h"
#include "core/base/pool.h"
#include "core/sample/logits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct be_linear {
    struct linear w; /* read straight from the mapping: nothing is packed */
};

/* Rows of one sequence that one attend task takes. */
struct attend_block {
    int row, n_rows, seq;
};

struct cpu {
    struct be be;
    struct be_config config;
    const struct cpu_kernels *kernels;
    struct pool *pool;
    const struct batch *batch;
    float *packed;               /* [max_rows * max_k] activations as q4 wants them */
    int8_t *digit;               /* [max_rows * max_k * 2] the same as q4i wants them, with their */
    float *act_scale;            /* [max_rows * max_k / MF_GROUP_MULTIPLE] scales and */
    int32_t *act_sum;            /* [the same] sums */
    float *cos, *sin;            /* [max_rows][head_dim/2] of this step's positions */
    float *rotated;              /* [max_rows][n_kv_heads * head_dim] keys before they are stored */
    char *scratch;               /* [n_threads][scratch_bytes] */
    struct attend_block *blocks; /* [max_rows] of this step */
    int n_blocks;
    int heads_per_task, head_tasks; /* query heads of one attend task, and such tasks per KV head */
    size_t scratch_bytes;
    char description[224];
};

/* Blocks remember their mapping in front of the data: munmap needs it. Anonymous pages cost nothing
 * until touched, which is what a large KV cache wants. Large blocks come in huge pages where the
 * system gives them, the rest behind the last whole one aside: a task writes a column of the
 * outputs of many rows, each on a page of its own, and keys and values lie scattered. */
enum { BLOCK_HEADER = 64, HUGE_PAGE = 2 << 20 };

struct mapping {
    char *start;
    size_t bytes;
};

static void *cpu_alloc(struct be *be, size_t bytes)
{
    (void)be;
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes += BLOCK_HEADER;
    size_t huge = bytes / HUGE_PAGE * HUGE_PAGE, slack = huge ? HUGE_PAGE : 0;
    char *p = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    struct mapping m = {p, bytes + slack};
    if (huge) {
        p += -(uintptr_t)p % HUGE_PAGE;
        madvise(p, huge, MADV_HUGEPAGE); /* where the kernel knows it */
    }
    memcpy(p, &m, sizeof m);
    return p + BLOCK_HEADER;
}

static void cpu_free(struct be *be, void *d)
{
    (void)be;
    if (!d) return;
    struct mapping m;
    memcpy(&m, (char *)d - BLOCK_HEADER, sizeof m);
    munmap(m.start, m.bytes);
}

static void cpu_copy_in(struct be *be, void *d_dst, const void *src, size_t bytes)
{
    (void)be;
    memcpy(d_dst, src, bytes);
}

static void cpu_copy_out(struct be *be, void *dst, const void *d_src, size_t bytes)
{
    (void)be;
    if (dst != d_src) memcpy(dst, d_src, bytes);
}

static void *cpu_view(struct be *be, void *d, size_t bytes)
{
    (void)be, (void)bytes;
    return d;
}

static void cpu_drop_view(struct be *be, void *view) { (void)be, (void)view; }

static void cpu_close(struct be *be)
{
    struct cpu *c = (struct cpu *)be;
    if (!c) return;
    pool_close(c->pool);
    cpu_free(be, c->packed);
    cpu_free(be, c->digit);
    cpu_free(be, c->act_scale);
    cpu_free(be, c->act_sum);
    cpu_free(be, c->cos);
    cpu_free(be, c->sin);
    cpu_free(be, c->rotated);
    cpu_free(be, c->scratch);
    cpu_free(be, c->blocks);
    free(c);
}

static size_t scratch_size(const struct be_config *g)
{
    size_t q4 = (size_t)CPU_PANELS * 16 * (CPU_SUBGROUP + CPU_ROW_TILE);
    size_t attend = (size_t)ATTEND_QUERIES * (ATTEND_CHUNK + 4 * (size_t)g->head_dim);
    size_t codes = (size_t)CPU_PANELS * 32 * (size_t)g->max_k;
    return ((q4 > attend ? q4 : attend) * sizeof(float) + codes + 4095) / 4096 * 4096;
}

static int cpu_available(const struct be_config *g, uint64_t *bytes, struct err *e)
{
    (void)g, (void)e;
    *bytes = memory_available();
    return 0;
}

static uint64_t cpu_packed_bytes(const struct linear *w)
{
    (void)w;
    return 0;
}

/* Only what the chosen arithmetic touches counts, the largest of them here. */
static uint64_t cpu_scratch_bytes(const struct be_config *g)
{
    return (uint64_t)g->max_rows *
           ((uint64_t)g->max_k * sizeof(float) +
            (uint64_t)g->head_dim * (1 + (uint64_t)g->n_kv_heads) * sizeof(float));
}

static int cpu_open(struct be **out, const struct be_config *config, struct err *e)
{
    struct cpu *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e);
    c->be.ops = &backend_cpu;
    c->config = *config;
    char note[128];
    c->kernels = cpu_choose(cpu_ladder, config->variant ? config->variant : "auto", note,
                            sizeof note, e);
    if (!c->kernels) goto fail;
    int n = config->n_threads > 0 ? config->n_threads : pool_n_processors();
    if (pool_open(&c->pool, n, e)) goto fail;
    size_t rows = (size_t)config->max_rows, half = (size_t)config->head_dim / 2;
    c->scratch_bytes = scratch_size(config);
    size_t inputs =
        rows *
        (size_t)config->max_k; /* untouched pages of the arithmetic not chosen cost nothing */
    c->packed = cpu_alloc(&c->be, inputs * sizeof(float));
    c->digit = cpu_alloc(&c->be, inputs * 2 + DIGIT_SLACK);
    c->act_scale = cpu_alloc(&c->be, (inputs / MF_GROUP_MULTIPLE + rows) * sizeof(float));
    c->act_sum = cpu_alloc(&c->be, (inputs / MF_GROUP_MULTIPLE + rows) * sizeof(int32_t));
    c->cos = cpu_alloc(&c->be, rows * half * sizeof(float));
    c->sin = cpu_alloc(&c->be, rows * half * sizeof(float));
    c->rotated = cpu_alloc(&c->be, rows * (size_t)config->n_kv_heads * half * 2 * sizeof(float));
    c->scratch = cpu_alloc(&c->be, (size_t)n * c->scratch_bytes);
    c->blocks = cpu_alloc(&c->be, rows * sizeof *c->blocks);
    if (!c->packed || !c->digit || !c->act_scale || !c->act_sum || !c->cos || !c->sin ||
        !c->rotated || !c->scratch || !c->blocks) {
        err_memory_for(e, "out of memory for the CPU backend's scratch");
        goto fail;
    }
    snprintf(c->description, sizeof c->description, "cpu %s, %d thread%s%s", c->kernels->name, n,
             n == 1 ? "" : "s", note);
    *out = &c->be;
    return 0;
fail:
    cpu_close(&c->be);
    return -1;
}

static const char *cpu_describe(const struct be *be)
{
    return ((const struct cpu *)be)->description;
}

static int cpu_pack(struct be *be, const struct linear *w, struct be_linear **out, struct err *e)
{
    (void)be;
    *out = malloc(sizeof **out);
    if (!*out) return err_memory(e);
    (*out)->w = *w;
    return 0;
}

static void cpu_drop(struct be *be, struct be_linear *w)
{
    (void)be;
    free(w);
}

static size_t cpu_kv_page_bytes(const struct be *be)
{
    const struct be_config *g = &((const struct cpu *)be)->config;
    return (size_t)g->n_kv_heads * 2 * KV_PAGE * (size_t)g->head_dim * kv_bytes(g->kv);
}

static void angles_task(void *arg, int row, int thread)
{
    struct cpu *c = arg;
    (void)thread;
    int half = c->config.head_dim / 2;
    float *cosr = c->cos + (size_t)row * (size_t)half, *sinr = c->sin + (size_t)row * (size_t)half;
    for (int i = 0; i < half; i++) {
        /* fp32 product, as the models were trained with */
        cpu_sincos((float)c->batch->pos[row] * c->config.inv_freq[i], &sinr[i], &cosr[i]);
        cosr[i] *= c->config.rope_scale;
        sinr[i] *= c->config.rope_scale;
    }
}

/* All sequences are cut into blocks at once, so that one pool_run serves a step of many short ones.
 */
static void cut_blocks(struct cpu *c, const struct batch *b)
{
    int group = c->config.n_heads / c->config.n_kv_heads;
    c->heads_per_task = group < ATTEND_QUERIES ? group : ATTEND_QUERIES;
    c->head_tasks = (group + c->heads_per_task - 1) / c->heads_per_task;
    c->n_blocks = 0;
    for (int s = 0; s < b->n_seqs; s++)
        for (int row = b->seq_start[s], n; row < b->seq_start[s + 1]; row += n) {
            int left = b->seq_start[s + 1] - row, most = ATTEND_QUERIES / c->heads_per_task;
            n = left < most ? left : most;
            c->blocks[c->n_blocks++] = (struct attend_block){row, n, s};
        }
}

static void cpu_begin_step(struct be *be, const struct batch *b)
{
    struct cpu *c = (struct cpu *)be;
    CHECK(b->n_rows <= c->config.max_rows);
    c->batch = b;
    cut_blocks(c, b);
    pool_run(c->pool, b->n_rows, angles_task, c);
}

static void cpu_end_step(struct be *be) { (void)be; }

static int cpu_sync(struct be *be, struct err *e)
{
    (void)be, (void)e;
    return 0;
}

struct embed_job {
    const struct cpu *c;
    const struct linear *w;
    const int32_t *chosen;
    float *out;
};

static void embed_task(void *arg, int row, int thread)
{
    const struct embed_job *j = arg;
    (void)thread;
    int dim = j->w->in, id = j->c->batch->token[row];
    if (id < 0) id = j->chosen[-1 - id];
    size_t at = (size_t)(id < 0 ? 0 : id) * (size_t)dim;
    for (int i = 0; i < dim; i++)
        j->out[(size_t)row * (size_t)dim + (size_t)i] = f32_at(j->w->weight, j->w->weight_type,
                                                               at + (size_t)i);
}

static void cpu_embed(struct be *be, const struct be_linear *table, const int32_t *d_chosen,
                      float *d_out)
{
    struct cpu *c = (struct cpu *)be;
    struct embed_job j = {c, &table->w, d_chosen, d_out};
    pool_run(c->pool, c->batch->n_rows, embed_task, &j);
}

struct norm_job {
    const struct cpu_kernels *k;
    float *x, *out;
    const float *delta, *weight;
    float eps;
    int dim;
};

static void norm_task(void *arg, int row, int thread)
{
    const struct norm_job *j = arg;
    (void)thread;
    size_t at = (size_t)row * (size_t)j->dim;
    j->k->norm(j->x + at, j->delta ? j->delta + at : NULL, j->weight, j->eps, j->out + at, j->dim);
}

static void cpu_norm(struct be *be, float *d_x, const float *d_delta, const float *d_weight,
                     float eps, float *d_out, int rows, int dim)
{
    struct cpu *c = (struct cpu *)be;
    struct norm_job j = {c->kernels, d_x, d_out, d_delta, d_weight, eps, dim};
    pool_run(c->pool, rows, norm_task, &j);
}

/* Some linears of one input (already packed for the 4-bit ones) as one list of tasks. */
enum { MAX_FUSED = 4 };

struct linear_job {
    const struct cpu *c;
    const struct linear *w[MAX_FUSED];
    float *y[MAX_FUSED];
    const float *x;
    struct q4_digits digits; /* rows == 0: x holds the activations */
    int n, rows;
    int end[MAX_FUSED]; /* tasks of linears 0 .. i */
};

static int linear_tasks(const struct linear *w)
{
    int unit = w->codes ? CPU_PANELS * 16 : CPU_DENSE_ROWS;
    return (w->out + unit - 1) / unit;
}

/* Threads claim tasks in turns. Renumbered, each gets neighbours: what a kernel asks for beyond the
 * end of a task is then the beginning of the same thread's next one. Of n tasks the i-th to be
 * claimed. */
static int neighbours(int i, int n, int n_threads)
{
    int k = i % n_threads, each = n / n_threads, more = n % n_threads;
    return k * each + (k < more ? k : more) + i / n_threads;
}

static void linear_task(void *arg, int task, int thread)
{
    const struct linear_job *j = arg;
    int i = 0;
    task = neighbours(task, j->end[j->n - 1], pool_n_threads(j->c->pool));
    while (task >= j->end[i]) i++;
    if (i) task -= j->end[i - 1];
    const struct linear *w = j->w[i];
    if (w->codes) {
        int panels = (w->out + 15) / 16, p0 = task * CPU_PANELS,
            p1 = p0 + CPU_PANELS < panels ? p0 + CPU_PANELS : panels;
        float *scratch = (float *)(j->c->scratch + (size_t)thread * j->c->scratch_bytes);
        if (j->digits.rows) j->c->kernels->q4i(w, &j->digits, j->y[i], p0, p1, scratch);
        else j->c->kernels->q4(w, j->x, j->y[i], j->rows, p0, p1, scratch);
    } else {
        int n0 = task * CPU_DENSE_ROWS,
            n1 = n0 + CPU_DENSE_ROWS < w->out ? n0 + CPU_DENSE_ROWS : w->out;
        j->c->kernels->dense(w, j->x, j->y[i], j->rows, n0, n1);
    }
}

struct pack_job {
    const struct linear *w;
    const float *x;
    float *out;
    int rows, round_f16;
};

/* Powers of two whose product brings the largest magnitude of packed inputs into [2^14, 2^15), for
 * ACT_F16. In two steps, because one factor may be beyond fp32. */
struct two_factors {
    float a, b;
};

static struct two_factors f16_factors(const struct linear *w, const float *x)
{
    float largest = 0;
    int e;
    for (int j = 0; j < w->k; j++) {
        float v = !w->perm ? fabsf(x[j]) : w->perm[j] < 0 ? 0 : fabsf(x[w->perm[j]]);
        largest = v > largest ? v : largest;
    }
    frexpf(largest, &e);
    return (struct two_factors){ldexpf(1, (15 - e) / 2), ldexpf(1, 15 - e - (15 - e) / 2)};
}

/* One row of x into the order in which q4 wants it (kernels.h). */
static void pack_task(void *arg, int row, int thread)
{
    const struct pack_job *j = arg;
    (void)thread;
    const struct linear *w = j->w;
    const float *x = j->x + (size_t)row * (size_t)w->in;
    struct two_factors f = j->round_f16 ? f16_factors(w, x) : (struct two_factors){1, 1};
    for (int j0 = 0, j1; j0 < w->k; j0 = j1) {
        j1 = q4_next(w, j0);
        float *group = j->out + (size_t)j0 * (size_t)j->rows + (size_t)row * (size_t)(j1 - j0),
              *out = group;
        if (w->perm)
            for (int i = j0; i < j1; i++) *out++ = w->perm[i] < 0 ? 0 : x[w->perm[i]];
        else memcpy(out, x + j0, (size_t)(j1 - j0) * sizeof *out);
        if (j->round_f16)
            for (int i = 0; i < j1 - j0; i++)
                group[i] = f32_from_f16(f16_from_f32(group[i] * f.a * f.b)) / f.a / f.b;
    }
}

struct quantize_job {
    const struct linear *w;
    const float *x;
    const struct q4_digits *digits;
    const struct cpu_kernels *kernels;
};

static void quantize_task(void *arg, int row, int thread)
{
    const struct quantize_job *j = arg;
    (void)thread;
    j->kernels->quantize(j->w, j->x + (size_t)row * (size_t)j->w->in, row, j->digits);
}

/* 1 when the two can read the same packed activations. */
static int same_input(const struct linear *a, const struct linear *b)
{
    return !!a->codes == !!b->codes &&
           (!a->codes || (a->perm == b->perm && a->k == b->k && a->group == b->group));
}

/* The linears w[0 .. n-1] that read the same input, for rows that are few enough (cached_bytes in
 * kernels.h). */
static void linear_rows(struct cpu *c, struct linear_job *j)
{
    const struct linear *first = j->w[0];
    int integers = c->config.act == ACT_I16 || c->config.act == ACT_INT8;
    if (first->codes && integers) {
        j->digits = (struct q4_digits){j->rows, c->config.act == ACT_I16 ? 2 : 1, c->digit,
                                       c->act_scale, c->act_sum};
        struct quantize_job q = {first, j->x, &j->digits, c->kernels};
        pool_run(c->pool, j->rows, quantize_task, &q);
    } else if (first->codes && (first->perm || j->rows > 1 || c->config.act == ACT_F16)) {
        struct pack_job p = {first, j->x, c->packed, j->rows, c->config.act == ACT_F16};
        pool_run(c->pool, j->rows, pack_task, &p);
        j->x = c->packed;
    }
    pool_run(c->pool, j->end[j->n - 1], linear_task, j);
}

/* Rows that linears with this input take at a time. */
static int rows_at_once(const struct cpu *c, const struct linear *w, int rows)
{
    size_t each = c->config.act == ACT_I16 ? 2 : c->config.act == ACT_INT8 ? 1 : sizeof(float);
    size_t bytes = (size_t)rows * (size_t)w->k * each, most = c->kernels->cached_bytes;
    if (!w->codes || !most || bytes <= most) return rows;
    int parts = (int)((bytes + most - 1) / most);
    return ((rows + parts - 1) / parts + 15) / 16 * 16;
}

static void cpu_linear(struct be *be, int n, const struct be_linear *const w[], const float *d_x,
                       float *const d_y[], int rows, int n_decode)
{
    struct cpu *c = (struct cpu *)be;
    (void)n_decode; /* one arithmetic for both phases here */
    CHECK(rows <= c->config.max_rows && n <= MAX_FUSED);
    for (int i = 0, from; i < n;) {
        struct linear_job all = {.c = c};
        const struct linear *first = &w[i]->w;
        int tasks = 0, at_once = rows_at_once(c, first, rows);
        for (from = i; i < n && same_input(first, &w[i]->w); i++) {
            all.w[all.n] = &w[i]->w;
            all.end[all.n++] = tasks += linear_tasks(&w[i]->w);
        }
        for (int r = 0; r < rows; r += at_once) {
            struct linear_job j = all;
            j.rows = rows - r < at_once ? rows - r : at_once;
            j.x = d_x + (size_t)r * (size_t)first->in;
            for (int k = 0; k < j.n; k++) j.y[k] = d_y[from + k] + (size_t)r * (size_t)j.w[k]->out;
            linear_rows(c, &j);
        }
    }
}

struct rope_job {
    struct cpu *c;
    const struct rope_args *a;
};

static void store_page(const struct cpu *c, char *page, int offset, int head, const float *k,
                       const float *v)
{
    int hd = c->config.head_dim;
    enum kv_type t = c->config.kv;
    char *keys = page + (size_t)head * 2 * KV_PAGE * (size_t)hd * kv_bytes(t);
    if (t == KV_F16) {
        uint16_t *kd = (uint16_t *)keys, *vd = kd + hd * KV_PAGE + offset * hd;
        for (int d = 0; d < hd; d++)
            kd[d * KV_PAGE + offset] = f16_from_f32(k[d]), vd[d] = f16_from_f32(v[d]);
    } else {
        float *kd = (float *)keys, *vd = kd + hd * KV_PAGE + offset * hd;
        for (int d = 0; d < hd; d++) kd[d * KV_PAGE + offset] = k[d], vd[d] = v[d];
    }
}

static void rope_task(void *arg, int row, int thread)
{
    const struct rope_job *j = arg;
    (void)thread;
    struct cpu *c = j->c;
    const struct rope_args *a = j->a;
    const struct be_config *g = &c->config;
    size_t hd = (size_t)g->head_dim, kv_row = (size_t)g->n_kv_heads * hd;
    const float *cosr = c->cos + (size_t)row * hd / 2, *sinr = c->sin + (size_t)row * hd / 2;
    float *q = a->d_q + (size_t)row * (size_t)g->n_heads * hd,
          *k = c->rotated + (size_t)row * kv_row;
    const float *v = a->d_v + (size_t)row * kv_row;
    c->kernels->rope(q, q, g->n_heads, g->head_dim, a->d_q_norm, a->eps, cosr, sinr);
    c->kernels->rope(a->d_k + (size_t)row * kv_row, k, g->n_kv_heads, g->head_dim, a->d_k_norm,
                     a->eps, cosr, sinr);
    char *page = (char *)a->d_kv +
                 (size_t)(c->batch->slot[row] / KV_PAGE) * cpu_kv_page_bytes(&c->be);
    for (int h = 0; h < g->n_kv_heads; h++)
        store_page(c, page, c->batch->slot[row] % KV_PAGE, h, k + (size_t)h * hd,
                   v + (size_t)h * hd);
}

static void cpu_rope_store(struct be *be, const struct rope_args *a)
{
    struct cpu *c = (struct cpu *)be;
    struct rope_job j = {c, a};
    pool_run(c->pool, c->batch->n_rows, rope_task, &j);
}

struct attend_job {
    const struct cpu *c;
    const struct attend_args *a;
};

static void attend_task_run(void *arg, int task, int thread)
{
    const struct attend_job *j = arg;
    const struct cpu *c = j->c;
    const struct batch *b = c->batch;
    const struct be_config *g = &c->config;
    int per_block = g->n_kv_heads * c->head_tasks, kv_head = task % per_block / c->head_tasks,
        part = task % c->head_tasks;
    const struct attend_block *block = &c->blocks[task / per_block];
    int group = g->n_heads / g->n_kv_heads, first = part * c->heads_per_task, row = block->row,
        head = kv_head * group + first;
    size_t stride = (size_t)g->n_heads * (size_t)g->head_dim,
           at = (size_t)row * stride + (size_t)head * (size_t)g->head_dim;
    struct attend_task t = {
        .q = j->a->d_q + at,
        .out = j->a->d_out + at,
        .row_stride = (int)stride,
        .n_rows = block->n_rows,
        .n_heads = group - first < c->heads_per_task ? group - first : c->heads_per_task,
        .pos0 = b->pos[row],
        .window = j->a->window,
        .head_dim = g->head_dim,
        .scale = j->a->scale,
        .kv = g->kv,
        .pages = (const char *)j->a->d_kv +
                 (size_t)kv_head * 2 * KV_PAGE * (size_t)g->head_dim * kv_bytes(g->kv),
        .page_bytes = cpu_kv_page_bytes(&c->be),
        .table = b->block_table + (size_t)block->seq * (size_t)b->table_stride,
    };
    c->kernels->attend(&t, (float *)(c->scratch + (size_t)thread * c->scratch_bytes));
}

static void cpu_attend(struct be *be, const struct attend_args *a)
{
    struct cpu *c = (struct cpu *)be;
    struct attend_job j = {c, a};
    pool_run(c->pool, c->n_blocks * c->config.n_kv_heads * c->head_tasks, attend_task_run, &j);
}

enum { GLU_TASK = 16384 };

struct glu_job {
    const struct cpu_kernels *k;
    float *gate;
    const float *up;
    size_t n;
};

static void glu_task(void *arg, int task, int thread)
{
    const struct glu_job *j = arg;
    (void)thread;
    size_t at = (size_t)task * GLU_TASK;
    j->k->glu(j->gate + at, j->up + at, j->n - at < GLU_TASK ? j->n - at : GLU_TASK);
}

static void cpu_glu(struct be *be, float *d_gate, const float *d_up, size_t n)
{
    struct cpu *c = (struct cpu *)be;
    struct glu_job j = {c->kernels, d_gate, d_up, n};
    pool_run(c->pool, (int)((n + GLU_TASK - 1) / GLU_TASK), glu_task, &j);
}

static void cpu_gather(struct be *be, const float *d_x, float *d_out, int dim)
{
    const struct batch *b = ((struct cpu *)be)->batch;
    for (int i = 0; i < b->n_logits; i++)
        memcpy(d_out + (size_t)i * (size_t)dim, d_x + (size_t)b->logit_row[i] * (size_t)dim,
               (size_t)dim * sizeof *d_x);
}

struct argmax_job {
    const float *logits;
    int32_t *id;
    int vocab;
};

static void argmax_task(void *arg, int row, int thread)
{
    const struct argmax_job *j = arg;
    (void)thread;
    j->id[row] = logits_argmax(j->logits + (size_t)row * (size_t)j->vocab, j->vocab);
}

static void cpu_argmax(struct be *be, const float *d_logits, int32_t *d_id, int rows, int vocab)
{
    struct argmax_job j = {d_logits, d_id, vocab};
    pool_run(((struct cpu *)be)->pool, rows, argmax_task, &j);
}

const struct backend backend_cpu = {
    .name = "cpu",
    .available = cpu_available,
    .packed_bytes = cpu_packed_bytes,
    .scratch_bytes = cpu_scratch_bytes,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .view = cpu_view,
    .drop_view = cpu_drop_view,
    .upload = cpu_copy_in,
    .download = cpu_copy_out,
    .pack = cpu_pack,
    .drop = cpu_drop,
    .kv_page_bytes = cpu_kv_page_bytes,
    .begin_step = cpu_begin_step,
    .end_step = cpu_end_step,
    .wait_step = cpu_sync,
    .sync = cpu_sync,
    .embed = cpu_embed,
    .norm = cpu_norm,
    .linear = cpu_linear,
    .rope_store = cpu_rope_store,
    .attend = cpu_attend,
    .glu = cpu_glu,
    .gather = cpu_gather,
    .argmax = cpu_argmax,
};
