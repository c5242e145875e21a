/* cpu.c: the table of the CPU backend. Owns: memory, scratch, compiled plans. A plan runs operation
 * by operation (cpu_ops.c), each to its end. */
#include "backend-cpu/cpu_internal.h"

#include "core/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Blocks remember their mapping in front of the data: munmap needs it. Anonymous pages cost nothing
 * until touched, which is what a large KV cache wants. Large blocks come in huge pages where the
 * system gives them, the rest behind the last whole one aside: a task writes a column of the
 * outputs of many rows, each on a page of its own, and keys and values lie scattered. */
enum { BLOCK_HEADER = 64, HUGE_PAGE = 2 << 20 };

struct mapping {
    char *start;
    size_t bytes;
};

/* Zeros. Blocks below a huge page are of the heap, and their header names no mapping: one for each
 * small block costs the kernel more than its use. */
static void *cpu_alloc(struct be *be, size_t bytes)
{
    (void)be;
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes += BLOCK_HEADER;
    size_t huge = bytes / HUGE_PAGE * HUGE_PAGE;
    if (!huge) {
        bytes = (bytes + BLOCK_HEADER - 1) / BLOCK_HEADER * BLOCK_HEADER;
        char *small = aligned_alloc(BLOCK_HEADER, bytes);
        return small ? (char *)memset(small, 0, bytes) + BLOCK_HEADER : NULL;
    }
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    struct mapping m = {p, bytes + HUGE_PAGE};
    p += -(uintptr_t)p % HUGE_PAGE;
    madvise(p, huge, MADV_HUGEPAGE); /* where the kernel knows it */
    memcpy(p, &m, sizeof m);
    return p + BLOCK_HEADER;
}

static void cpu_free(struct be *be, void *d)
{
    (void)be;
    if (!d) return;
    struct mapping m;
    memcpy(&m, (char *)d - BLOCK_HEADER, sizeof m);
    if (m.start) munmap(m.start, m.bytes);
    else free((char *)d - BLOCK_HEADER);
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

static void free_scratch(struct cpu *c)
{
    void **const d[] = {(void **)&c->packed,  (void **)&c->digit,   (void **)&c->act_scale,
                        (void **)&c->act_sum, (void **)&c->rotated, (void **)&c->delta,
                        (void **)&c->scratch, (void **)&c->strips};
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
        cpu_free(&c->be, *d[i]);
        *d[i] = NULL;
    }
}

static void cpu_close(struct be *be)
{
    struct cpu *c = (struct cpu *)be;
    if (!c) return;
    pool_close(c->pool);
    free_scratch(c);
    cpu_experts_free(c);
    cpu_open_free(c);
    cpu_attend_free(c);
    cpu_choose_free(c);
    free(c);
}

/* Sizes that the scratch of a plan depends on. */
struct scratch_need {
    int k, kv, head_dim; /* largest packed inputs, elements of a row of keys, head size */
    int latent;          /* some heads are latent */
    int delta, key_dim;  /* largest cpu_delta_floats, head size of OP_DELTA */
};

static struct scratch_need need_of(const struct step_plan *p)
{
    struct scratch_need n = {.k = step_plan_max_k(p)};
    for (int i = 0; i < p->n_kv; i++) {
        int dims = p->kv[i].n_kv_heads * p->kv[i].head_dim;
        if (dims > n.kv) n.kv = dims;
        if (p->kv[i].head_dim > n.head_dim) n.head_dim = p->kv[i].head_dim;
        n.latent |= kv_is_latent(&p->kv[i]);
    }
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind != OP_DELTA) continue;
        if (cpu_delta_floats(op) > n.delta) n.delta = cpu_delta_floats(op);
        if (op->as.delta.key_dim > n.key_dim) n.key_dim = op->as.delta.key_dim;
    }
    return n;
}

/* Bytes of scratch of one thread. */
static size_t thread_bytes(const struct scratch_need *n)
{
    size_t q4 = (size_t)CPU_PANELS * 16 * (CPU_SUBGROUP + CPU_ROW_TILE);
    size_t attend = attend_floats(n->head_dim) +
                    unpacked_bytes(n->head_dim, n->latent) / sizeof(float);
    size_t delta = 2 * (size_t)n->key_dim * DELTA_COLUMNS; /* S, decays of DELTA_SCAN */
    size_t codes = (size_t)CPU_PANELS * 32 * (size_t)n->k;
    size_t most = q4 > attend ? q4 : attend;
    if (most < delta) most = delta;
    _Static_assert((2 * CONV_WIDTH - 1) * CONV_CHANNELS <=
                       CPU_PANELS * 16 * (CPU_SUBGROUP + CPU_ROW_TILE),
                   "scratch of OP_CONV");
    return (most * sizeof(float) + codes + 4095) / 4096 * 4096;
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
static uint64_t cpu_scratch_bytes(const struct be_config *g, const struct step_plan *p)
{
    struct scratch_need n = need_of(p);
    return (uint64_t)g->max_rows * ((uint64_t)n.k + (uint64_t)n.kv + (uint64_t)n.delta) *
               sizeof(float) +
           cpu_experts_bytes(p, g->max_rows) + cpu_open_bytes(g, p) + cpu_choose_bytes(g, p);
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
    int n = config->n_threads > 0 ? config->n_threads : pool_n_cores();
    if (pool_open(&c->pool, n, e)) goto fail;
    if (config->numa && pool_spread(c->pool, config->numa, e)) goto fail;
    if (cpu_attend_open(c, e)) goto fail;
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

static struct pool *cpu_pool(const struct be *be) { return ((const struct cpu *)be)->pool; }

const char *cpu_variant_of(const struct be *be) { return ((const struct cpu *)be)->kernels->name; }

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

/* Scratch for plans of this size and smaller; pages that no operation touches cost nothing. */
static int grow_scratch(struct cpu *c, const struct step_plan *p, struct err *e)
{
    struct scratch_need n = need_of(p);
    size_t bytes = thread_bytes(&n), rows = (size_t)c->config.max_rows;
    if (c->scratch && n.k <= c->max_k && n.kv <= c->max_kv && n.delta <= c->max_delta &&
        bytes <= c->scratch_bytes)
        return 0;
    free_scratch(c);
    if (n.k > c->max_k) c->max_k = n.k;
    if (n.kv > c->max_kv) c->max_kv = n.kv;
    if (n.delta > c->max_delta) c->max_delta = n.delta;
    if (bytes > c->scratch_bytes) c->scratch_bytes = bytes;
    size_t inputs = rows * (size_t)c->max_k, groups = inputs / MF_GROUP_MULTIPLE + rows;
    c->packed = cpu_alloc(&c->be, inputs * sizeof(float));
    c->digit = cpu_alloc(&c->be, inputs * 2 + DIGIT_SLACK);
    c->act_scale = cpu_alloc(&c->be, groups * sizeof(float));
    c->act_sum = cpu_alloc(&c->be, groups * sizeof(int32_t));
    c->rotated = cpu_alloc(&c->be, rows * (size_t)c->max_kv * sizeof(float));
    c->delta = cpu_alloc(&c->be, rows * (size_t)c->max_delta * sizeof(float));
    c->scratch = cpu_alloc(&c->be, (size_t)pool_n_threads(c->pool) * c->scratch_bytes);
    c->strip_floats = 2 * STRIP_ROWS * CPU_PANELS * 16 + 16;
    c->strips = cpu_alloc(&c->be,
                          (size_t)pool_n_threads(c->pool) * c->strip_floats * sizeof(float));
    if (c->packed && c->digit && c->act_scale && c->act_sum && c->rotated && c->delta &&
        c->scratch && c->strips)
        return 0;
    free_scratch(c);
    return err_memory_for(e, "out of memory for the CPU backend's scratch");
}

static int check_heads(const struct op *op, struct err *e)
{
    const struct heads *h = op->kind == OP_ATTEND       ? &op->as.attend.heads
                            : op->kind == OP_ROPE_STORE ? &op->as.rope.heads
                            : op->kind == OP_CHOOSE     ? &op->as.choose.heads
                                                        : NULL;
    if (!h || heads_are_plain(h) || heads_are_latent(h)) return 0;
    return err_set(e, "--backend cpu: heads whose values or rotated parts have another size");
}

static int cpu_compile(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                       struct be_plan **out, struct err *e)
{
    for (int i = 0; i < p->n_ops; i++) {
        if (!(backend_cpu.kinds & 1u << p->op[i].kind))
            return err_set(e, "--backend cpu: has no operation '%s'", p->op[i].name);
        if (check_heads(&p->op[i], e) || cpu_states_check(&p->op[i], e)) return -1;
        if (cpu_experts_check(p, &p->op[i], e)) return -1;
    }
    if (grow_scratch((struct cpu *)be, p, e)) return -1;
    if (cpu_experts_grow((struct cpu *)be, p, e)) return -1;
    if (cpu_open_grow((struct cpu *)be, p, e)) return -1;
    if (cpu_choose_grow((struct cpu *)be, p, e)) return -1;
    *out = malloc(sizeof **out);
    if (!*out) return err_memory(e);
    **out = (struct be_plan){p, m};
    return 0;
}

static void cpu_drop_plan(struct be *be, struct be_plan *p)
{
    (void)be;
    free(p);
}

static void cpu_begin_step(struct be *be, const struct batch *b)
{
    struct cpu *c = (struct cpu *)be;
    CHECK(b->n_rows <= c->config.max_rows);
    c->batch = b;
    c->cut_for.n_heads = 0;
    cpu_open_step(c);
}

static void cpu_end_step(struct be *be) { (void)be; }

static int cpu_sync(struct be *be, struct err *e)
{
    (void)be, (void)e;
    return 0;
}

static void cpu_run(struct be *be, const struct be_plan *p)
{
    struct cpu *c = (struct cpu *)be;
    int n = c->batch->n_logits ? p->plan->n_ops : p->plan->n_body;
    cpu_run_ops(c, p, n);
}

const struct backend backend_cpu = {
    .name = "cpu",
    /* all logits are in the host's memory */
    .kinds = (1u << OP_KINDS) - 1 - (1u << OP_TOP) - (1u << OP_SCORE) - (1u << OP_SAMPLE) -
             (1u << OP_EXCHANGE),
    .kv_types = (1u << KV_TYPES) - 1,
    .keeps_drafts = 1,
    .available = cpu_available,
    .packed_bytes = cpu_packed_bytes,
    .scratch_bytes = cpu_scratch_bytes,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .pool = cpu_pool,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .view = cpu_view,
    .drop_view = cpu_drop_view,
    .upload = cpu_copy_in,
    .download = cpu_copy_out,
    .pack = cpu_pack,
    .drop = cpu_drop,
    .kv_page_bytes = cpu_kv_page_bytes,
    .compile = cpu_compile,
    .drop_plan = cpu_drop_plan,
    .begin_step = cpu_begin_step,
    .run = cpu_run,
    .end_step = cpu_end_step,
    .wait_step = cpu_sync,
    .sync = cpu_sync,
};
