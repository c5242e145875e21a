/* hip_linear.c: which kernel computes a linear, and its launch.
 * The phase of a row chooses the family (decode.hip or prefill.hip). Within a family the number of rows may choose, because
 * its members give the same bits. */
#include "backend-hip/hip_int.h"

#include <stdio.h>
#include <string.h>

const struct hip_variant hip_variants[] = {
    {"q4_decode_f16_1", PHASE_DECODE, FORMAT_Q4_F16, 1, PANEL},
    {"q4_decode_f16_2", PHASE_DECODE, FORMAT_Q4_F16, 2, PANEL},
    {"q4_decode_f16_4", PHASE_DECODE, FORMAT_Q4_F16, 4, PANEL},
    {"q4_decode_f16_8", PHASE_DECODE, FORMAT_Q4_F16, 8, PANEL},
    {"q4_decode_f16_16", PHASE_DECODE, FORMAT_Q4_F16, 16, PANEL},
    {"q4_decode_f32_1", PHASE_DECODE, FORMAT_Q4_F32, 1, PANEL},
    {"q4_decode_f32_4", PHASE_DECODE, FORMAT_Q4_F32, 4, PANEL},
    {"q4_decode_f32_16", PHASE_DECODE, FORMAT_Q4_F32, 16, PANEL},
    {"dense_decode_f16_1", PHASE_DECODE, FORMAT_F16, 1, PANEL},
    {"dense_decode_f16_4", PHASE_DECODE, FORMAT_F16, 4, PANEL},
    {"dense_decode_f16_16", PHASE_DECODE, FORMAT_F16, 16, PANEL},
    {"dense_decode_bf16_1", PHASE_DECODE, FORMAT_BF16, 1, PANEL},
    {"dense_decode_bf16_4", PHASE_DECODE, FORMAT_BF16, 4, PANEL},
    {"dense_decode_bf16_16", PHASE_DECODE, FORMAT_BF16, 16, PANEL},
    {"dense_decode_f32_1", PHASE_DECODE, FORMAT_F32, 1, PANEL},
    {"dense_decode_f32_4", PHASE_DECODE, FORMAT_F32, 4, PANEL},
    {"dense_decode_f32_16", PHASE_DECODE, FORMAT_F32, 16, PANEL},
    {"q4_prefill_f16", PHASE_PREFILL, FORMAT_Q4_F16, 64, 64},
    {"q4_prefill_f32", PHASE_PREFILL, FORMAT_Q4_F32, 64, 64},
    {"dense_prefill_f16", PHASE_PREFILL, FORMAT_F16, 64, 64},
    {"dense_prefill_bf16", PHASE_PREFILL, FORMAT_BF16, 64, 64},
    {"dense_prefill_f32", PHASE_PREFILL, FORMAT_F32, 64, 64},
    {0},
};

const char *hip_variant_name(int i) { return i == 0 ? "auto" : hip_variants[i - 1].name; }

int hip_find_variant(const char *name, const struct hip_variant **v, struct err *e)
{
    char names[400] = "auto";
    *v = NULL;
    if (!name || !strcmp(name, "auto")) return 0;
    for (const struct hip_variant *i = hip_variants; i->name; i++) {
        if (!strcmp(i->name, name)) {
            *v = i;
            return 0;
        }
        snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", i->name);
    }
    return err_set(e, "--variant %s: unknown; there are %s", name, names);
}

static enum hip_format format_of(const struct hip *h, const struct be_linear *w)
{
    static const enum hip_format dense[] = {[WEIGHT_F16] = FORMAT_F16, [WEIGHT_BF16] = FORMAT_BF16, [WEIGHT_F32] = FORMAT_F32};
    if (w->dense) return dense[w->kind];
    return h->config.act == ACT_F16 ? FORMAT_Q4_F16 : FORMAT_Q4_F32;
}

/* The pinned row where it can do this, else the first whose blocks hold all rows, else the one with the largest blocks. */
static const struct hip_variant *choose(const struct hip *h, enum hip_phase phase, enum hip_format format, int rows)
{
    const struct hip_variant *best = NULL;
    if (h->pinned && h->pinned->phase == phase && h->pinned->format == format) return h->pinned;
    for (const struct hip_variant *v = hip_variants; v->name; v++) {
        if (v->phase != phase || v->format != format) continue;
        best = v;
        if (v->rows >= rows) break;
    }
    CHECK(best);
    return best;
}

/* 1 when the two read the same prepared inputs. */
static int same_input(const struct be_linear *a, const struct be_linear *b)
{
    return a->dense == b->dense && a->perm == b->perm && a->k == b->k;
}

static void prepare(struct hip *h, const struct be_linear *w, const float *d_x, int rows, int half)
{
    struct prepare_args a = {
        .x = d_x, .perm = w->d_perm, .packed = h->d_packed, .scale = h->d_scale, .in = w->in, .k = w->k, .stride = w->n_chunks * CHUNK};
    hip_launch_kernel(h, half ? K_PREPARE_F16 : K_PREPARE_F32, (size_t)rows, 1, &a, sizeof a);
}

/* `rows` rows of one phase from row0 on. */
static void run(struct hip *h, const struct be_linear *w, float *d_y, enum hip_phase phase, int row0, int rows, int half)
{
    if (!rows) return;
    const struct hip_variant *v = choose(h, phase, format_of(h, w), rows);
    struct linear_args a = {
        .weight = w->d_weight,
        .meta = w->d_meta,
        .x = (char *)h->d_packed + (size_t)row0 * (size_t)w->n_chunks * CHUNK * (half ? 2 : 4),
        .scale = half ? h->d_scale + row0 : NULL,
        .bias = w->d_bias,
        .y = d_y + (size_t)row0 * (size_t)w->out,
        .rows = rows,
        .out = w->out,
        .n_chunks = w->n_chunks,
        .group_chunks = w->group_chunks,
        .group_shift = w->group_shift,
        .n_groups = w->n_groups,
        .wide_meta = w->wide_meta,
    };
    hip_launch(h, h->variant[v - hip_variants], v->name, (size_t)(w->out + v->outputs - 1) / (size_t)v->outputs,
               (size_t)(rows + v->rows - 1) / (size_t)v->rows, &a, sizeof a);
}

void hip_linear(struct be *be, int n, const struct be_linear *const w[], const float *d_x, float *const d_y[], int rows, int n_decode)
{
    struct hip *h = (struct hip *)be;
    CHECK(rows <= h->config.max_rows);
    for (int i = 0; i < n; i++) {
        int half = !w[i]->dense && h->config.act == ACT_F16;
        if (i == 0 || !same_input(w[i - 1], w[i])) prepare(h, w[i], d_x, rows, half);
        run(h, w[i], d_y[i], PHASE_DECODE, 0, n_decode, half);
        run(h, w[i], d_y[i], PHASE_PREFILL, n_decode, rows - n_decode, half);
    }
}
