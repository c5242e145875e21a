/* hip_latent.c: launches for latent heads (kernels/common/latent.hip, in f16 over fp16 on sm_90a
 * hopper/attend_latent.hip). Decode rows, and all that see chosen positions alone: blocks of chunks
 * of positions, then the combination of the chunks. Must not know: linears. */
#include "backend-hip/hip_latent.h"

#include "backend-hip/hip_args.h"
#include "backend-hip/hip_attend.h"
#include "backend-hip/hip_splits.h"

size_t hip_latent_page_bytes(enum kv_type t, const struct kv_cache *kv)
{
    size_t d16 = ((size_t)kv->head_dim + 15) / 16 * 16;
    if (t == KV_INT8) return LATENT8_PAGE((size_t)kv->head_dim);
    if (t == KV_INT4) return LATENT4_PAGE((size_t)kv->head_dim);
    return PAGE * d16 * (t == KV_F32 ? 4 : 2);
}

int hip_check_latent(const struct heads *g, struct err *e)
{
    if (g->head_dim <= LATENT_DIMS && g->value_dim <= LATENT_VALUE && g->value_dim % 16 == 0)
        return 0;
    return err_set(e,
                   "--backend hip: latents of %d and %d elements; multiples of 16 up to %d, with "
                   "the rotated part up to %d, are supported",
                   g->value_dim, g->head_dim - g->value_dim, LATENT_VALUE, LATENT_DIMS);
}

void hip_latent_rope(struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.rope.heads;
    int joined = o->as.rope.joined;
    const float *key = hip_in(p, op, 2);
    const struct latent_rope_args a = {
        .q_latent = hip_in(p, op, 0),
        .q_rot = hip_in(p, op, 5),
        .key = key,
        .k_rot = joined ? key + g->value_dim : hip_in(p, op, 1),
        .q = hip_out(p, op, 0),
        .cos = hip_in(p, op, 3),
        .sin = hip_in(p, op, 4),
        .slot = h->shape.d_slot,
        .pages = p->memory->kv[o->as.rope.kv],
        .open = hip_open_pages(h, p, o->as.rope.kv, o->as.rope.step_set),
        .n_heads = g->n_heads,
        .latent = g->value_dim,
        .rotated = g->rotated,
        .kv = (int)h->config.kv,
        .key_stride = joined ? g->head_dim : g->value_dim,
        .rot_stride = joined ? g->head_dim : g->rotated,
    };
    hip_open_begin(h, p, op);
    hip_launch(h, K_rope_latent,
               (struct hip_blocks){(size_t)h->shape.n_rows, (size_t)g->n_heads + 1, 1, 0}, &a,
               sizeof a);
    hip_open_pack(h, p, op, 0, 0);
}

static struct latent_attend_args args_of(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.attend.heads;
    return (struct latent_attend_args){
        .q = hip_in(p, op, 0),
        .pages = p->memory->kv[o->as.attend.kv],
        .out = hip_out(p, op, 0),
        .pos = h->shape.d_pos,
        .seq = h->shape.d_seq,
        .table = h->shape.d_table,
        .open = hip_open_pages(h, p, o->as.attend.kv, o->as.attend.step_set),
        .scale = o->as.attend.scale,
        .table_stride = h->shape.table_stride,
        .window = o->as.attend.window,
        .n_heads = g->n_heads,
        .latent = g->value_dim,
        .rotated = g->rotated,
        .kv = (int)h->config.kv,
        /* integer pages are read with queries of two digits in f16, too */
        .digits = h->config.act == ACT_F32                 ? 0
                  : act_formats[h->config.act].digits == 1 ? 1
                                                           : 2,
        .chosen = hip_in(p, op, 1),
        .n_chosen = o->as.attend.chosen,
    };
}

/* Whether matrix units compute them. */
static int has_mma(const struct hip *h, const struct latent_attend_args *a)
{
    return h->config.act == ACT_F16 && h->config.kv == KV_F16 && !a->n_chosen &&
           hip_has(h, K_attend_latent_tile);
}

/* The arguments for rows from row `row` on. */
static struct latent_attend_args from_row(const struct latent_attend_args *all, size_t row)
{
    struct latent_attend_args a = *all;
    size_t heads = row * (size_t)a.n_heads;
    a.q += heads * (size_t)(a.latent + a.rotated);
    a.out += heads * (size_t)a.latent;
    a.pos += row;
    a.seq += row;
    if (a.open.own) a.open.own += row;
    if (a.chosen) a.chosen += row * (size_t)a.n_chosen;
    return a;
}

static size_t parts_of(size_t n, size_t of) { return (n + of - 1) / of; }

/* The number of blocks that share each row's chunks: of those with which one to eight blocks come
 * to each multiprocessor, one after another, that with the fewest steps; a block begins with as
 * much work as has half a chunk. */
static int shares_of(const struct hip *h, size_t blocks, size_t splits)
{
    enum { TURNS = 8 };
    size_t room = (size_t)hip_stream_multiprocessors(h->stream), best = splits, least = (size_t)-1;
    for (size_t turn = 1; room && turn <= TURNS; turn++) {
        size_t n = room * turn / blocks, steps;
        n = n < 1 ? 1 : n < splits ? n : splits;
        steps = parts_of(blocks * n, room) * (2 * parts_of(splits, n) + 1);
        if (steps < least) best = n, least = steps;
    }
    return (int)best;
}

/* The chunks of n rows. */
static void launch_chunks(struct hip *h, struct latent_attend_args *a, size_t n)
{
    size_t heads = (size_t)a->n_heads, splits = (size_t)a->n_splits,
           columns = heads > LATENT_FEW ? LATENT_COLUMNS : LATENT_FEW,
           groups = parts_of(heads, columns);
    if (!has_mma(h, a)) {
        hip_launch(h, a->n_chosen ? K_attend_chosen_chunk : K_attend_latent_chunk,
                   (struct hip_blocks){n, parts_of(heads, EXACT_ATTEND_ROWS), splits, 0}, a,
                   sizeof *a);
        return;
    }
    a->shares = shares_of(h, n * groups, splits);
    hip_launch(h, heads > LATENT_FEW ? K_attend_latent_32 : K_attend_latent_16,
               (struct hip_blocks){n, groups, (size_t)a->shares, 0}, a, sizeof *a);
}

/* Rows 0 .. rows - 1, of at most n_splits chunks each. */
static void attend_chunks(struct hip *h, const struct latent_attend_args *all, size_t rows,
                          int n_splits)
{
    size_t at_once = hip_part_floats(&h->config, h->split_floats) /
                     (h->split_floats * (size_t)n_splits);
    for (size_t row = 0, n; row < rows; row += n) {
        struct latent_attend_args a = from_row(all, row);
        n = rows - row < at_once ? rows - row : at_once;
        a.parts = h->d_parts;
        a.n_splits = n_splits;
        launch_chunks(h, &a, n);
        const struct combine_args m = {.parts = h->d_parts,
                                       .out = a.out,
                                       .pos = a.pos,
                                       .n_splits = a.n_splits,
                                       .window = a.window,
                                       .n_heads = a.n_heads,
                                       .head_dim = a.latent,
                                       .most = a.n_chosen};
        hip_launch(h, K_exact_combine, (struct hip_blocks){n, (size_t)a.n_heads, 1, 0}, &m,
                   sizeof m);
    }
}

/* Chunks of the longest row where none sees more than so many positions. */
static int splits_of(const struct hip *h, int positions)
{
    int most = hip_max_splits(&h->config), n = (positions + KV_SPLIT - 1) / KV_SPLIT;
    return n < most ? n : most;
}

void hip_latent_attend(struct hip *h, const struct be_plan *p, int op)
{
    const struct latent_attend_args all = args_of(h, p, op);
    int n_decode = h->shape.n_decode, n = h->shape.n_rows - n_decode;
    if (all.n_chosen) {
        attend_chunks(h, &all, (size_t)h->shape.n_rows, splits_of(h, all.n_chosen));
        return;
    }
    if (n_decode) attend_chunks(h, &all, (size_t)n_decode, h->shape.n_splits);
    if (!n) return;
    struct latent_attend_args prompts = from_row(&all, (size_t)n_decode);
    size_t heads = (size_t)prompts.n_heads;
    prompts.n_rows = n;
    if (has_mma(h, &prompts))
        hip_launch(h, K_attend_latent_tile,
                   (struct hip_blocks){parts_of((size_t)n * heads, LATENT_COLUMNS), 1, 1, 0},
                   &prompts, sizeof prompts);
    else
        hip_launch(h, K_attend_latent,
                   (struct hip_blocks){(size_t)n, parts_of(heads, EXACT_ATTEND_ROWS), 1, 0},
                   &prompts, sizeof prompts);
}
