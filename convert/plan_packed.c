/* plan_packed.c: modules of compressed-tensors (pack-quantized), MXFP4 tensors of all experts, and
 * plain matrices that are rounded. */
#include "convert/mxfp4.h"
#include "convert/plan_linear.h"
#include "convert/round8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCAN_BYTES = 4 << 20 };

/* weight_shape, I64 or I32 [2], must be [out, in]. */
static int check_shape(const struct quant_linear *l, const struct hf_tensor *t, struct err *e)
{
    int64_t wide[2] = {0};
    int32_t narrow[2] = {0};
    int is_wide = t->t->dtype == DT_I64;
    if ((!is_wide && t->t->dtype != DT_I32) || t->t->n_dims != 1 || t->t->shape[0] != 2)
        return err_set(e, "%s: tensor '%s' is not two integers", t->shard->path, t->t->name);
    if (st_read(t->shard, is_wide ? (void *)wide : narrow, t->t->offset, t->t->bytes, e)) return -1;
    if (!is_wide) wide[0] = narrow[0], wide[1] = narrow[1];
    if (wide[0] == l->out && wide[1] == l->in) return 0;
    return err_set(e,
                   "%s: tensor '%s' is [%" PRId64 ", %" PRId64 "], config.json wants [%" PRId64
                   ", %" PRId64 "]",
                   t->shard->path, t->t->name, wide[0], wide[1], l->out, l->in);
}

/* The signed bytes of int-quantized: I8 [out, in]; *words: of an output. */
static int read_bytes(struct plan *p, struct quant_linear *l, struct err *e)
{
    const struct hf_tensor *t = l->qweight = plan_find(p, l->module, "weight");
    char have[128];
    l->bytes = 1;
    l->n_words = l->in / 4;
    if (t->t->n_dims != 2 || t->t->shape[0] != l->out || t->t->shape[1] != l->in)
        return err_set(e, "%s: tensor '%s' is %s, config.json wants [%" PRId64 ", %" PRId64 "]",
                       t->shard->path, t->t->name, plan_shape(t, have), l->out, l->in);
    if (l->in % 4)
        return err_set(e,
                       "%s: tensor '%s' has %" PRId64 " inputs: as bytes a multiple of 4 is "
                       "supported",
                       t->shard->path, t->t->name, l->in);
    return 0;
}

/* The scales [out][groups], or one of the whole matrix. */
static int check_scales(struct quant_linear *l, struct err *e)
{
    const struct hf_tensor *s = l->scales;
    int64_t n = 1;
    for (int i = 0; i < s->t->n_dims; i++) n *= s->t->shape[i];
    if (plan_is_float(s, e)) return -1;
    l->one_scale = l->bytes && n == 1 && l->out > 1;
    l->n_source = l->one_scale || s->t->n_dims == 1 ? 1 : s->t->n_dims == 2 ? s->t->shape[1] : 0;
    if (l->one_scale || (l->n_source >= 1 && l->n_source <= l->in && s->t->shape[0] == l->out))
        return 0;
    return err_set(e, "%s: tensor '%s' must be [%" PRId64 ", groups] with 1 to %" PRId64 " groups",
                   s->shard->path, s->t->name, l->out, l->in);
}

/* The least values [out][groups] of codes of 4 bits, of the scales' type. */
static int check_least(struct quant_linear *l, struct err *e)
{
    const struct hf_tensor *t = l->least, *s = l->scales;
    if (l->bits != 4 || l->bytes || l->qzeros || t->t->dtype == DT_BF16 ||
        t->t->dtype != s->t->dtype || t->t->n_dims != 2 || t->t->shape[0] != l->out ||
        t->t->shape[1] != l->n_source)
        return err_set(e,
                       "%s: tensor '%s' must be F16 or F32 as the scales, [%" PRId64 ", %" PRId64
                       "], beside codes of 4 bits",
                       t->shard->path, t->t->name, l->out, l->n_source);
    return plan_scan_finite(t, e);
}

int plan_packed_read(struct plan *p, struct quant_linear *l, struct err *e)
{
    struct quant_module m;
    char why[96];
    const char *module = l->module;
    const struct hf_tensor *shape = plan_find(p, module, "weight_shape"), *s;
    l->store = STORE_ROWS, l->layout = UNPACK_STREAM, l->zeros = ZEROS_AS_STORED;
    l->qweight = plan_find(p, module, "weight_packed");
    l->qzeros = plan_find(p, module, "weight_zero_point");
    l->scales = s = plan_find(p, module, "weight_scale");
    l->least = plan_find(p, module, "weight_least");
    if (!s)
        return err_set(e, "%s: module '%s' has integers but no weight_scale", p->dir->path, module);
    if (p->quant->method != QUANT_COMPRESSED)
        return err_set(e,
                       "%s: module '%s' has integers as weights, but config.json does not say "
                       "quant_method 'compressed-tensors'",
                       p->dir->path, module);
    if (qc_module(p->quant, module, &m, e)) return -1;
    l->bits = m.bits, l->group = m.group, l->ordered = m.ordered;
    if (shape && check_shape(l, shape, e)) return -1;
    snprintf(why, sizeof why, "%" PRId64 " inputs and %" PRId64 " outputs at %d bits", l->in,
             l->out, l->bits);
    if (!l->qweight && read_bytes(p, l, e)) return -1;
    if (!l->bytes) l->n_words = unpack_n_words(l->in, l->bits);
    if ((!l->bytes && plan_expect(l->qweight, l->out, l->n_words, why, e)) || check_scales(l, e))
        return -1;
    if (l->least && check_least(l, e)) return -1;
    if (!l->qzeros && !m.sym)
        return err_set(e,
                       "%s: module '%s' is asymmetric in config.json but has no "
                       "weight_zero_point",
                       p->dir->path, module);
    if (l->qzeros && m.sym) l->qzeros = NULL; /* as readers do: symmetric ones are in the middle */
    if (l->qzeros && plan_expect(l->qzeros, unpack_n_words(l->out, l->bits), l->n_source, why, e))
        return -1;
    p->facts.n_asymmetric += l->qzeros || l->least;
    p->facts.n_offsets += l->least != NULL;
    plan_quant_count(p, l, l->bits, m.group);
    return plan_scan_scales(l, e);
}

/* Finds the least and the largest of the expert's scales that is not 255 (NaN). */
static int scan_e8m0(const struct quant_linear *l, uint8_t *least, uint8_t *largest, struct err *e)
{
    const struct hf_tensor *t = l->scales;
    uint64_t n = (uint64_t)(l->out * l->n_source), m;
    uint8_t *raw = malloc(n < SCAN_BYTES ? n + 1 : SCAN_BYTES);
    int rc = raw ? 0 : err_memory(e);
    *least = 255, *largest = 0;
    for (uint64_t at = 0; at < n && !rc; at += m) {
        m = n - at < SCAN_BYTES ? n - at : SCAN_BYTES;
        rc = st_read(t->shard, raw, t->t->offset + l->scales_from + at, m, e);
        for (uint64_t i = 0; i < m && !rc; i++) {
            if (raw[i] < *least) *least = raw[i];
            if (raw[i] > *largest) *largest = raw[i];
        }
    }
    free(raw);
    if (!rc && (*largest == 255 || *largest > 250))
        return err_set(e,
                       "%s: tensor '%s' holds a scale that is not a number or too large: the "
                       "checkpoint is damaged",
                       t->shard->path, t->t->name);
    return rc;
}

/* Requires U8 of these sizes. */
static int expect_bytes(const struct hf_tensor *t, const int64_t *shape, int n, struct err *e)
{
    char have[128], want[128];
    int ok = t->t->n_dims == n, at = 0;
    if (t->t->dtype != DT_U8)
        return err_set(e, "%s: tensor '%s' is %s, must be U8", t->shard->path, t->t->name,
                       st_dtype_name(t->t->dtype));
    for (int i = 0; i < n; i++) {
        ok = ok && t->t->shape[i] == shape[i];
        at += snprintf(want + at, sizeof want - (size_t)at, "%s%" PRId64, i ? ", " : "", shape[i]);
    }
    return ok ? 0
              : err_set(e, "%s: tensor '%s' is %s, config.json wants [%s]", t->shard->path,
                        t->t->name, plan_shape(t, have), want);
}

int plan_mxfp4_read(struct plan *p, struct quant_linear *l, int x, int n_experts, struct err *e)
{
    char name[320];
    uint8_t least, largest;
    snprintf(name, sizeof name, "%s_blocks", l->module);
    l->qweight = plan_find(p, name, "");
    snprintf(name, sizeof name, "%s_scales", l->module);
    l->scales = plan_find(p, name, "");
    if (!l->scales) return err_set(e, "%s: tensor '%s' is missing", p->dir->path, name);
    if (l->in % MXFP4_GROUP)
        return err_set(e, "%s: module '%s': MXFP4 needs a multiple of 32 inputs, not %" PRId64,
                       p->dir->path, l->module, l->in);
    l->store = STORE_MXFP4, l->layout = UNPACK_STREAM, l->bits = 8, l->group = MXFP4_GROUP;
    l->n_source = l->in / MXFP4_GROUP, l->n_words = l->in / 8;
    const int64_t shape[4] = {n_experts, l->out, l->n_source, MXFP4_GROUP / 2};
    if (expect_bytes(l->qweight, shape, 4, e) || expect_bytes(l->scales, shape, 3, e)) return -1;
    l->qweight_from = (uint64_t)x * (uint64_t)(l->out * l->in / 2);
    l->scales_from = (uint64_t)x * (uint64_t)(l->out * l->n_source);
    if (scan_e8m0(l, &least, &largest, e)) return -1;
    /* Half the scale and, for the upper half of the code, 8 times it must be F16 numbers. */
    l->scale_type = least >= 128 - 24 && largest <= 128 + 11 ? DT_F16 : DT_F32;
    plan_quant_count(p, l, 4, MXFP4_GROUP);
    return 0;
}

/* The largest magnitude of a matrix; NaN and infinity are errors. */
static int scan_plain(const struct plain_matrix *m, float *largest, struct err *e)
{
    enum dtype type = m->t->t->dtype;
    uint64_t n = (uint64_t)(m->in * m->out), piece = SCAN_BYTES / dtype_bytes(type), k;
    if (piece > n) piece = n;
    void *raw = malloc(piece * dtype_bytes(type) + 1);
    int rc = raw ? 0 : err_memory(e);
    *largest = 0;
    for (uint64_t at = 0; at < n && !rc; at += k) {
        k = n - at < piece ? n - at : piece;
        rc = st_read(m->t->shard, raw, m->t->t->offset + m->at + at * dtype_bytes(type),
                     k * dtype_bytes(type), e);
        int bad = 0;
        float top = 0;
        for (uint64_t i = 0; i < k && !rc; i++) {
            float v = fabsf(f32_at(raw, type, i));
            bad |= !(v <= 3e38f);
            top = v > top ? v : top;
        }
        if (!rc && bad)
            rc = err_set(e, "%s: tensor '%s' holds NaN or infinity: the checkpoint is damaged",
                         m->t->shard->path, m->t->t->name);
        if (top > *largest) *largest = top;
    }
    free(raw);
    return rc;
}

int plan_rounded_read(struct plan *p, struct quant_linear *l, struct err *e)
{
    float largest = 1;
    l->store = STORE_ROUNDED, l->bits = 8, l->group = ROUND8_GROUP;
    l->qweight = l->plain->t; /* for messages */
    l->n_source = (l->in + ROUND8_GROUP - 1) / ROUND8_GROUP;
    if (!p->options.sizes_only && scan_plain(l->plain, &largest, e)) return -1;
    if (largest > 1e36f)
        return err_set(e, "%s: tensor '%s' holds %g: too large to be rounded to 8 bits",
                       l->plain->t->shard->path, l->plain->t->t->name, (double)largest);
    l->scale_type = round8_scale_type(largest);
    return 0;
}
