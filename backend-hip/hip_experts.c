/* hip_experts.c: mixtures of experts: choice of experts, linears of stacks, weighted sum. The slots
 * of a step (a row and one of its experts) are grouped by expert on the device, so that a step
 * launches the same grids whatever the experts are: as many tiles as there can be, of which blocks
 * without work leave at once. Bits: a kernel is chosen by phase and format; members of a family
 * differ in the rows of a tile only. Must not know: how a kernel computes. */
#include "backend-hip/hip_plan.h"

#include <limits.h>

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
                   element = !w->codes ? 6 : c->act == ACT_F16 ? 2 : 4;
            const size_t sizes[EXPERTS_SCRATCH] = {
                places * k * element, places * sizeof(float),
                (GROUPS_FIRST + slots + places + 2 * (slots + 2 * some) + 2) * sizeof(int)};
            for (int s = 0; s < EXPERTS_SCRATCH; s++)
                if (sizes[s] > need[s]) need[s] = sizes[s];
        }
    }
}

/* ---- the tiles of a phase */
struct phase_slots {
    enum linear_phase phase;
    int row0, rows;
    int grouped;          /* 0: every slot is a tile */
    size_t place0, tiles; /* its first place; the largest number of tiles */
    const struct hip_kernel_row *v;
    struct expert_groups groups;
};

/* The kernel whose tile holds the slots of most experts, with so many slots in all. */
static const struct hip_kernel_row *choose(const struct hip *h, enum linear_phase phase,
                                           const struct be_linear *w, size_t slots)
{
    const struct hip_kernel_row *best = NULL;
    int want = (int)((slots + slots / 2) / (size_t)w->stack);
    for (int k = 0; k < K_COUNT; k++) {
        const struct hip_kernel_row *v = &hip_kernels[k];
        if (!hip_linear_applies(h, (enum hip_kernel)k, FOR_EXPERTS, phase, w)) continue;
        if (!best || (best->rows < want ? v->rows > best->rows
                                        : v->rows >= want && v->rows < best->rows))
            best = v;
    }
    CHECK(best);
    return best;
}

/* Lays out the slots of a phase in tiles; ints: room for its grouping. Returns what is left. */
static int *in_tiles(struct phase_slots *s, const int *id, size_t slots, size_t tile, int *ints)
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

/* Fills both phases for a stack; their groupings lie one behind the other in scratch. */
static void lay_out(const struct hip *h, const struct be_plan *p, int op, const struct be_linear *w,
                    struct phase_slots of[2])
{
    int top_k = hip_op(p, op)->as.experts.top_k, n_decode,
        rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    const int *id = hip_in(p, op, 1);
    int *ints = h->experts.d_groups + GROUPS_FIRST;
    size_t place0 = 0;
    for (int i = 0; i < 2; i++) {
        struct phase_slots *s = &of[i];
        *s = (struct phase_slots){.phase = i ? PHASE_PREFILL : PHASE_DECODE,
                                  .row0 = i ? n_decode : 0,
                                  .rows = i ? rows - n_decode : n_decode,
                                  .place0 = place0};
        size_t slots = (size_t)s->rows * (size_t)top_k;
        if (!slots) continue;
        s->v = choose(h, s->phase, w, slots);
        size_t tile = (size_t)s->v->rows;
        s->tiles = most_tiles(slots, (size_t)w->stack, tile);
        s->grouped = tile > 1 && !(s->v->gathers && s->rows == 1);
        if (!s->grouped) s->tiles = slots;
        place0 += s->tiles * tile;
        ints = in_tiles(s, id + (size_t)s->row0 * (size_t)top_k, slots, tile, ints);
    }
}

/* What a grouping is known by. */
static struct hip_grouping grouping_of(const struct be_linear *w, const struct phase_slots of[2])
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
static void group(struct hip *h, const struct be_linear *w, const struct phase_slots of[2])
{
    struct group_args a = {.n_experts = w->stack};
    struct hip_grouping g = grouping_of(w, of), *last = &h->experts.grouping;
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
    struct phase_slots of[2] = {{.grouped = 1}};
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

static void *packed_at(const struct hip *h, const struct be_linear *w, const struct phase_slots *s)
{
    return (char *)h->experts.d_packed +
           s->place0 * (size_t)w->n_chunks * CHUNK * element_of(h, w, s->v);
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
                    const struct phase_slots *s, int glu)
{
    const struct op *o = hip_op(p, op);
    int top_k = o->as.experts.top_k, of_row = slots_of_row(p, op, w),
        by_row = s->v->gathers ? of_row : 1, copies = s->v->gathers ? 1 : of_row;
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
                                              .first_tile = s->v->tile},
                                  .id = s->groups.id,
                                  .place = s->v->gathers ? NULL : s->groups.place,
                                  .top_k = o->as.experts.each || by_row > 1 ? 1 : top_k,
                                  .copies = copies};
    if (glu >= 0) {
        a.gate = (float *)hip_in(p, glu, 0) + first;
        a.up = (const float *)hip_in(p, glu, 1) + first;
        a.gelu = hip_op(p, glu)->as.glu.activation == ACTIVATION_GELU_TANH;
        a.keep = hip_op(p, glu)->last[0] != op || hip_n_together(h, p, op, 0) < o->n;
    }
    if (glu >= 0 && !a.keep && gates_by_warp(h, w, s->v)) {
        enum { OF_BLOCK = THREADS / 32 };
        a.n_slots = s->groups.n_slots;
        size_t blocks = ((size_t)a.n_slots + OF_BLOCK - 1) / OF_BLOCK,
               shared = OF_BLOCK * sizeof(float) * (size_t)a.prepare.stride;
        hip_launch(h, K_slots_gate_f16, (struct hip_blocks){blocks, 1, 1, (unsigned)shared}, &a,
                   sizeof a);
        return;
    }
    hip_launch_rows(h, preparation_of(h, w, s->v), s->groups.n_slots / by_row / copies, &a,
                    sizeof a);
}

/* Arguments for stacks first .. first + n - 1 of the operation on a phase's slots, by blocks of so
 * many outputs. */
static struct experts_args args_of(const struct hip *h, const struct be_plan *p, int op, int first,
                                   int n, const struct phase_slots *s, int outputs)
{
    const struct hip_kernel_row *v = s->v;
    const struct be_linear *w0 = hip_weight(p, op, first);
    int scaled = preparation_of(h, w0, v) != K_slots_prepare_f32;
    struct experts_args a = {
        .linear = {.x = packed_at(h, w0, s),
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

static struct hip_blocks blocks_of(const struct hip *h, const struct hip_kernel_row *v,
                                   const struct phase_slots *s, int n_blocks)
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
                   const struct phase_slots *s)
{
    struct experts_args a = args_of(h, p, op, first, n, s, s->v->outputs);
    int waits = s->v->op == FOR_EXPERTS && s->v->gathers && s->grouped;
    a.early = waits && h->experts.grouping.waited;
    h->experts.grouping.waited |= waits;
    hip_launch(h, (enum hip_kernel)(s->v - hip_kernels), blocks_of(h, s->v, s, a.linear.n_blocks),
               &a, sizeof a);
}

void hip_experts(struct hip *h, const struct be_plan *p, int op, int glu)
{
    for (int first = 0, n; first < hip_op(p, op)->n; first += n) {
        const struct be_linear *w = hip_weight(p, op, first);
        struct phase_slots of[2];
        n = hip_n_together(h, p, op, first);
        lay_out(h, p, op, w, of);
        group(h, w, of);
        for (int i = 0; i < 2; i++) {
            if (!of[i].rows) continue;
            if (glu != EXPERTS_PREPARED || i || first)
                prepare(h, p, op, w, &of[i], first || glu < 0 ? -1 : glu);
            launch(h, p, op, first, n, &of[i]);
        }
    }
}

/* ---- the router of a single row */
int hip_router_prepares(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    return !o->as.experts.each && hip_n_together(h, p, op, 0) == o->n &&
           choose(h, PHASE_DECODE, hip_weight(p, op, 0), (size_t)o->as.experts.top_k)->gathers &&
           !hip_weight(p, op, 0)->perm;
}

void hip_router(struct hip *h, const struct be_plan *p, int norm, int op, int experts)
{
    const struct op *o = hip_op(p, op);
    const struct be_linear *first = hip_weight(p, op, 0);
    struct norm_router_args a = {.norm = hip_norm_args(h, p, norm),
                                 .linear = {.n_parts = o->n, .n_chunks = first->n_chunks},
                                 .packed = h->experts.d_packed,
                                 .scale = h->experts.d_scale,
                                 .stride = hip_weight(p, experts, 0)->n_chunks * CHUNK};
    CHECK(o->n <= MAX_PARTS);
    for (int i = 0; i < o->n; i++) {
        a.linear.part[i] = hip_part_of(hip_weight(p, op, i), hip_out(p, op, i), a.linear.n_blocks);
        a.linear.n_blocks += (hip_weight(p, op, i)->out + PANEL - 1) / PANEL;
    }
    hip_launch_rows(h, first->kind == WEIGHT_F16 ? K_norm_router_f16 : K_norm_router_bf16,
                    2 * a.linear.n_blocks + 1, &a, sizeof a);
}

static struct route_args route_args_of(const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int groups = o->as.route.groups ? o->as.route.groups : 1,
        kept = o->as.route.groups ? o->as.route.kept_groups : 1,
        sigmoid = o->as.route.score == ROUTER_SIGMOID;
    return (struct route_args){.x = hip_in(p, op, 0),
                           .bias = hip_vector(p, op, 0),
                           .factor = hip_vector(p, op, 1),
                           .id = hip_out(p, op, 0),
                           .weight = hip_out(p, op, 1),
                           .n = o->as.route.n_experts,
                           .top_k = o->as.route.top_k,
                           .sigmoid = sigmoid,
                           .normalize = o->as.route.normalize,
                           .groups = groups,
                           .kept_groups = kept,
                           .by_warp = o->as.route.n_experts <= WARP_EXPERTS &&
                                      o->as.route.top_k <= 32 && kept == groups &&
                                      (sigmoid || o->w[0] < 0),
                           .scale = o->as.route.scale != 0 ? o->as.route.scale : 1};
}

void hip_route(struct hip *h, const struct be_plan *p, int op)
{
    struct route_args a = route_args_of(p, op);
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode);
    hip_forget_grouping(h);
    if (!hip_is_exact(h) && a.by_warp && a.n <= SOME_EXPERTS && hip_has(h, K_route_warps)) {
        enum { OF_BLOCK = THREADS / 32 };
        a.rows = rows;
        hip_launch_rows(h, K_route_warps, (rows + OF_BLOCK - 1) / OF_BLOCK, &a, sizeof a);
        return;
    }
    hip_launch_rows(h, hip_is_exact(h) ? K_exact_route : K_route_rows, rows, &a, sizeof a);
}

/* Rows of a block of norm_route.hip: two where the multiprocessors would have more than one block
 * each. */
static int norm_route_rows(const struct hip *h, int rows)
{
    return rows > hip_stream_multiprocessors(h->stream) ? ROUTE_ROWS : 1;
}

/* Bytes of its shared memory for these rows, a multiple of 16. */
static size_t norm_route_shared(const struct hip *h, const struct be_linear *router,
                                const struct phase_slots *s)
{
    size_t panels = ((size_t)router->out + PANEL - 1) / PANEL,
           stages = (size_t)router->n_chunks / 2, of_block = (size_t)norm_route_rows(h, s->rows),
           share = (stages + ROUTE_CLUSTER - 1) / ROUTE_CLUSTER,
           sums = of_block * stages * panels * PANEL * sizeof(float),
           parts = share * 2 * F16_PARTS(WEIGHT_BF16) * 2 * 32 * sizeof(uint64_t),
           normed = (size_t)router->in * sizeof(float), words = ((size_t)s->rows + 31) / 32,
           groups = ((size_t)router->out * 2 * words + 8) * sizeof(int),
           rows = (sums > normed ? sums : normed) + of_block * (parts + normed);
    return (rows > groups ? rows : groups + 15) / 16 * 16;
}

/* Whether one launch computes norm, router and choice: the step has decode rows alone. s: their
 * slots, in the stacks of `experts`. */
static int routes_together(const struct hip *h, const struct be_plan *p, int norm, int route,
                           const struct phase_slots of[2])
{
    const struct be_linear *w = hip_weight(p, norm + 1, 0);
    return h->pinned < 0 && of[0].rows && !of[1].rows && hip_op(p, norm + 1)->n == 1 &&
           hip_has(h, K_norm_route) && hip_stream_has_clusters(h->stream) &&
           (w->kind == WEIGHT_F16 || w->kind == WEIGHT_BF16) && hip_has_f16_parts(h, w) &&
           w->in == w->n_chunks * CHUNK && w->n_chunks % 2 == 0 && w->in <= ROUTER_INPUTS &&
           w->out == hip_op(p, route)->as.route.n_experts &&
           norm_route_shared(h, w, &of[0]) <= NORM_ROUTE_SHARED;
}

/* half, parts: packed NULL: none. 0: the experts are not chosen yet */
static int norm_route(struct hip *h, const struct be_plan *p, int norm, int route,
                       const struct phase_slots of[2], const struct prepare_args *half,
                       const struct prepare_args *parts)
{
    const struct be_linear *router = hip_weight(p, norm + 1, 0), *w = hip_weight(p, route + 1, 0);
    struct norm_route_args a = {
        .norm = hip_norm_args(h, p, norm),
        .linear = {.rows = of[0].rows, .n_chunks = router->n_chunks},
        .router = hip_part_of(router, hip_out(p, norm + 1, 0), 0),
        .half = *half,
        .parts = *parts,
        .route = route_args_of(p, route),
        .counter = h->experts.d_groups,
        .of_block = norm_route_rows(h, of[0].rows),
        .is_bf16 = router->kind == WEIGHT_BF16};
    hip_forget_grouping(h);
    if (a.route.by_warp && of[0].grouped && w->stack == router->out &&
        of[0].groups.n_slots <= NORM_ROUTE_SLOTS) {
        a.groups = of[0].groups;
        h->experts.grouping = grouping_of(w, of);
    }
    size_t of_cluster = (size_t)(ROUTE_CLUSTER * a.of_block),
           blocks = ((size_t)of[0].rows + of_cluster - 1) / of_cluster * ROUTE_CLUSTER;
    hip_launch(h, K_norm_route,
               (struct hip_blocks){blocks, 1, 1, norm_route_shared(h, router, &of[0])}, &a,
               sizeof a);
    return a.route.by_warp;
}

void hip_norm_route_experts(struct hip *h, const struct be_plan *p, int norm)
{
    int two = hip_op(p, norm + 2)->kind == OP_LINEAR, route = norm + 2 + two, experts = route + 1,
        alike = two && hip_linears_alike(p, norm + 1, norm + 2);
    const struct be_linear *w = hip_weight(p, experts, 0);
    struct phase_slots of[2];
    lay_out(h, p, experts, w, of);
    int takes = of[0].rows && of[0].v->gathers && !w->perm && !w->dense &&
                !hip_op(p, experts)->as.experts.each;
    struct prepare_args none = {0}, half = {.packed = h->experts.d_packed,
                                            .scale = h->experts.d_scale,
                                            .stride = w->n_chunks * CHUNK,
                                            .top = 14};
    int chosen = 0;
    if (routes_together(h, p, norm, route, of)) {
        struct prepare_args parts = alike ? hip_parts_args(h, p, norm + 2) : none;
        chosen = norm_route(h, p, norm, route, of, takes ? &half : &none, &parts);
    } else {
        hip_norm_parts(h, p, norm, norm + 1, &half, takes ? of[0].rows : 0);
    }
    if (alike) hip_linear_prepared(h, p, norm + 2);
    else if (two) hip_linear(h, p, norm + 2, -1);
    if (!chosen) hip_route(h, p, route);
    hip_experts(h, p, experts, takes ? EXPERTS_PREPARED : -1);
}

void hip_route_experts(struct hip *h, const struct be_plan *p, int op)
{
    const struct be_linear *w = hip_weight(p, op + 1, 0);
    struct phase_slots of[2];
    lay_out(h, p, op + 1, w, of);
    CHECK(!of[0].grouped && of[0].v->gathers);
    struct route_experts_args a = {.route = route_args_of(p, op)};
    if (of[0].v != &hip_kernels[K_q4_experts_mma_8] || !a.route.by_warp) {
        hip_route(h, p, op);
        hip_experts(h, p, op + 1, EXPERTS_PREPARED);
        return;
    }
    a.experts = args_of(h, p, op + 1, 0, hip_op(p, op + 1)->n, &of[0], PANEL);
    size_t tasks = of[0].tiles * (size_t)a.experts.linear.n_blocks,
           resident = EXPERTS_ROUTE_BLOCKS * (size_t)hip_stream_multiprocessors(h->stream);
    hip_forget_grouping(h);
    hip_launch_rows(h, K_q4_experts_route, (int)smaller(tasks + 1, resident), &a, sizeof a);
    h->experts.routed = op;
}

int hip_experts_mixes(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    const struct be_linear *w = hip_weight(p, op, 0);
    return h->pinned < 0 && h->config.act == ACT_F16 && hip_has(h, K_q4_experts_mix) && o->n == 1 &&
           o->as.experts.each && o->as.experts.top_k <= MIX_SLOTS && hip_is_plain(w) && !w->perm &&
           w->in % 4 == 0 && w->n_chunks * CHUNK <= MIX_INPUTS;
}

static struct experts_mix_args mix_args_of(const struct hip *h, const struct be_plan *p, int op)
{
    const struct be_linear *w = hip_weight(p, op, 0);
    int adds = p->linears[op + 1].adds;
    struct experts_mix_args a = {
        .experts = {.linear = {.n_parts = 1,
                               .n_chunks = w->n_chunks,
                               .n_blocks = (w->out + PANEL - 1) / PANEL},
                    .expert = hip_in(p, op, 1)},
        .gate = hip_in(p, op - 1, 0),
        .up = hip_in(p, op - 1, 1),
        .weight = hip_in(p, op + 1, 1),
        .in = w->in,
        .slots = hip_op(p, op)->as.experts.top_k,
        .gelu = hip_op(p, op - 1)->as.glu.activation == ACTIVATION_GELU_TANH,
        .add = adds};
    if (h->experts.routed == op - 3) a.route = route_args_of(p, op - 3);
    a.experts.linear.part[0] =
        hip_part_of(w, adds ? hip_in(p, op + 2, 0) : hip_out(p, op + 1, 0), 0);
    return a;
}

void hip_experts_mix(struct hip *h, const struct be_plan *p, int op)
{
    struct experts_mix_args a = mix_args_of(h, p, op);
    hip_launch_rows(h, K_q4_experts_mix, a.experts.linear.n_blocks, &a, sizeof a);
}

int hip_mixes_shared(const struct be_plan *p, int op)
{
    const struct be_linear *shared = hip_weight(p, op + 3, 0);
    return hip_dense_adds(p, op + 3, op + 4) && shared->in <= MIX_SHARED_INPUTS &&
           shared->out == hip_weight(p, op, 0)->out &&
           hip_op(p, op + 4)->in[0] == hip_op(p, op + 1)->out[0] &&
           hip_op(p, op + 1)->last[0] == op + 4;
}

void hip_experts_mix_shared(struct hip *h, const struct be_plan *p, int op)
{
    static const enum hip_kernel kernel[] = {[WEIGHT_F16] = K_q4_experts_mix_f16,
                                             [WEIGHT_BF16] = K_q4_experts_mix_bf16,
                                             [WEIGHT_I8] = K_q4_experts_mix_i8};
    const struct be_linear *shared = hip_weight(p, op + 3, 0);
    struct experts_mix_args a = mix_args_of(h, p, op);
    a.add = p->linears[op + 4].adds;
    a.experts.linear.part[0].y = a.add ? hip_in(p, op + 5, 0) : hip_out(p, op + 4, 0);
    a.shared = shared->d_weight;
    a.shared_bias = shared->d_bias;
    a.shared_gate = hip_in(p, op + 2, 0);
    a.shared_up = hip_in(p, op + 2, 1);
    a.gate_of_shared = hip_in(p, op + 4, 2);
    a.shared_chunks = shared->n_chunks;
    hip_launch_rows(h, kernel[shared->kind], a.experts.linear.n_blocks, &a, sizeof a);
}

struct mix_args hip_mix_args(const struct hip *h, const struct be_plan *p, int op)
{
    int n_decode, rows = hip_rows(h, p, hip_op(p, op)->in[0], &n_decode),
        top_k = hip_op(p, op)->as.mix.top_k, n = hip_width(p, op) / top_k;
    return (struct mix_args){.x = hip_in(p, op, 0),
                             .weight = hip_in(p, op, 1),
                             .out = hip_out(p, op, 0),
                             .count = (size_t)rows * (size_t)n,
                             .n = n,
                             .top_k = top_k};
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
