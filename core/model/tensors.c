#include "core/model/tensors.h"

#include <stdio.h>
#include <string.h>

/* Fetches a tensor and checks its dtype (two may be allowed) and shape; -1 allows any dimension. */
static int fetch(const struct modelfile *f, const char *name, const char *dtypes, int n_dims,
                 const int64_t *shape, struct tview *v, struct err *e)
{
    const char *path = f->st.path;
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

/* A vector of n finite fp32 elements. */
static int fetch_f32(const struct modelfile *f, const char *name, int64_t n, const float **out,
                     struct err *e)
{
    struct tview v;
    if (fetch(f, name, "F32", 1, &n, &v, e) || check_finite(f, name, &v, e)) return -1;
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
    if (fetch(f, name, "F16 F32", 3, (int64_t[]){panels, -1, MF_PANEL}, &v, e)) return -1;
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
    if (fetch(f, name, "U8", 3, (int64_t[]){panels, groups, MF_PANEL}, &v, e)) return -1;
    w->zeros = v.data;
    unsigned bad = 0;
    for (size_t i = 0; i < v.bytes; i++) bad |= w->zeros[i] > 16;
    if (bad) return err_set(e, "%s: tensor '%s' holds a zero point above 16", path, name);

    snprintf(name, sizeof name, "%s.perm", prefix);
    if (mf_find(f, name, &v)) {
        if (fetch(f, name, "I32", 1, (int64_t[]){w->k}, &v, e)) return -1;
        w->perm = v.data;
        for (int j = 0; j < w->k; j++)
            if (w->perm[j] < -1 || w->perm[j] >= in)
                return err_set(e, "%s: tensor '%s': entry %d is %d, the layer has %d inputs", path,
                               name, j, w->perm[j], in);
    } else if (w->k != in) {
        return err_set(e, "%s: '%s' packs %d inputs of %d and has no perm", path, prefix, w->k, in);
    }
    return 0;
}

static int fetch_linear(const struct modelfile *f, const char *prefix, int in, int out,
                        struct linear *w, struct err *e)
{
    char name[160];
    struct tview v;
    memset(w, 0, sizeof *w);
    w->in = in;
    w->out = out;
    snprintf(name, sizeof name, "%s.codes", prefix);
    if (mf_find(f, name, &v)) {
        if (fetch(f, name, "U8", 4, (int64_t[]){(out + MF_PANEL - 1) / MF_PANEL, -1, MF_PANEL, 4},
                  &v, e))
            return -1;
        if (v.shape[1] < 1 || v.shape[1] > MODEL_MAX_SIZE / MF_BLOCK)
            return err_set(e, "%s: tensor '%s' has no or too many inputs", f->st.path, name);
        if (fetch_quantized(f, prefix, in, out, &v, w, e)) return -1;
    } else {
        snprintf(name, sizeof name, "%s.weight", prefix);
        if (fetch(f, name, "F16 BF16 F32", 2, (int64_t[]){out, in}, &v, e)) return -1;
        w->weight = v.data;
        w->weight_type = v.dtype;
        w->k = in;
    }
    snprintf(name, sizeof name, "%s.bias", prefix);
    return mf_find(f, name, &v) ? fetch_f32(f, name, out, &w->bias, e) : 0;
}

static int source_linear(void *self, const char *name, int in, int out, struct linear *w,
                         struct err *e)
{
    const struct modelfile *f = self;
    char full[160];
    struct tview v;
    snprintf(full, sizeof full, "%s.codes", name);
    if (!mf_find(f, full, &v)) {
        snprintf(full, sizeof full, "%s.weight", name);
        if (!mf_find(f, full, &v)) return 0;
    }
    return fetch_linear(f, name, in, out, w, e) ? -1 : 1;
}

static int source_vector(void *self, const char *name, int n, const float **out, struct err *e)
{
    const struct modelfile *f = self;
    struct tview v;
    if (!mf_find(f, name, &v)) return 0;
    return fetch_f32(f, name, n, out, e) ? -1 : 1;
}

struct weight_source tensors_of(struct modelfile *f)
{
    return (struct weight_source){f, f->st.path, source_linear, source_vector};
}
