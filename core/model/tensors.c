#include "core/model/tensors.h"

#include <stdio.h>
#include <string.h>

/* What a tensor must be. */
struct expected {
    const char *dtypes; /* names, with blanks between them */
    int stack;          /* > 0: the tensor has one more leading dimension, of this size */
    int n_dims;
    int64_t shape[4]; /* [n_dims], -1 allows any */
};

/* Fetches a tensor and checks its dtype and shape. v has the shape without a stack's dimension. */
static int fetch(const struct modelfile *f, const char *name, const struct expected *x,
                 struct tview *v, struct err *e)
{
    const char *path = f->st.path, *dtypes = x->dtypes;
    int64_t shape[ST_MAX_DIMS] = {x->stack};
    int lead = x->stack > 0, n_dims = lead + x->n_dims;
    memcpy(shape + lead, x->shape, sizeof x->shape);
    if (!mf_find(f, name, v)) return err_set(e, "%s: tensor '%s' is missing", path, name);
    const char *have = st_dtype_name(v->dtype), *at = strstr(dtypes, have);
    size_t n = strlen(have);
    if (!at || (at != dtypes && at[-1] != ' ') || (at[n] && at[n] != ' '))
        return err_set(e, "%s: tensor '%s' has dtype %s, expected %s", path, name, have, dtypes);
    int ok = v->n_dims == n_dims;
    for (int i = 0; ok && i < n_dims; i++) ok = shape[i] < 0 || v->shape[i] == shape[i];
    if (!ok) {
        char want[96] = "", got[96] = "";
        for (int i = 0; i < n_dims; i++)
            snprintf(want + strlen(want), sizeof want - strlen(want), i ? ",%lld" : "%lld",
                     (long long)shape[i]);
        for (int i = 0; i < v->n_dims; i++)
            snprintf(got + strlen(got), sizeof got - strlen(got), i ? ",%lld" : "%lld",
                     (long long)v->shape[i]);
        return err_set(e, "%s: tensor '%s' has shape [%s], the config needs [%s]", path, name, got,
                       want);
    }
    memmove(v->shape, v->shape + lead, (size_t)(n_dims - lead) * sizeof *v->shape);
    v->n_dims -= lead;
    if ((uintptr_t)v->data % 4) return err_set(e, "%s: tensor '%s' is not aligned", path, name);
    return 0;
}

static int check_finite(const struct modelfile *f, const char *name, const struct tview *v,
                        struct err *e)
{
    size_t n = v->bytes / dtype_bytes(v->dtype);
    unsigned bad = 0; /* branch-free, so that the compiler vectorizes: a 7B has 50 million scales */
    if (v->dtype == DT_F16) {
        const uint16_t *p = v->data;
        for (size_t i = 0; i < n; i++) bad |= (p[i] & 0x7c00) == 0x7c00;
    } else {
        const uint32_t *p = v->data;
        for (size_t i = 0; i < n; i++) bad |= (p[i] & 0x7f800000) == 0x7f800000;
    }
    return bad ? err_set(e, "%s: tensor '%s' holds NaN or infinity", f->st.path, name) : 0;
}

/* Finite fp32 elements. */
static int fetch_f32(const struct modelfile *f, const char *name, const struct expected *x,
                     const float **out, struct err *e)
{
    struct tview v;
    if (fetch(f, name, x, &v, e) || check_finite(f, name, &v, e)) return -1;
    *out = v.data;
    return 0;
}

static int fetch_quantized(const struct modelfile *f, const char *prefix, int in, int out,
                           const struct tview *codes, struct linear *w, struct err *e)
{
    char name[160];
    const char *path = f->st.path;
    struct tview v;
    int64_t panels = (out + MF_PANEL - 1) / MF_PANEL;
    w->k = (int)(codes->shape[1] * MF_BLOCK);
    w->codes = codes->data;

    snprintf(name, sizeof name, "%s.scales", prefix);
    const struct expected scales = {"F16 F32", w->stack, 3, {panels, -1, MF_PANEL}};
    if (fetch(f, name, &scales, &v, e)) return -1;
    int64_t groups = v.shape[1];
    if (groups < 1 || w->k % groups || (w->k / groups) % MF_GROUP_MULTIPLE)
        return err_set(e,
                       "%s: tensor '%s': %lld groups do not divide %d inputs into multiples of %d",
                       path, name, (long long)groups, w->k, MF_GROUP_MULTIPLE);
    if (check_finite(f, name, &v, e)) return -1;
    w->n_groups = (int)groups;
    w->group = w->k / w->n_groups;
    w->scales = v.data;
    w->scale_type = v.dtype;

    snprintf(name, sizeof name, "%s.zeros", prefix);
    const struct expected zeros = {"U8", w->stack, 3, {panels, groups, MF_PANEL}};
    if (fetch(f, name, &zeros, &v, e)) return -1;
    w->zeros = v.data;
    unsigned bad = 0;
    for (size_t i = 0; i < v.bytes; i++) bad |= w->zeros[i] > 16;
    if (bad) return err_set(e, "%s: tensor '%s' holds a zero point above 16", path, name);

    snprintf(name, sizeof name, "%s.perm", prefix);
    if (mf_find(f, name, &v)) {
        const struct expected perm = {"I32", w->stack, 1, {w->k}};
        if (fetch(f, name, &perm, &v, e)) return -1;
        w->perm = v.data;
        for (size_t j = 0; j < v.bytes / sizeof *w->perm; j++)
            if (w->perm[j] < -1 || w->perm[j] >= in)
                return err_set(e, "%s: tensor '%s': entry %zu is %d, the layer has %d inputs", path,
                               name, j, w->perm[j], in);
    } else if (w->k != in) {
        return err_set(e, "%s: '%s' packs %d inputs of %d and has no perm", path, prefix, w->k, in);
    }
    linear_find_pairs(w);
    return 0;
}

static int fetch_linear(const struct modelfile *f, const char *prefix, int stack, int in, int out,
                        struct linear *w, struct err *e)
{
    char name[160];
    struct tview v;
    *w = (struct linear){.in = in, .out = out, .stack = stack};
    snprintf(name, sizeof name, "%s.codes", prefix);
    if (mf_find(f, name, &v)) {
        const struct expected codes = {
            "U8", stack, 4, {(out + MF_PANEL - 1) / MF_PANEL, -1, MF_PANEL, 4}};
        if (fetch(f, name, &codes, &v, e)) return -1;
        if (v.shape[1] < 1 || v.shape[1] > MODEL_MAX_SIZE / MF_BLOCK)
            return err_set(e, "%s: tensor '%s' has no or too many inputs", f->st.path, name);
        if (fetch_quantized(f, prefix, in, out, &v, w, e)) return -1;
    } else {
        snprintf(name, sizeof name, "%s.weight", prefix);
        const struct expected plain = {"F16 BF16 F32", stack, 2, {out, in}};
        if (fetch(f, name, &plain, &v, e)) return -1;
        w->weight = v.data;
        w->weight_type = v.dtype;
        w->k = in;
    }
    snprintf(name, sizeof name, "%s.bias", prefix);
    const struct expected bias = {"F32", stack, 1, {out}};
    return mf_find(f, name, &v) ? fetch_f32(f, name, &bias, &w->bias, e) : 0;
}

static int source_linear(void *self, const char *name, int stack, int in, int out,
                         struct linear *w, struct err *e)
{
    const struct modelfile *f = self;
    char full[160];
    struct tview v;
    snprintf(full, sizeof full, "%s.codes", name);
    if (!mf_find(f, full, &v)) {
        snprintf(full, sizeof full, "%s.weight", name);
        if (!mf_find(f, full, &v)) return 0;
    }
    return fetch_linear(f, name, stack, in, out, w, e) ? -1 : 1;
}

static int source_vector(void *self, const char *name, int n, const float **out, struct err *e)
{
    const struct modelfile *f = self;
    struct tview v;
    struct expected x = {"F32", 0, 1, {n}};
    if (!mf_find(f, name, &v)) return 0;
    if (v.n_dims == 2 && v.shape[0] > 0 && n % v.shape[0] == 0) { /* a matrix of n elements */
        x.n_dims = 2;
        x.shape[0] = v.shape[0];
        x.shape[1] = n / v.shape[0];
    }
    return fetch_f32(f, name, &x, out, e) ? -1 : 1;
}

struct weight_source tensors_of(struct modelfile *f)
{
    return (struct weight_source){f, f->st.path, source_linear, source_vector};
}
