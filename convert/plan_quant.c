/* plan_quant.c: one quantized module: comparison of its tensors with the configuration, and its
 * jobs. */
#include "convert/plan_linear.h"

#include "core/model/modelfile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCAN_BYTES = 4 << 20,   /* scales and zeros are scanned in pieces of this size */
    SLICE_BYTES = 16 << 20, /* source and result of one job together */
    SLICE_COLS = 32,        /* slices begin where zero points of every width begin a word */
};

int plan_expect(const struct hf_tensor *t, int64_t a, int64_t b, const char *why, struct err *e)
{
    char have[128], want[64];
    int n_dims = b ? 2 : 1;
    if (t->t->dtype != DT_I32)
        return err_set(e, "%s: tensor '%s' is %s, must be I32", t->shard->path, t->t->name,
                       st_dtype_name(t->t->dtype));
    if (t->t->n_dims == n_dims && t->t->shape[0] == a && (!b || t->t->shape[1] == b)) return 0;
    snprintf(want, sizeof want, b ? "[%" PRId64 ", %" PRId64 "]" : "[%" PRId64 "]", a, b);
    return err_set(e, "%s: tensor '%s' is %s, must be %s for %s", t->shard->path, t->t->name,
                   plan_shape(t, have), want, why);
}

static int check_shapes(struct quant_linear *l, int bits, struct err *e)
{
    char why[96];
    const struct hf_tensor *s = l->scales;
    snprintf(why, sizeof why, "%" PRId64 " inputs and %" PRId64 " outputs at %d bits", l->in,
             l->out, bits);
    int64_t rows = l->layout == UNPACK_AWQ ? l->in : unpack_n_words(l->in, bits),
            cols = l->layout == UNPACK_AWQ ? unpack_n_words(l->out, bits) : l->out;
    if (l->layout == UNPACK_PLANAR && (l->in % 32 || l->out % 32))
        return err_set(e, "module '%s': gptq_p needs sizes that are multiples of 32", l->module);
    if (l->layout == UNPACK_AWQ && l->out % 8)
        return err_set(e, "module '%s': AWQ needs a multiple of 8 outputs, not %" PRId64, l->module,
                       l->out);
    l->n_words = rows;
    if (plan_expect(l->qweight, rows, cols, why, e)) return -1;
    if (s->t->dtype != DT_F16 && s->t->dtype != DT_BF16 && s->t->dtype != DT_F32)
        return err_set(e, "%s: tensor '%s' is %s, must be F16, BF16 or F32", s->shard->path,
                       s->t->name, st_dtype_name(s->t->dtype));
    l->n_source = s->t->n_dims == 2 ? s->t->shape[0] : 0;
    if (l->n_source < 1 || l->n_source > l->in || s->t->shape[1] != l->out)
        return err_set(e,
                       "%s: tensor '%s' must be [groups, %" PRId64 "] with 1 to %" PRId64 " groups",
                       s->shard->path, s->t->name, l->out, l->in);
    return plan_expect(l->qzeros, l->n_source, unpack_n_words(l->out, bits), why, e);
}

/* exact: becomes 0 where a number, or `factor` times it, is not exact in fp16. */
static int scan(const struct hf_tensor *t, uint64_t n, uint64_t columns, float factor, int *exact,
                struct err *e)
{
    enum dtype type = t->t->dtype;
    uint64_t piece = SCAN_BYTES / dtype_bytes(type);
    if (piece > n) piece = n;
    void *raw = malloc(piece * dtype_bytes(type) + 1);
    int rc = raw ? 0 : err_memory(e);
    for (uint64_t at = 0; at < n && !rc; at += piece) {
        uint64_t m = n - at < piece ? n - at : piece;
        rc = st_read(t->shard, raw, t->t->offset + at * dtype_bytes(type), m * dtype_bytes(type),
                     e);
        for (uint64_t i = 0; i < m && !rc; i++) {
            float v = f32_at(raw, type, i), top = v * factor;
            if (!isfinite(v) || !isfinite(top))
                rc = err_set(e,
                             "%s: tensor '%s' holds %s at [%" PRIu64 ", %" PRIu64
                             "]: the checkpoint is damaged",
                             t->shard->path, t->t->name, isnan(v) ? "NaN" : "infinity",
                             (at + i) / columns, (at + i) % columns);
            else if (*exact && (type != DT_F16 || factor != 1))
                *exact = f32_from_f16(f16_from_f32(v)) == v &&
                         f32_from_f16(f16_from_f32(top)) == top;
        }
    }
    free(raw);
    return rc;
}

int plan_scan_scales(struct quant_linear *l, struct err *e)
{
    uint64_t n = l->one_scale ? 1 : (uint64_t)(l->n_source * l->out),
             columns = (uint64_t)(l->store == STORE_ROWS ? l->n_source : l->out);
    int exact = 1;
    if (scan(l->scales, n, columns, l->bits > 4 ? 16 : 1, &exact, e)) return -1;
    l->scale_type = exact ? DT_F16 : DT_F32;
    return 0;
}

int plan_scan_finite(const struct hf_tensor *t, struct err *e)
{
    int exact = 0;
    return scan(t, (uint64_t)(t->t->shape[0] * t->t->shape[1]), (uint64_t)t->t->shape[1], 1, &exact,
                e);
}

/* Determines the format of the zero points: symmetric ones reveal it, otherwise the label and the
 * quantizer decide. */
static int scan_zeros(struct plan *p, struct quant_linear *l, const struct quant_module *m,
                      struct err *e)
{
    struct plan_facts *f = &p->facts;
    int label_v2 = p->quant->label != LABEL_V1, looks_v1 = 1, looks_v2 = 1, rc = 0;
    int64_t words = unpack_n_words(l->out, l->bits), mid = 1 << (l->bits - 1);
    uint64_t all_ones = 0;
    l->zeros = ZEROS_AS_STORED;
    if (l->layout != UNPACK_STREAM) return 0; /* these layouts have one format of zeros */
    uint32_t *raw = malloc((size_t)words * sizeof *raw);
    uint16_t *z = malloc((size_t)l->out * sizeof *z);
    int w4a4 = p->quant->outliers > 0;
    if (!raw || !z) rc = err_memory(e);
    for (int64_t g = 0; g < l->n_source && !rc; g++) {
        rc = st_read(l->qzeros->shard, raw, l->qzeros->t->offset + (uint64_t)(g * words) * 4,
                     (uint64_t)words * 4, e);
        if (rc) break;
        unpack_zero_row(z, raw, l->out, l->layout, l->bits, ZEROS_AS_STORED, &all_ones);
        if (w4a4) mid = g + 1 < l->n_source ? 8 : 128;
        for (int64_t i = 0; i < l->out; i++) looks_v1 &= z[i] == mid - 1, looks_v2 &= z[i] == mid;
    }
    free(raw);
    free(z);
    if (rc) return -1;
    if (w4a4 && !looks_v1)
        return err_set(e, "%s: module '%s': W4A4 needs the zero points 8, of the last group 128",
                       l->qzeros->shard->path, l->module);
    int symmetric = (m->sym || !m->sym_said) && (looks_v1 || looks_v2),
        v2 = symmetric ? looks_v2 : label_v2;
    if (symmetric && looks_v2 != label_v2) f->n_label_wrong++;
    if (!symmetric) f->n_asymmetric++;
    if (v2) {
        f->n_v2++;
    } else {
        f->n_v1++;
        l->zeros = !symmetric && p->quant->by_gptqmodel ? ZEROS_WORD_PLUS : ZEROS_PLUS_1;
        if (!symmetric) f->n_all_ones += all_ones, f->word_plus = l->zeros == ZEROS_WORD_PLUS;
    }
    return 0;
}

int plan_quant_slots(struct plan *p, struct quant_linear *l, int planes, struct slots *s,
                     struct err *e)
{
    const struct hf_tensor *t = NULL;
    int32_t *g_idx = NULL;
    if (l->store == STORE_COLUMNS) t = plan_find(p, l->module, "g_idx");
    if (l->store == STORE_ROWS) t = plan_find(p, l->module, "weight_g_idx");
    if (!t && l->n_source > 1 && l->ordered)
        return err_set(e,
                       "%s: module '%s' has no weight_g_idx, but actorder is 'group': the order "
                       "of its inputs is not known",
                       p->dir->path, l->module);
    if (t) {
        if (plan_expect(t, l->in, 0, "its inputs", e)) return -1;
        if (!(g_idx = malloc(t->t->bytes))) return err_memory(e);
        if (st_read(t->shard, g_idx, t->t->offset, t->t->bytes, e)) {
            free(g_idx);
            return -1;
        }
        int set = l->store != STORE_ROWS; /* compressed-tensors: all -1 without an order */
        for (int64_t i = 0; i < l->in && !set; i++) set = g_idx[i] != -1;
        if (!set) {
            free(g_idx);
            g_idx = NULL;
        }
    }
    const int given = g_idx != NULL, w4a4 = p->quant->outliers > 0 && l->store == STORE_COLUMNS;
    if (w4a4 && !given)
        return err_set(e, "%s: module '%s' has no g_idx: W4A4 needs it", p->dir->path, l->module);
    const struct slots_source from = {g_idx,    l->in,  l->n_source,
                                      l->group, planes, w4a4 ? (int)l->n_source - 1 : 0};
    int rc = slots_plan(s, &from, e);
    free(g_idx);
    if (rc) return err_prefix(e, "%s: module '%s'", l->qweight->shard->path, l->module);
    if (w4a4 && (s->assumed || (s->n_groups > 2 && s->groups[s->n_groups - 3].source == s->low))) {
        slots_free(s);
        return err_set(e, "%s: module '%s': its last group has too many inputs for W4A4",
                       l->qweight->shard->path, l->module);
    }
    if (s->assumed && given && l->store == STORE_ROWS) {
        slots_free(s);
        return err_set(e,
                       "%s: module '%s': weight_g_idx is all 0, but there are %" PRId64 " groups",
                       l->qweight->shard->path, l->module, l->n_source);
    }
    if (s->assumed && !p->facts.no_g_idx && l->store == STORE_COLUMNS && l->layout != UNPACK_AWQ)
        p->facts.no_g_idx = l->module;
    p->facts.n_act_order += s->act_order;
    p->facts.n_unordered += s->assumed && p->quant->desc_act && p->quant->method == QUANT_GPTQ &&
                            l->store == STORE_COLUMNS;
    return 0;
}

static void at_least(uint64_t *size, uint64_t bytes)
{
    if (bytes > *size) *size = bytes;
}

/* Sizes of the buffers that a job needs for a panel. */
struct need {
    uint64_t src, dst;
};

static struct need need_of(const struct quant_linear *l)
{
    const struct slots *s = l->slots;
    uint64_t groups = (uint64_t)l->n_source, row_bytes = 64, dst = (uint64_t)s->k * 8;
    if (l->layout == UNPACK_AWQ && !l->rows) row_bytes = 8;
    /* Of the source the words, or the scales (MXFP4: F32 behind the bytes), or the zeros behind
     * their words; all of a plain matrix that is rounded. */
    uint64_t words = (uint64_t)l->n_words * row_bytes,
             zeros = groups * (uint64_t)(l->bits * 2 + 2 * MF_PANEL),
             scales = groups * MF_PANEL *
                      (l->store == STORE_MXFP4 ? 5
                       : l->least              ? 10 /* and least values, and zeros behind them */
                                               : 4),
             src = words;
    if (l->store == STORE_ROUNDED)
        src = (uint64_t)l->in * dtype_bytes(l->plain->t->t->dtype) * MF_PANEL +
              groups * MF_PANEL * 6;
    if (src < zeros) src = zeros;
    if (src < scales) src = scales;
    /* Of the result the codes, then the scales, then the zeros. */
    if (dst < (uint64_t)s->n_groups * MF_PANEL * 4) dst = (uint64_t)s->n_groups * MF_PANEL * 4;
    return (struct need){src, dst};
}

int plan_quant_jobs(struct plan *p, const struct quant_linear *l, size_t piece, size_t *n,
                    struct err *e)
{
    int64_t panels = (l->n_rows + MF_PANEL - 1) / MF_PANEL;
    const struct need need = need_of(l);
    int64_t step = (int64_t)(SLICE_BYTES / (need.src + need.dst)) / (SLICE_COLS / MF_PANEL) *
                   (SLICE_COLS / MF_PANEL);
    if (step < SLICE_COLS / MF_PANEL) step = SLICE_COLS / MF_PANEL;
    if (step > panels) step = panels;
    *n = (size_t)((panels + step - 1) / step);
    if (!p) return 0;
    struct plan_job j = {.kind = JOB_PANELS, .linear = l, .tensor = l->codes_at, .piece = piece};
    for (; j.piece < piece + *n; j.piece++, j.panel += step) {
        j.n_panels = panels - j.panel < step ? panels - j.panel : step;
        if (plan_add_job(p, &j, e)) return -1;
    }
    uint64_t src = need.src * (uint64_t)step, row = (uint64_t)l->out * 4;
    if (l->rows && l->qzeros) /* all zeros, of which some are taken */
        at_least(&src, (uint64_t)l->n_source * ((uint64_t)unpack_n_words(l->out, l->bits) * 4 +
                                                (uint64_t)step * MF_PANEL * 2));
    if (l->store != STORE_COLUMNS) {
        at_least(&row, (uint64_t)l->n_words * 4 * PLAN_TURNED);
        at_least(&row, (uint64_t)l->n_source * 4 * PLAN_TURNED);
    }
    if (l->store == STORE_ROUNDED) at_least(&row, (uint64_t)l->in * 4);
    at_least(&p->src_max, src + 64);
    at_least(&p->dst_max, need.dst * (uint64_t)step);
    at_least(&p->codes_max, (uint64_t)l->in * MF_PANEL);
    at_least(&p->row_max, row);
    return 0;
}

int plan_turned_job(struct plan *p, const struct quant_linear *l, size_t tensor, int x,
                    struct err *e)
{
    const struct need need = need_of(l);
    uint64_t bytes = (uint64_t)(l->in * l->n_rows) * sizeof(float),
             words = (uint64_t)unpack_n_words(l->out, l->bits) * 4;
    const struct plan_job j = {.kind = JOB_TURNED,
                               .tensor = tensor,
                               .piece = (size_t)x,
                               .linear = l,
                               .at = (uint64_t)x * bytes,
                               .bytes = bytes};
    at_least(&p->src_max, need.src + (uint64_t)l->n_source * (words + MF_PANEL * 2) + 64);
    at_least(&p->dst_max, bytes + (uint64_t)l->n_source * MF_PANEL * sizeof(float));
    at_least(&p->codes_max, (uint64_t)l->in * MF_PANEL);
    at_least(&p->row_max, (uint64_t)l->out * 4);
    at_least(&p->row_max, (uint64_t)(l->n_words + l->n_source) * 4 * PLAN_TURNED);
    return plan_add_job(p, &j, e);
}

void plan_quant_count(struct plan *p, const struct quant_linear *l, int bits, int group)
{
    struct plan_facts *f = &p->facts;
    int64_t own = (l->in + l->n_source - 1) / l->n_source;
    if (group > 0 && (l->in + group - 1) / group == l->n_source && l->n_source > 1) own = group;
    f->bits_seen[bits] = 1;
    if (p->quant->outliers && l->store == STORE_COLUMNS) {
        f->bits_seen[4] = 1;
        f->outliers = p->quant->outliers;
    }
    if (!f->group_min || own < f->group_min) f->group_min = (int)own;
    if (own > f->group_max) f->group_max = (int)own;
}

int plan_quant_read(struct plan *p, struct quant_linear *l, struct err *e)
{
    struct quant_module m;
    const char *module = l->module;
    l->qweight = plan_find(p, module, "qweight"), l->qzeros = plan_find(p, module, "qzeros"),
    l->scales = plan_find(p, module, "scales");
    if (!l->qzeros || !l->scales)
        return err_set(e, "%s: module '%s' has qweight but no %s", p->dir->path, module,
                       l->qzeros ? "scales" : "qzeros");
    if (!p->quant->present)
        return err_set(e,
                       "%s: module '%s' has qweight, but neither quantize_config.json nor "
                       "config.json says how it was quantized (bits, group_size)",
                       p->dir->path, module);
    if (qc_module(p->quant, module, &m, e)) return -1;
    l->group = m.group;
    l->bits = m.bits ? m.bits : p->quant->method == QUANT_AWQ ? 4 : 0;
    if (p->quant->method == QUANT_MXFP4)
        return err_set(e,
                       "%s: module '%s' has qweight, but quant_method is mxfp4, which is read for "
                       "the experts of gpt-oss alone",
                       p->dir->path, module);
    if (!l->bits)
        return err_set(e, "%s: the quantization configuration does not say how many bits",
                       p->dir->path);
    if (p->quant->method == QUANT_AWQ) {
        l->layout = UNPACK_AWQ;
        if (l->bits != 4)
            return err_set(e, "%s: AWQ with %d bits is not supported, 4 is", p->dir->path, l->bits);
    } else if (p->quant->label == LABEL_PLANAR || (l->bits >= 5 && l->bits <= 7)) {
        l->layout = UNPACK_PLANAR; /* GPTQModel has no other layout for 5 to 7 bits */
    }
    if (check_shapes(l, l->bits, e) || plan_scan_scales(l, e) || scan_zeros(p, l, &m, e)) return -1;
    plan_quant_count(p, l, l->bits, m.group);
    return 0;
}
