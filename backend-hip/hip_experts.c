/* hip_experts.c: mixtures of experts: choice of experts, linears of stacks, weighted sum. The slots
 * of a step (a row and one of its experts) are grouped by expert on the device, so that a step
 * launches the same grids whatever the experts are: as many tiles as there can be, of which blocks
 * without work leave at once. Bits: a kernel is chosen by phase and format; members of a family
 * differ in the rows of a tile only. Must not know: how a kernel computes. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_experts.h"
#include "backend-hip/hip_linear.h"
#include "backend-hip/hip_memory.h"

#include <limits.h>
#include <stdlib.h>

_Static_assert((int)MAX_EXPERTS >= (int)ROUTE_MAX_EXPERTS && (int)MAX_TOP_K >= (int)ROUTE_MAX_TOP,
               "kernels and core agree");

/* The largest tile of a phase (rows of the kernels of kernel_list.h); where groupings begin in
 * their scratch memory, behind the counter of norm_route.hip. */
enum { MAX_DECODE_TILE = 32, MAX_PREFILL_TILE = 128, GROUPS_FIRST = 4 };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Tiles of so many slots at most. */
static size_t most_tiles(size_t slots, size_t experts, size_t tile)
{
    return tile == 1 ? slots : slots / tile + smaller(experts, slots);
}

/* ---- scratch memory */
void hip_experts_need(const struct be_config *c, const struct step_plan *p,
                      size_t need[EXPERTS_SCRATCH])
{
    for (int i = 0; i < EXPERTS_SCRATCH; i++) need[i] = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind != OP_EXPERTS) continue;
        for (int j = 0; j < op->n; j++) {
            const struct linear *w = &p->weight[op->w[j]].linear;
            size_t slots = (size_t)c->max_rows * (size_t)op->as.experts.top_k,
                   some = smaller((size_t)w->stack, slots),
                   places = slots + some * (MAX_DECODE_TILE + MAX_PREFILL_TILE);
            size_t k = ((size_t)w->k + 4 * CHUNK - 1) / (4 * CHUNK) * (4 * CHUNK),
                   element = !w->codes           ? 6
                             : c->act == ACT_F16 ? 2
                                                 : 4;
            const size_t sizes[EXPERTS_SCRATCH] = {
                places * k * element, places * sizeof(float),
                (GROUPS_FIRST + slots + places + 2 * (slots + 2 * some) + 2) * sizeof(int)};
            for (int s = 0; s < EXPERTS_SCRATCH; s++)
                if (sizes[s] > need[s]) need[s] = sizes[s];
        }
    }
}

/* ---- the tiles of a phase */
/* The kernel whose tile holds the slots of most experts, with so many slots in all. */
const struct hip_kernel_row *hip_experts_kernel(const struct hip *h, enum linear_phase phase,
                                                const struct be_linear *w, size_t slots)
{
    const struct hip_kernel_row *best = NULL;
    int want = (int)((slots + slots / 2) / (size_t)w->stack);
    for (int k = 0; k < K_COUNT; k++) {
        const struct hip_kernel_row *v = &hip_kernels[k];
        if (!hip_linear_applies(h, (enum hip_kernel)k, FOR_EXPERTS, phase, w)) continue;
        if (!best ||
            (best->rows < want ? v->rows > best->rows : v->rows >= want && v->rows < best->rows))
            best = v;
    }
    CHECK(best);
    return best;
}

/* Lays out the slots of a phase in tiles; ints: room for its grouping. Returns what is left. */
static int *in_tiles(struct hip_slots *s, const int *id, size_t slots, size_t tile, int *ints)
{
    s->groups = (struct expert_groups){.id = id, .n_slots = (int)slots, .tile = (int)tile};
    if (!s->grouped) return ints;
    s->groups.place = ints;
    s->groups.slot = s->groups.place + slots;
    s->groups.expert = s->groups.slot + s->tiles * tile;
    s->groups.end = s->groups.expert + s->tiles;
    s->groups.n_tiles = s->groups.end + s->tiles;
    return s->groups.n_tiles + 1;
}

void hip_lay_out_slots(const struct hip *h, const struct be_plan *p, int op,
                       const struct be_linear *w, struct hip_slots of[2])
{
    int top_k = hip_op(p, op)->as.experts.top_k, n_decode,
        rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    const int *id = hip_expert_ids(h, p, op);
    int *ints = h->experts.d_groups + GROUPS_FIRST;
    size_t place0 = 0;
    for (int i = 0; i < 2; i++) {
        struct hip_slots *s = &of[i];
        *s = (struct hip_slots){.phase = i ? PHASE_PREFILL : PHASE_DECODE,
                                .row0 = i ? n_decode : 0,
                                .rows = i ? rows - n_decode : n_decode,
                                .place0 = place0};
        size_t slots = (size_t)s->rows * (size_t)top_k;
        if (!slots) continue;
        s->kernel = hip_experts_kernel(h, s->phase, w, slots);
        size_t tile = (size_t)s->kernel->rows;
        s->tiles = most_tiles(slots, (size_t)w->stack, tile);
        s->grouped = tile > 1 && !(s->kernel->gathers && s->rows == 1);
        if (!s->grouped) s->tiles = slots;
        place0 += s->tiles * tile;
        ints = in_tiles(s, id + (size_t)s->row0 * (size_t)top_k, slots, tile, ints);
    }
}

const int *hip_expert_ids(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    CHECK(o->in[1] >= 0 || h->experts.heads == o->as.experts.top_k);
    return o->in[1] >= 0 ? hip_in(p, op, 1) : h->experts.d_heads;
}

size_t hip_heads_bytes(const struct be_config *c, const struct step_plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++)
        if (p->op[i].kind == OP_EXPERTS && p->op[i].in[1] < 0) n = p->op[i].as.experts.top_k;
    return (size_t)c->max_rows * (size_t)n * sizeof(int);
}

int hip_reserve_heads(struct hip *h, const struct step_plan *p, struct err *e)
{
    int n = 0, rows = h->config.max_rows;
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind != OP_EXPERTS || op->in[1] >= 0) continue;
        if (n && n != op->as.experts.top_k)
            return err_set(e, "--backend hip: linears of heads whose number differs by layer");
        n = op->as.experts.top_k;
    }
    if (!n || n == h->experts.heads) return 0;
    size_t all = (size_t)rows * (size_t)n;
    int *ids = malloc(all * sizeof *ids);
    if (!ids) return err_memory(e);
    hip_free(&h->be, h->experts.d_heads);
    h->experts.heads = 0;
    h->experts.d_heads = hip_alloc(&h->be, all * sizeof *ids);
    for (size_t i = 0; i < all; i++) ids[i] = (int)(i % (size_t)n);
    if (h->experts.d_heads) {
        hip_upload(&h->be, h->experts.d_heads, ids, all * sizeof *ids);
        h->experts.heads = n;
    }
    free(ids);
    return h->experts.d_heads ? 0 : err_set(e, "out of memory on %s", h->device->name);
}

struct hip_grouping hip_grouping_of(const struct be_linear *w, const struct hip_slots of[2])
{
    struct hip_grouping g = {.n_experts = w->stack};
    for (int i = 0; i < 2; i++) {
        if (!of[i].grouped) continue;
        g.id[i] = of[i].groups.id;
        g.tile[i] = of[i].groups.tile;
    }
    return g;
}

/* Groups the slots unless the step has grouped the same ones by the same tiles before. */
static void group(struct hip *h, const struct be_linear *w, const struct hip_slots of[2])
{
    struct group_args a = {.n_experts = w->stack};
    struct hip_grouping g = hip_grouping_of(w, of), *last = &h->experts.grouping;
    for (int i = 0; i < 2; i++)
        if (of[i].grouped) a.phase[i] = of[i].groups;
    if ((!of[0].grouped && !of[1].grouped) ||
        (last->n_experts == g.n_experts && last->id[0] == g.id[0] && last->id[1] == g.id[1] &&
         last->tile[0] == g.tile[0] && last->tile[1] == g.tile[1]))
        return;
    *last = g;
    hip_launch(h, K_group_slots, (struct hip_blocks){(size_t)w->stack, 2, 1, 0}, &a, sizeof a);
}

size_t hip_group_slots(struct hip *h, const struct be_linear *w, const int *id, int slots, int tile,
                       struct expert_groups *groups)
{
    struct hip_slots of[2] = {{.grouped = 1}};
    of[0].tiles = most_tiles((size_t)slots, (size_t)w->stack, (size_t)tile);
    in_tiles(&of[0], id, (size_t)slots, (size_t)tile, h->experts.d_groups + GROUPS_FIRST);
    group(h, w, of);
    *groups = of[0].groups;
    return of[0].tiles;
}

void hip_forget_grouping(struct hip *h)
{
    h->experts.grouping = (struct hip_grouping){0};
    h->experts.routed = -1;
}

/* Bytes of an input: of halves, floats, or parts of a float. */
static size_t element_of(const struct hip *h, const struct be_linear *w,
                         const struct hip_kernel_row *v)
{
    if (v->phase == PHASE_BOTH) return w->kind == WEIGHT_F16 ? 4 : 6;
    return !w->dense && h->config.act == ACT_F16 ? 2 : 4;
}

static enum hip_kernel preparation_of(const struct hip *h, const struct be_linear *w,
                                      const struct hip_kernel_row *v)
{
    if (v->phase == PHASE_BOTH)
        return w->kind == WEIGHT_F16 ? K_slots_prepare_parts_f16 : K_slots_prepare_parts_bf16;
    return element_of(h, w, v) == 2 ? K_slots_prepare_f16 : K_slots_prepare_f32;
}

static void *packed_at(const struct hip *h, const struct be_linear *w, const struct hip_slots *s)
{
    return (char *)h->experts.d_packed +
           s->place0 * (size_t)w->n_chunks * CHUNK * element_of(h, w, s->kernel);
}

/* Slots whose prepared input is one row, where inputs are prepared by row. */
static int slots_of_row(const struct be_plan *p, int op, const struct be_linear *w)
{
    const struct op *o = hip_op(p, op);
    return o->as.experts.each || w->perm ? 1 : o->as.experts.top_k;
}

/* Whether a warp can gate and prepare the input of a slot. */
static int gates_by_warp(const struct hip *h, const struct be_linear *w,
                         const struct hip_kernel_row *v)
{
    return hip_has(h, K_slots_gate_f16) && preparation_of(h, w, v) == K_slots_prepare_f16 &&
           !w->perm && w->in % 4 == 0 && w->n_chunks * CHUNK <= MIX_INPUTS;
}

/* Prepares the inputs of a phase's slots, or rows. glu: the activation in the same launch, -1:
 * none. */
static void prepare(struct hip *h, const struct be_plan *p, int op, const struct be_linear *w,
                    const struct hip_slots *s, int glu)
{
    const struct op *o = hip_op(p, op);
    int top_k = o->as.experts.top_k, of_row = slots_of_row(p, op, w),
        by_row = s->kernel->gathers ? of_row : 1, copies = s->kernel->gathers ? 1 : of_row;
    size_t first = (size_t)s->row0 * (size_t)(o->as.experts.each ? top_k : 1) * (size_t)w->in;
    struct slot_prepare_args a = {.prepare = {.x = (const float *)hip_in(p, op, 0) + first,
                                              .perm = w->d_perm,
                                              .packed = packed_at(h, w, s),
                                              .scale = h->experts.d_scale + s->place0,
                                              .in = w->in,
                                              .k = w->k,
                                              .stride = w->n_chunks * CHUNK,
                                              .top = 14,
                                              .n_first = INT_MAX,
                                              .rounded = hip_rounds_parts(h),
                                              .first_tile = s->kernel->tile},
                                  .id = s->groups.id,
                                  .place = s->kernel->gathers ? NULL : s->groups.place,
                                  .top_k = o->as.experts.each || by_row > 1 ? 1 : top_k,
                                  .copies = copies};
    if (glu >= 0) {
        a.gate = (float *)hip_in(p, glu, 0) + first;
        a.up = (const float *)hip_in(p, glu, 1) + first;
        a.gelu = hip_op(p, glu)->as.glu.activation == ACTIVATION_GELU_TANH;
        a.keep = hip_op(p, glu)->last[0] != op || hip_n_together(h, p, op, 0) < o->n;
    }
    if (glu >= 0 && !a.keep && gates_by_warp(h, w, s->kernel)) {
        enum { OF_BLOCK = THREADS / 32 };
        a.n_slots = s->groups.n_slots;
        size_t blocks = ((size_t)a.n_slots + OF_BLOCK - 1) / OF_BLOCK,
               shared = OF_BLOCK * sizeof(float) * (size_t)a.prepare.stride;
        hip_launch(h, K_slots_gate_f16, (struct hip_blocks){blocks, 1, 1, (unsigned)shared}, &a,
                   sizeof a);
        return;
    }
    hip_launch_rows(h, preparation_of(h, w, s->kernel), s->groups.n_slots / by_row / copies, &a,
                    sizeof a);
}

/* Arguments for stacks first .. first + n - 1 of the operation on a phase's slots, by blocks of so
 * many outputs. */
static struct experts_args args_of(const struct hip *h, const struct be_plan *p, int op, int first,
                                   int n, const struct hip_slots *s, int outputs)
{
    const struct hip_kernel_row *v = s->kernel;
    const struct be_linear *w0 = hip_weight(p, op, first);
    int scaled = preparation_of(h, w0, v) != K_slots_prepare_f32;
    struct experts_args a = {.linear = {.x = packed_at(h, w0, s),
                                        .scale = scaled ? h->experts.d_scale + s->place0 : NULL,
                                        .n_parts = n,
                                        .rows = s->groups.n_slots,
                                        .n_chunks = w0->n_chunks,
                                        .slot = s->groups.slot},
                             .expert = s->groups.expert ? s->groups.expert : s->groups.id,
                             .end = s->groups.end,
                             .n_tiles = s->groups.n_tiles,
                             .top_k = slots_of_row(p, op, w0)};
    size_t slot0 = (size_t)s->row0 * (size_t)hip_op(p, op)->as.experts.top_k;
    for (int i = 0; i < n; i++) {
        const struct be_linear *w = hip_weight(p, op, first + i);
        float *y = (float *)hip_out(p, op, first + i) + slot0 * (size_t)w->out;
        a.linear.part[i] = hip_part_of(w, y, a.linear.n_blocks);
        a.linear.n_blocks += (w->out + outputs - 1) / outputs;
    }
    return a;
}

struct experts_args hip_experts_args(const struct hip *h, const struct be_plan *p, int op,
                                     const struct hip_slots *s, int outputs)
{
    return args_of(h, p, op, 0, hip_op(p, op)->n, s, outputs);
}

static struct hip_blocks blocks_of(const struct hip *h, const struct hip_kernel_row *v,
                                   const struct hip_slots *s, int n_blocks)
{
    struct hip_blocks blocks = {(size_t)n_blocks, s->tiles, 1, 0};
    if (v->persistent || v->op != FOR_EXPERTS) {
        size_t tasks = blocks.x * blocks.y,
               resident = v->blocks * (size_t)hip_stream_multiprocessors(h->stream);
        blocks.x = smaller(tasks, resident);
        blocks.y = 1;
    }
    return blocks;
}

static void launch(struct hip *h, const struct be_plan *p, int op, int first, int n,
                   const struct hip_slots *s)
{
    struct experts_args a = args_of(h, p, op, first, n, s, s->kernel->outputs);
    int waits = s->kernel->op == FOR_EXPERTS && s->kernel->gathers && s->grouped;
    a.early = waits && h->experts.grouping.waited;
    h->experts.grouping.waited |= waits;
    hip_launch(h, (enum hip_kernel)(s->kernel - hip_kernels),
               blocks_of(h, s->kernel, s, a.linear.n_blocks), &a, sizeof a);
}

void hip_experts(struct hip *h, const struct be_plan *p, int op, int glu)
{
    for (int first = 0, n; first < hip_op(p, op)->n; first += n) {
        const struct be_linear *w = hip_weight(p, op, first);
        struct hip_slots of[2];
        n = hip_n_together(h, p, op, first);
        hip_lay_out_slots(h, p, op, w, of);
        group(h, w, of);
        for (int i = 0; i < 2; i++) {
            if (!of[i].rows) continue;
            if (glu != EXPERTS_PREPARED || i || first)
                prepare(h, p, op, w, &of[i], first || glu < 0 ? -1 : glu);
            launch(h, p, op, first, n, &of[i]);
        }
    }
}

/* The choice of `rows` rows by warps. A block that has all of them also groups the slots of the
 * stacks that come next. */
static void route_warps(struct hip *h, const struct be_plan *p, int op,
                        const struct route_args *route, int rows)
{
    enum { OF_BLOCK = THREADS / 32 };
    struct route_warps_args a = {.route = *route};
    int next = op + 1 < p->plan->n_ops && hip_op(p, op + 1)->kind == OP_EXPERTS &&
               hip_op(p, op + 1)->in[1] == hip_op(p, op)->out[0];
    a.route.rows = rows;
    if (next && rows <= OF_BLOCK) {
        const struct be_linear *w = hip_weight(p, op + 1, 0);
        struct hip_slots of[2];
        hip_lay_out_slots(h, p, op + 1, w, of);
        if (of[0].grouped && !of[1].rows && w->stack == a.route.n) {
            a.groups = of[0].groups;
            h->experts.grouping = hip_grouping_of(w, of);
        }
    }
    hip_launch_rows(h, K_route_warps, (rows + OF_BLOCK - 1) / OF_BLOCK, &a, sizeof a);
}

void hip_route(struct hip *h, const struct be_plan *p, int op)
{
    struct route_args a = hip_route_args(p, op);
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    hip_forget_grouping(h);
    if (!hip_is_exact(h) && a.by_warp && a.n <= SOME_EXPERTS && hip_has(h, K_route_warps)) {
        route_warps(h, p, op, &a, rows);
        return;
    }
    hip_launch_rows(h, hip_is_exact(h) ? K_exact_route : K_route_rows, rows, &a, sizeof a);
}

void hip_mix(struct hip *h, const struct be_plan *p, int op)
{
    struct mix_args a = hip_mix_args(h, p, op);
    if (hip_single(h) && p->linears[op].adds) {
        a.out = hip_in(p, op + 1, 0);
        a.add = 1;
    }
    hip_launch_elements(h, K_mix_slots, a.count, &a, sizeof a);
}
