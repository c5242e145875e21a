/* hopper/experts_mix_gemv.hip: the last stack of a mixture of experts for few decode rows on
 * sm_90a, with the activation that precedes it and the weighted sum that follows; plain weights.
 * Beside it the last linear of a shared expert, with its activation and its gated addition.
 *   grid      (panel of 16 outputs, row): blocks of 256 threads
 *   warp      one slot: its activation, packed into shared memory, and its panel over all inputs;
 *             of the shared expert stages w, w + 8, .. of 64 inputs
 *   choice    with a->route.by_warp made again by every warp (experts_route_gemv.hip), so that the
 *             weights are loaded before the producer launch has ended
 *   pipeline  a ring of MIX_DEPTH items in shared memory for each warp, filled by cp.async
 *   epilogue  the results of the slots are in shared memory and are added in order
 * Bits: those of slots_prepare_f16, hopper/experts_decode_mma.hip, mix_slots and
 * hopper/dense_gemv.hip. Last the activation of the slots of many rows. */

/* The activated inputs v of a slot, by a warp: lane l has elements 4l .. 4l + 3 of each 128, zeros
 * from `in` on. Returns the power of two of the row. */
DEVICE struct power_of_two warp_gated(const float *gate, const float *up, int in, int gelu,
                                      f32x4 v[MIX_INPUTS / 128])
{
    enum { AT_ONCE = 6 }; /* elements whose loads wait for memory together */
    float largest = 0;
    UNROLL for (int first = 0; first < MIX_INPUTS / 128; first += AT_ONCE)
    {
        f32x4 g[AT_ONCE], u[AT_ONCE];
        UNROLL for (int j = 0; j < AT_ONCE; j++)
        {
            int i = (first + j) * 128 + thread() % WARP * 4, index = i < in ? i : 0;
            if ((first + j) * 128 >= in) break;
            g[j] = load_four(gate + index);
            u[j] = load_four(up + index);
        }
        UNROLL for (int j = 0; j < AT_ONCE && first + j < MIX_INPUTS / 128; j++)
        {
            f32x4 *to = &v[first + j];
            *to = (f32x4){0, 0, 0, 0};
            if ((first + j) * 128 + thread() % WARP * 4 >= in) continue;
            UNROLL for (int k = 0; k < 4; k++) (*to)[k] = gated(g[j][k], u[j][k], gelu);
            largest = largest_of(*to, largest);
        }
    }
    return power_for(f32_of(max_of_warp(bits_of(largest))), 14);
}

/* Packs the activated inputs of a slot into `to` [inputs]; returns the row's scale. */
DEVICE float mix_inputs(const struct experts_mix_args *a, int slot, f16 *to)
{
    const struct row_place place = {to, 0, 0};
    f32x4 v[MIX_INPUTS / 128];
    struct power_of_two p = warp_gated(a->gate + slot * a->in, a->up + slot * a->in, a->in, a->gelu,
                                       v);
    UNROLL for (int j = 0; j < MIX_INPUTS / 128;
                j++) if (j * 128 < a->experts.linear.n_chunks * CHUNK)
        place_piece(&place, j * 128 + thread() % WARP * 4, v[j], p.factor);
    return p.undo;
}

/* slots_prepare_f16 for activations without another reader, a slot to a warp. Dynamic shared
 * memory: [WARPS][stride] floats */
KERNEL(slots_gate_f16, struct slot_prepare_args)
{
    enum { AT_ONCE = 6 }; /* as above */
    const struct slot_prepare_args *s = ARGS;
    const struct prepare_args *a = &s->prepare;
    int slot = block_x() * WARPS + warp_number(), lane = thread() % WARP, in = a->in;
    if (slot >= s->n_slots) return;
    int to = place_of_slot(s, slot);
    struct row_place place = place_of(a, to);
    const float *gate = s->gate + (u64)slot * (u64)in, *up = s->up + (u64)slot * (u64)in;
    float *row = (float *)dynamic_lds + warp_number() * a->stride + lane * 4, largest = 0;
    NO_UNROLL for (int first = 0; first < a->stride; first += AT_ONCE * 128)
    {
        f32x4 g[AT_ONCE], u[AT_ONCE];
        UNROLL for (int j = 0; j < AT_ONCE; j++)
        {
            int i = first + j * 128 + lane * 4, index = i < in ? i : 0;
            g[j] = load_four(gate + index);
            u[j] = load_four(up + index);
        }
        UNROLL for (int j = 0; j < AT_ONCE; j++)
        {
            int i = first + j * 128 + lane * 4;
            f32x4 v = {0, 0, 0, 0};
            if (i >= a->stride) break;
            if (i < in) UNROLL for (int k = 0; k < 4; k++) v[k] = gated(g[j][k], u[j][k], s->gelu);
            largest = largest_of(v, largest);
            *(f32x4 *)(row + first + j * 128) = v;
        }
    }
    struct power_of_two p = power_for(f32_of(max_of_warp(bits_of(largest))), 14);
    for (int j = 0; j < a->stride; j += 128)
        place_piece(&place, j + lane * 4, *(const f32x4 *)(row + j), p.factor);
    if (lane == 0) a->scale[to] = p.undo;
}

/* The next item that a warp loads: codes and scales of this lane. */
struct mix_prefetch {
    const char *codes, *meta;
    int item;
};

DEVICE void mix_prefetch_item(const struct linear_part *p, struct mix_prefetch *f, int n_items,
                              u32 to)
{
    if (f->item < n_items) {
        copy_16(to, f->codes);
        copy_16(to + 512, f->codes + 512);
        if (thread() % WARP < 4) {
            int group = (int)((u64)(u32)(f->item * ITEM_CHUNKS) * (u64)p->group_magic >> 31);
            copy_16(to + ITEM_BYTES,
                    f->meta + (group < p->last_group ? group : p->last_group) * (PANEL * 4));
        }
        f->codes += ITEM_BYTES;
        f->item++;
    }
    copies_commit();
}

/* What a block knows of the shared expert: a warp's weights of its first stage; the row, packed;
 * sums of stages [stages][PANEL]. */
struct mix_shared {
    struct dense_weights first;
    const char *w; /* the panel's weights, for this lane */
    u64 *packed;
    float *sums;
    float scale;
    int n_items;
};

DEVICE void mix_shared_read(const struct experts_mix_args *a, struct mix_shared *s, u32 *lds,
                            const int kind)
{
    int warp = warp_number();
    s->n_items = a->shared_chunks / SUM_CHUNKS;
    s->packed = (u64 *)lds;
    s->sums = (float *)(s->packed + a->shared_chunks * F16_PARTS(kind) * 8);
    s->w = (const char *)a->shared +
           (u64)block_x() * (u64)s->n_items * (u64)dense_stage_bytes(kind) + dense_lane(kind);
    s->first = dense_read(s->w + (warp < s->n_items ? warp : 0) * dense_stage_bytes(kind), kind);
}

/* Packs the activated row; the launch of its gate and up has ended. */
DEVICE void mix_shared_pack(const struct experts_mix_args *a, struct mix_shared *s, float *scratch,
                            const int kind)
{
    struct power_of_two power = {1, 1};
    float largest = 0;
    int i = 4 * thread(), row = block_y() * a->shared_chunks * CHUNK;
    f32x4 v = {0, 0, 0, 0};
    if (i < a->shared_chunks * CHUNK)
        UNROLL for (int e = 0; e < 4; e++)
            v[e] = gated(load_fresh(a->shared_gate + row + i + e),
                         load_fresh(a->shared_up + row + i + e), 0);
    if (kind != WEIGHT_BF16) {
        largest = largest_of(v, 0);
        power = power_for(block_max(largest, scratch), 14);
    }
    if (i < a->shared_chunks * CHUNK) dense_pack_four(s->packed, i, v, power.factor, kind);
    s->scale = power.undo;
}

/* The sums of a warp's stages. */
DEVICE void mix_shared_products(const struct mix_shared *s, const int kind)
{
    int lane = thread() % WARP;
    struct dense_weights now = s->first;
    NO_UNROLL for (int item = warp_number(); item < s->n_items; item += WARPS)
    {
        const int from[1] = {item * dense_of_stage(kind)};
        float part[1][4];
        dense_products(&now, s->packed + lane % 4, from, part, 1, 4, kind);
        if (lane % 4 == 0) {
            s->sums[item * PANEL + lane / 4] = part[0][0];
            s->sums[item * PANEL + lane / 4 + 8] = part[0][2];
        }
        if (item + WARPS < s->n_items)
            now = dense_read(s->w + (item + WARPS) * dense_stage_bytes(kind), kind);
    }
}

/* Adds the result of the shared expert times its gate to `before`, for a lane's output. */
DEVICE float mix_shared_add(const struct experts_mix_args *a, const struct mix_shared *s,
                            int output, float gate, float before)
{
    const float *source = s->sums + thread() % PANEL;
    float sum = 0;
    UNROLL_8 for (int i = 0; i < s->n_items; i++) sum += source[i * PANEL];
    sum *= s->scale;
    if (a->shared_bias && output < a->experts.linear.part[0].out) sum += a->shared_bias[output];
    return fma32(sum, gate, before);
}

/* lds: rings [WARPS][MIX_DEPTH][SLOT], inputs [WARPS][MIX_INPUTS], results [WARPS][PANEL], the
 * shared expert's row and sums. shared: the kind of its weights, MIX_ALONE: none */
DEVICE void experts_mix(const struct experts_mix_args *a, u32 *lds, float *scratch,
                        const int shared)
{
    const struct experts_args *e = &a->experts;
    enum { RING = MIX_DEPTH * SLOT };
    struct mix_shared beside;
    int lane = thread() % WARP, warp = warp_number(), n_items = e->linear.n_chunks / ITEM_CHUNKS,
        panel = block_x(), first_slot = block_y() * a->slots, index = 0, slice = 1;
    u32 *ring = lds + warp * (RING / 4);
    f16 *inputs = (f16 *)(lds + WARPS * (RING / 4)) + warp * MIX_INPUTS;
    float *results = (float *)(lds + WARPS * (RING / 4) + WARPS * (MIX_INPUTS / 2));
    u32 to = lds_address(ring) + 16 * (u32)lane;
    int output = panel * PANEL + thread(), early = a->route.by_warp, expert;
    if (shared != MIX_ALONE)
        mix_shared_read(a, &beside, (u32 *)(results + WARPS * PANEL), shared);
    if (early) {
        next_may_start();
        int chosen = chosen_by_warp(&a->route, (int *)ring, 0);
        expert = (int)bits_of(shuffle_from(f32_of((u32)chosen), warp));
    } else {
        wait_for_producer();
        expert = warp < a->slots ? e->expert[first_slot + warp] : 0;
    }
    struct linear_part p = part_of_expert(&e->linear.part[0], expert);
    p.y += (u64)block_y() * (u64)p.out;
    struct mix_prefetch f = {
        (const char *)p.weight + (u64)panel * (u64)n_items * ITEM_BYTES + lane * 16,
        (const char *)p.meta + (u64)panel * (u64)((p.last_group + 1) * PANEL * 4) + lane * 16, 0};
    NO_UNROLL for (int i = 0; i < MIX_DEPTH; i++)
        mix_prefetch_item(&p, &f, warp < a->slots ? n_items : 0, to + (u32)(i * SLOT));
    if (shared != MIX_ALONE) {
        mix_shared_pack(a, &beside, scratch, shared);
        barrier();
        mix_shared_products(&beside, shared);
    }
    if (early) wait_for_producer();
    float weight = 0, before = 0, gate = 1;
    if (warp == 0 && lane < a->slots) weight = a->weight[first_slot + lane];
    if (shared != MIX_ALONE && warp == 0 && a->gate_of_shared) gate = a->gate_of_shared[block_y()];
    if (a->add && thread() < PANEL && output < p.out) before = p.y[output];
    if (warp < a->slots) {
        float part[4], total[4] = {0, 0, 0, 0}, sum[4] = {0, 0, 0, 0};
        float scale = mix_inputs(a, first_slot + warp, inputs);
        warp_barrier();
        NO_UNROLL for (int item = 0; item < n_items; item++)
        {
            struct task_words w;
            if (item >= slice_begin(n_items, slice)) {
                UNROLL for (int i = 0; i < 4; i++) sum[i] += total[i], total[i] = 0;
                while (item >= slice_begin(n_items, slice)) slice++;
            }
            COPIES_WAIT(MIX_DEPTH - 1);
            warp_barrier();
            task_words_of(&w, ring + index, 1);
            warp_barrier();
            mix_prefetch_item(&p, &f, n_items, to + (u32)(4 * index));
            UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
            {
                const f16 *x = inputs + (item * ITEM_CHUNKS + c) * CHUNK + lane % 4 * 8;
                u32x4 v = *(const u32x4 *)x;
                task_chunk(&p, &w, v, panel, item, part, total, c, 1);
            }
            index = index == (MIX_DEPTH - 1) * (SLOT / 4) ? 0 : index + SLOT / 4;
        }
        UNROLL for (int j = 0; j < 2; j++)
        {
            int count = panel * PANEL + lane / 4 + 8 * j;
            float v = (sum[2 * j] + total[2 * j]) * scale;
            if (p.bias && count < p.out) v += p.bias[count];
            if (lane % 4 == 0) results[warp * PANEL + lane / 4 + 8 * j] = v;
        }
    }
    if (shared != MIX_ALONE && a->gate_of_shared) gate = sigmoid32(gate);
    barrier();
    if (warp) return;
    float mixed = shuffle_from(weight, 0) * results[lane % PANEL];
    for (int j = 1; j < a->slots; j++)
        mixed = fma32(shuffle_from(weight, j), results[j * PANEL + lane % PANEL], mixed);
    if (shared != MIX_ALONE)
        mixed = mix_shared_add(a, &beside, panel * PANEL + lane % PANEL, gate, mixed);
    if (lane < PANEL && output < p.out) p.y[output] = a->add ? before + mixed : mixed;
}

#define EXPERTS_MIX(name, images, shared)                                                          \
    ON_##images(KERNEL(name, struct experts_mix_args) {                                            \
        LDS(float, scratch, THREADS);                                                              \
        experts_mix(EARLY_ARGS, dynamic_lds, scratch, shared);                                     \
    })
#include "backend-hip/kernels/hopper/list.h"
