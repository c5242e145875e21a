/* cpu_attend.c: OP_ATTEND, cut into tasks: rows of a sequence, heads, and chunks of positions where
 * a step has too few of both. Owns: how it is cut. Must not know: an instruction set. */
#include "backend-cpu/cpu_internal.h"
#include "core/step/kv_open.h"

#include <stdlib.h>

/* Parts that a thread takes of a step with long sequences, and the fewest chunks of one: more parts
 * balance the threads better, and each prepares its queries anew. */
enum { PARTS_PER_THREAD = 8, PART_CHUNKS = 2 };

/* Most floats that chunks are kept in between the tasks of an operation; untouched pages of it cost
 * nothing. */
enum { KEPT_FLOATS = 4 << 20 };

/* Whether a sequence may have so many chunks that cut() gives it several parts. */
static int may_cut(const struct cpu *c)
{
    return pool_n_threads(c->pool) > 1 &&
           c->config.max_pages > PART_CHUNKS * (ATTEND_CHUNK / KV_PAGE);
}

int cpu_attend_open(struct cpu *c, struct err *e)
{
    size_t rows = (size_t)c->config.max_rows, threads = (size_t)pool_n_threads(c->pool);
    c->blocks = malloc(rows * sizeof *c->blocks);
    c->parts = malloc((rows + PARTS_PER_THREAD * threads) * sizeof *c->parts);
    if (may_cut(c)) c->kept = malloc(KEPT_FLOATS * sizeof *c->kept);
    if (c->blocks && c->parts && (c->kept || !may_cut(c))) return 0;
    return err_memory_for(e, "out of memory for the CPU backend's scratch");
}

void cpu_attend_free(struct cpu *c)
{
    free(c->blocks);
    free(c->parts);
    free(c->kept);
}

/* Rows of all sequences, so that one pool_run serves a step of many short ones. chosen: rows from
 * this position on are left out; 0: none. */
static void cut_rows(struct cpu *c, int group, int chosen)
{
    const struct batch *b = c->batch;
    int most = ATTEND_QUERIES / (group < ATTEND_QUERIES ? group : ATTEND_QUERIES);
    c->n_blocks = 0;
    for (int s = 0; s < b->n_seqs; s++) {
        int end = b->seq_start[s + 1];
        while (chosen && end > b->seq_start[s] && b->pos[end - 1] >= chosen) end--;
        for (int row = b->seq_start[s], n; row < end; row += n) {
            int left = end - row;
            n = left < most ? left : most;
            if (kv_has_open(c->config.kv)) { /* the rows of a task have one page */
                int in_page = KV_PAGE - b->pos[row] % KV_PAGE;
                n = n < in_page ? n : in_page;
            }
            c->blocks[c->n_blocks++] = (struct attend_block){.row = row, .n_rows = n, .seq = s};
        }
    }
}

/* The chunks that the rows of a block see: block->chunk0 .. chunk1-1. */
static void see_chunks(const struct cpu *c, struct attend_block *block, int window)
{
    int pos = c->batch->pos[block->row], first = op_first_seen(pos, window);
    block->chunk0 = first / ATTEND_CHUNK;
    block->chunk1 = (pos + block->n_rows - 1) / ATTEND_CHUNK + 1;
}

/* Floats in which all heads of a block keep their chunks. */
static size_t kept_floats(const struct attend_block *block, const struct heads *g)
{
    return (size_t)(block->chunk1 - block->chunk0) * (size_t)(block->n_rows * g->n_heads) *
           (size_t)(2 + heads_value_dim(g));
}

/* Cuts the step into c->blocks, and those that see many chunks into several of c->parts. */
static void cut(struct cpu *c, const struct heads *g, int window, int chosen)
{
    int threads = pool_n_threads(c->pool);
    const struct heads *was = &c->cut_for;
    long all = 0;
    if (was->n_heads == g->n_heads && was->n_kv_heads == g->n_kv_heads &&
        was->head_dim == g->head_dim && was->value_dim == g->value_dim && c->cut_window == window &&
        c->cut_chosen == chosen)
        return;
    c->cut_for = *g;
    c->cut_window = window;
    c->cut_chosen = chosen;
    cut_rows(c, g->n_heads / g->n_kv_heads, chosen);
    for (int i = 0; i < c->n_blocks; i++) {
        see_chunks(c, &c->blocks[i], window);
        all += c->blocks[i].chunk1 - c->blocks[i].chunk0;
    }
    int tasks = (PARTS_PER_THREAD * threads + g->n_kv_heads - 1) / g->n_kv_heads,
        each = (int)((all + tasks - 1) / tasks);
    if (each < PART_CHUNKS) each = PART_CHUNKS;
    size_t kept = 0;
    c->n_parts = 0;
    for (int i = 0; i < c->n_blocks; i++) {
        struct attend_block *block = &c->blocks[i];
        size_t floats = kept_floats(block, g);
        int n = block->chunk1 - block->chunk0;
        block->cut = c->kept && c->kernels->merge && n > each && kept + floats <= KEPT_FLOATS;
        block->kept = kept;
        if (block->cut) kept += floats;
        for (int at = block->chunk0, more; at < block->chunk1; at += more) {
            more = block->cut && each < block->chunk1 - at ? each : block->chunk1 - at;
            c->parts[c->n_parts++] = (struct attend_part){i, at, at + more};
        }
    }
}

struct attend_job {
    const struct call *t;
    const struct cpu *c;
    const float *q; /* [rows][n_heads * head_dim] */
    float *out;     /* [rows][n_heads * value_dim] */
    const char *pages;
    size_t page_bytes;
    struct heads heads;
    int window, heads_per_task, head_tasks; /* query heads of one task; tasks of a KV head */
    float scale, softcap;
    const float *sinks;        /* [n_heads] or NULL */
    const float *bias, *turns; /* w1, w2 of the operation */
    int bias_pairs;
};

/* The task of a block for group number `of_heads` of its n_kv_heads * head_tasks groups of query
 * heads. */
static struct attend_task task_of(const struct attend_job *j, const struct attend_block *block,
                                  int of_heads)
{
    const struct cpu *c = j->c;
    const struct batch *b = c->batch;
    const struct heads *g = &j->heads;
    int kv_head = of_heads / j->head_tasks, group = g->n_heads / g->n_kv_heads,
        first = of_heads % j->head_tasks * j->heads_per_task, row = block->row,
        head = kv_head * group + first, value_dim = heads_value_dim(g);
    size_t at = (size_t)row * (size_t)g->n_heads + (size_t)head;
    struct attend_task t = {
        .q = j->q + at * (size_t)g->head_dim,
        .out = j->out + at * (size_t)value_dim,
        .row_stride = g->n_heads * g->head_dim,
        .out_stride = g->n_heads * value_dim,
        .n_rows = block->n_rows,
        .n_heads = group - first < j->heads_per_task ? group - first : j->heads_per_task,
        .pos0 = b->pos[row],
        .window = j->window,
        .head_dim = g->head_dim,
        .value_dim = value_dim,
        .latent = heads_are_latent(g),
        .scale = j->scale,
        .softcap = j->softcap,
        .sinks = j->sinks ? j->sinks + head : NULL,
        .bias = j->bias ? j->bias + (size_t)kv_head * (size_t)j->bias_pairs * KEY_BIAS_ROW : NULL,
        .turns = j->turns,
        .bias_pairs = j->bias_pairs,
        .kv = c->config.kv,
        .q_top = act_formats[c->config.act].query_top,
        .pages = j->pages + (size_t)kv_head * kv_head_bytes(c->config.kv, g->head_dim),
        .page_bytes = j->page_bytes,
        .table = b->block_table + (size_t)block->seq * (size_t)b->table_stride,
    };
    if (block->cut) {
        t.chunk0 = block->chunk0, t.chunk1 = block->chunk1;
        t.kept = c->kept + block->kept + kept_floats(block, g) / (size_t)g->n_heads * (size_t)head;
    }
    return t;
}

static float *scratch_of(const struct cpu *c, int thread)
{
    return (float *)(c->scratch + (size_t)thread * c->scratch_bytes);
}

static void attend_task_run(void *arg, int task, int thread)
{
    const struct attend_job *j = arg;
    const struct cpu *c = j->c;
    const struct heads *g = &j->heads;
    int per_part = g->n_kv_heads * j->head_tasks, of_heads = task % per_part;
    const struct attend_part *part = &c->parts[task / per_part];
    const struct attend_block *block = &c->blocks[part->block];
    struct attend_task t = task_of(j, block, of_heads);
    float *scratch = scratch_of(c, thread);
    if (block->cut) {
        t.kept += (size_t)(part->chunk0 - t.chunk0) * (size_t)(t.n_rows * t.n_heads) *
                  (size_t)(2 + t.value_dim);
        t.chunk0 = part->chunk0, t.chunk1 = part->chunk1;
    }
    t.unpacked = (char *)(scratch + attend_floats(g->head_dim));
    if (kv_has_open(t.kv)) {
        t.kv = KV_INT8;
        t.unpack = c->kernels->unpack;
        t.own = cpu_open_page(j->t, j->t->op->as.attend.kv, block->seq, t.pos0 / KV_PAGE) +
                (size_t)(of_heads / j->head_tasks) * kv_head_bytes(KV_INT8, g->head_dim);
    }
    c->kernels->attend(&t, scratch);
}

static void merge_task_run(void *arg, int task, int thread)
{
    const struct attend_job *j = arg;
    int per_block = j->heads.n_kv_heads * j->head_tasks;
    const struct attend_block *block = &j->c->blocks[task / per_block];
    if (!block->cut) return;
    struct attend_task t = task_of(j, block, task % per_block);
    j->c->kernels->merge(&t, scratch_of(j->c, thread));
}

/* ---- rows that see chosen positions alone, each by itself */

struct chosen_job {
    const struct attend_job *j;
    int parts; /* tasks of a row, with so many heads */
    int heads;
};

static void chosen_task_run(void *arg, int task, int thread)
{
    const struct chosen_job *x = arg;
    const struct attend_job *j = x->j;
    const struct cpu *c = j->c;
    const struct heads *g = &j->heads;
    int row = task / x->parts, chosen = j->t->op->as.attend.chosen,
        first = task % x->parts * x->heads,
        end = first + x->heads < g->n_heads ? first + x->heads : g->n_heads;
    if (c->batch->pos[row] < chosen || first >= end) return;
    const struct attend_block block = {.row = row, .n_rows = 1, .seq = c->batch->seq[row]};
    struct chosen_keys keys = cpu_chosen_keys(j->t, row, thread);
    struct attend_task t = task_of(j, &block, 0);
    float *scratch = scratch_of(c, thread), *out = t.out;
    const float *q = t.q;
    t.unpacked = (char *)(scratch + attend_floats(g->head_dim));
    if (kv_is_integer(t.kv)) t.kv = KV_INT8;
    t.pages = keys.pages, t.page_bytes = keys.page_bytes, t.table = keys.table;
    t.pos0 = chosen - 1;
    for (int h = first; h < end; h += t.n_heads) {
        t.n_heads = end - h < ATTEND_QUERIES ? end - h : ATTEND_QUERIES;
        t.q = q + (size_t)h * (size_t)g->head_dim;
        t.out = out + (size_t)h * (size_t)t.value_dim;
        c->kernels->attend(&t, scratch);
    }
}

static void attend_chosen(struct attend_job *j)
{
    const struct batch *b = j->c->batch;
    int chosen = j->t->op->as.attend.chosen, n = 0, threads = pool_n_threads(j->c->pool);
    j->head_tasks = 1, j->heads_per_task = j->heads.n_heads;
    for (int row = 0; row < b->n_rows; row++) n += b->pos[row] >= chosen;
    if (!n) return;
    struct chosen_job x = {.j = j, .parts = n < threads ? (threads + n - 1) / n : 1};
    x.heads = (j->heads.n_heads + x.parts - 1) / x.parts;
    pool_run(j->c->pool, b->n_rows * x.parts, chosen_task_run, &x);
}

void cpu_run_attend(const struct call *t)
{
    const struct heads *g = &t->op->as.attend.heads;
    struct cpu *c = t->c;
    int group = g->n_heads / g->n_kv_heads, kv = t->op->as.attend.kv;
    struct attend_job j = {
        .t = t,
        .c = c,
        .q = in_of(t, 0),
        .out = out_of(t, 0),
        .pages = t->p->memory->kv[kv],
        .page_bytes = cpu_kv_page_bytes(c->config.kv, &t->p->plan->kv[kv]),
        .heads = *g,
        .window = t->op->as.attend.window,
        .scale = t->op->as.attend.scale,
        .softcap = t->op->as.attend.softcap,
        .sinks = vector_of(t, 0),
        .bias = vector_of(t, 1),
        .turns = vector_of(t, 2),
        .bias_pairs = t->op->as.attend.bias_pairs,
    };
    CHECK(!j.bias_pairs || kv_is_integer(c->config.kv));
    CHECK(!t->op->as.attend.chosen || (heads_are_latent(g) && !j.window && !j.sinks));
    if (t->op->as.attend.chosen) attend_chosen(&j);
    cut(c, g, j.window, t->op->as.attend.chosen);
    int each_head = c->n_parts * g->n_kv_heads, threads = pool_n_threads(c->pool);
    j.heads_per_task = group < ATTEND_QUERIES ? group : ATTEND_QUERIES;
    /* too few tasks for all threads: a KV head's keys are read by several */
    while (j.heads_per_task > 1 &&
           each_head * (group + j.heads_per_task - 1) / j.heads_per_task < threads)
        j.heads_per_task = (j.heads_per_task + 1) / 2;
    j.head_tasks = (group + j.heads_per_task - 1) / j.heads_per_task;
    pool_run(c->pool, c->n_parts * g->n_kv_heads * j.head_tasks, attend_task_run, &j);
    if (c->n_parts > c->n_blocks)
        pool_run(c->pool, c->n_blocks * g->n_kv_heads * j.head_tasks, merge_task_run, &j);
}
