#include "backend-hip/hip_args.h"

#include "core/step/kv_open.h"

#include <math.h>

struct linear_part hip_part_of(const struct be_linear *w, float *d_y, int first)
{
    struct linear_part p = {.weight = w->d_weight,
                            .meta = w->d_meta,
                            .bias = w->d_bias,
                            .maps = w->d_maps,
                            .y = d_y,
                            .out = w->out,
                            .first = first,
                            .group_chunks = w->group_chunks,
                            .group_shift = w->group_shift,
                            .last_group = w->n_groups - 1,
                            .scale_f32 = w->scale_f32,
                            .whole_items = w->group_chunks % 4 == 0,
                            .next_weight = w->weight_bytes,
                            .next_meta = w->meta_bytes};
    if (!w->dense)
        p.group_magic =
            (unsigned)(((1u << 31) + (unsigned)w->group_chunks - 1) / (unsigned)w->group_chunks);
    return p;
}

struct norm_args hip_norm_args(const struct hip *h, const struct be_plan *p, int op)
{
    int added = hip_single(h) && op > 0 && p->linears[op - 1].adds;
    return (struct norm_args){.x = hip_in(p, op, 0),
                              .delta = added ? NULL : hip_in(p, op, 1),
                              .weight = hip_vector(p, op, 0),
                              .out = hip_out(p, op, 0),
                              .eps = hip_op(p, op)->as.norm.eps,
                              .dim = hip_width(p, op)};
}

struct angles_args hip_angles_args(const struct hip *h, const struct be_plan *p, int op)
{
    return (struct angles_args){.pos = h->shape.d_pos,
                                .inv_freq = hip_vector(p, op, 0),
                                .cos = hip_out(p, op, 0),
                                .sin = hip_out(p, op, 1),
                                .scale = hip_op(p, op)->as.angles.scale,
                                .rows = h->shape.n_rows,
                                .half = hip_op(p, op)->as.angles.pairs};
}

struct add_args hip_add_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int of_step = p->plan->buffer[o->in[0]].rows == ROWS_STEP;
    return (struct add_args){.x = hip_in(p, op, 0),
                             .delta = hip_in(p, op, 1),
                             .gate = hip_in(p, op, 2),
                             .pos = h->shape.d_pos,
                             .row = of_step ? NULL : h->shape.d_logit_row,
                             .dim = hip_width(p, op),
                             .original = o->as.add.original,
                             .first = o->as.add.first,
                             .scale = o->as.add.scale != 0 ? o->as.add.scale : 1,
                             .beta = o->as.add.beta};
}

struct glu_any_args hip_glu_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int n_decode, rows = hip_rows(h, p, o->in[0], &n_decode);
    return (struct glu_any_args){.gate = hip_in(p, op, 0),
                                 .up = hip_in(p, op, 1),
                                 .n = (size_t)rows * (size_t)hip_width(p, op),
                                 .activation = (int)o->as.glu.activation,
                                 .limit = o->as.glu.limit,
                                 .alpha = o->as.glu.alpha,
                                 .p = o->as.glu.xielu.p,
                                 .n_below = o->as.glu.xielu.n,
                                 .beta = o->as.glu.xielu.beta,
                                 .eps = o->as.glu.xielu.eps};
}

struct open_pages hip_open_pages(const struct hip *h, const struct be_plan *p, int kv, int set)
{
    if (!kv_has_open(h->config.kv) || kv < 0) return (struct open_pages){0};
    return (struct open_pages){.seats = p->memory->seat[kv],
                               .steps = (char *)h->d_step_pages + (size_t)set * p->step_set_bytes,
                               .own = h->shape.d_own};
}

struct rope_kernel_args hip_rope_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct heads *g = &hip_op(p, op)->as.rope.heads;
    const float *q_norm = hip_vector(p, op, 0), *k_norm = hip_vector(p, op, 1);
    int stores = hip_op(p, op)->in[1] >= 0;
    enum kv_type kv = hip_op(p, op)->as.rope.ahead ? KV_F16 : h->config.kv; /* no more than that */
    return (struct rope_kernel_args){
        .q = hip_in(p, op, 0),
        .k = hip_in(p, op, 1),
        .v = hip_in(p, op, 2),
        .q_norm = q_norm,
        .k_norm = k_norm,
        .cos = hip_in(p, op, 3),
        .sin = hip_in(p, op, 4),
        .slot = h->shape.d_slot,
        .pages = stores ? p->memory->kv[hip_op(p, op)->as.rope.kv] : NULL,
        .open = hip_open_pages(h, p, stores ? hip_op(p, op)->as.rope.kv : -1,
                               hip_op(p, op)->as.rope.step_set),
        .eps = hip_op(p, op)->as.rope.eps,
        .n_heads = g->n_heads,
        .n_kv_heads = stores ? g->n_kv_heads : 0,
        .head_dim = g->head_dim,
        .kv = (int)kv,
        .in_octets = !q_norm && !k_norm && g->head_dim % 16 == 0,
    };
}

struct rope_kernel_args hip_rope_from(const struct rope_kernel_args *all, int row)
{
    struct rope_kernel_args a = *all;
    size_t at = (size_t)row, kv = at * (size_t)(a.n_kv_heads * a.head_dim),
           half = at * (size_t)(a.head_dim / 2);
    a.q += at * (size_t)(a.n_heads * a.head_dim);
    if (a.k) a.k += kv, a.v += kv;
    a.cos += half;
    a.sin += half;
    a.slot += at;
    if (a.open.own) a.open.own += at;
    return a;
}

struct attend_kernel_args hip_attend_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.attend.heads;
    return (struct attend_kernel_args){
        .q = hip_in(p, op, 0),
        .pages = p->memory->kv[o->as.attend.kv],
        .out = hip_out(p, op, 0),
        .pos = h->shape.d_pos,
        .seq = h->shape.d_seq,
        .table = h->shape.d_table,
        .sinks = hip_vector(p, op, 0),
        .scale = o->as.attend.scale,
        .softcap = o->as.attend.softcap,
        .table_stride = h->shape.table_stride,
        .window = o->as.attend.window,
        .n_heads = g->n_heads,
        .n_kv_heads = g->n_kv_heads,
        .head_dim = g->head_dim,
        .values = p->d_values ? p->d_values + (size_t)o->as.attend.kv * CUDA_MAP_BYTES : NULL,
        /* integer pages are read with queries of two digits in f16, too */
        .digits = act_formats[h->config.act].digits == 1 ? 1 : 2,
        .exact = hip_is_exact(h),
        .open = hip_open_pages(h, p, o->as.attend.kv, o->as.attend.step_set),
        .bias = hip_vector(p, op, 1),
        .turns = hip_vector(p, op, 2),
        .bias_pairs = o->as.attend.bias_pairs,
    };
}

/* The arguments for rows from row `row` on. */
void hip_skip_rows(struct attend_kernel_args *a, size_t row)
{
    size_t q_row = (size_t)a->n_heads * (size_t)a->head_dim,
           kv_row = (size_t)a->n_kv_heads * (size_t)a->head_dim, half = (size_t)a->head_dim / 2;
    a->q += row * q_row;
    a->pos += row;
    a->seq += row;
    if (a->open.own) a->open.own += row;
    if (a->cos) a->cos += row * half, a->sin += row * half;
    if (a->k) a->k += row * kv_row, a->v += row * kv_row;
}

/* Has attention rotate and store decode rows. */
void hip_rotate_in(struct attend_kernel_args *a, const struct rope_kernel_args *rope)
{
    a->cos = rope->cos;
    a->sin = rope->sin;
    a->k = rope->k;
    a->v = rope->v;
    a->q_norm = rope->q_norm;
    a->k_norm = rope->k_norm;
    a->eps = rope->eps;
}

static struct state_rows state_rows(const struct hip *h, const struct be_plan *p, int state)
{
    const struct hip_shape *s = &h->shape;
    void *const *kept = p->memory->kept;
    CHECK(!s->d_kept || (kept && kept[state]));
    return (struct state_rows){.kept_of = s->d_kept,
                               .kept = s->d_kept ? kept[state] : NULL,
                               .kept_floats = p->plan->state[state].kept_bytes / sizeof(float),
                               .seq = s->d_seq,
                               .seq_start = s->d_seq_start,
                               .from = s->d_state_from,
                               .to = s->d_state_to,
                               .slots = p->memory->state[state],
                               .slot_floats = p->plan->state[state].bytes / sizeof(float)};
}

enum { MANY_ROWS = 128 }; /* so many prompt rows fill the device with CONV_ROWS for a thread */

struct conv_args hip_conv_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int rows = h->shape.n_rows, of_thread = rows - h->shape.n_decode >= MANY_ROWS ? CONV_ROWS : 1;
    return (struct conv_args){.state = state_rows(h, p, o->as.conv.state),
                              .x = hip_in(p, op, 0),
                              .weight = hip_vector(p, op, 0),
                              .bias = hip_vector(p, op, 1),
                              .out = hip_out(p, op, 0),
                              .linear = o->as.conv.linear,
                              .rows = rows,
                              .channels = o->as.conv.channels,
                              .width = o->as.conv.width,
                              .of_thread = of_thread};
}

struct delta_args hip_delta_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int nk = o->as.delta.key_heads, nv = o->as.delta.value_heads, dk = o->as.delta.key_dim,
        dv = o->as.delta.value_dim, keys = nk * dk, values = nv * dv, apart = o->in[3] >= 0,
        decays = delta_decays(o), steps = delta_steps(o);
    const float *q = hip_in(p, op, 0), *k = apart ? hip_in(p, op, 3) : q + keys;
    return (struct delta_args){.state = state_rows(h, p, o->as.delta.state),
                               .q = q,
                               .k = k,
                               .v = apart ? hip_in(p, op, 4) : k + keys,
                               .qk_stride = apart ? keys : 2 * keys + values,
                               .v_stride = apart ? values : 2 * keys + values,
                               .a = hip_in(p, op, 1),
                               .b = hip_in(p, op, 2),
                               .decay = hip_vector(p, op, 0),
                               .dt = hip_vector(p, op, 1),
                               .skip = hip_vector(p, op, 2),
                               .out = hip_out(p, op, 0),
                               .q_scale = 1 / sqrtf((float)dk),
                               .beta_scale = o->as.delta.beta_scale > 0 ? o->as.delta.beta_scale
                                                                        : 1,
                               .key_heads = nk,
                               .value_heads = nv,
                               .key_dim = dk,
                               .value_dim = dv,
                               .of_a = nv * (decays > steps ? decays : steps)};
}

struct route_args hip_route_args(const struct be_plan *p, int op)
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
                               .group_best = o->as.route.group_best,
                               .by_warp = o->as.route.n_experts <= WARP_EXPERTS &&
                                          o->as.route.top_k <= 32 && kept == groups &&
                                          (sigmoid || o->w[0] < 0),
                               .scale = o->as.route.scale != 0 ? o->as.route.scale : 1};
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
