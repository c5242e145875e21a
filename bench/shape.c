#include "bench/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct shape shapes[] = {
    {"tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64, 32000, 2048, 128},
    {"llama-3-8b", 32, 4096, 14336, 32, 8, 128, 128256, 8192, 128},
    {"llama-2-7b", 32, 4096, 11008, 32, 32, 128, 32000, 4096, 128},
    {"codellama-7b", 32, 4096, 11008, 32, 32, 128, 32016, 16384, 128},
    {"llama-13b", 40, 5120, 13824, 40, 40, 128, 32000, 2048, 128},
    {"qwen1.5-1.8b", 24, 2048, 5504, 16, 16, 128, 151936, 32768, 128},
    {"qwen1.5-4b", 40, 2560, 6912, 20, 20, 128, 151936, 32768, 128},
    {"tiny", 1, 128, 256, 2, 1, 64, 320, 2048, 128},
    {0},
};
/* clang-format on */

/* One block for all weights: first counted, then handed out. */
struct pool_of_bytes {
    char *at; /* NULL: only count */
    size_t n;
};

static void *take(struct pool_of_bytes *p, size_t bytes)
{
    char *got = p->at ? p->at + p->n : NULL;
    p->n += (bytes + MF_ALIGN - 1) / MF_ALIGN * MF_ALIGN;
    return got;
}

static void fill_random(void *p, size_t bytes, uint64_t seed)
{
    uint64_t *v = p;
    for (size_t i = 0; i < bytes / 8; i++)
        v[i] = seed = seed * 6364136223846793005u + 1442695040888963407u;
}

static void fill_halves(uint16_t *p, size_t n, float scale)
{
    enum { PERIOD = 1 << 16 };
    uint16_t some[8];
    for (int i = 0; i < 8; i++) some[i] = f16_from_f32(scale * (float)(i - 4));
    for (size_t i = 0; i < n && i < PERIOD; i++) p[i] = some[(i + i / 8) % 8];
    for (size_t i = PERIOD; i < n; i += PERIOD)
        memcpy(p + i, p, (n - i < PERIOD ? n - i : PERIOD) * sizeof *p);
}

static void make_linear(struct pool_of_bytes *p, struct linear *w, int in, int out, int group)
{
    size_t rows = ((size_t)out + 15) / 16 * 16, codes = rows * (size_t)in / 2,
           groups = rows * (size_t)(in / group);
    uint8_t *c = take(p, codes), *z = take(p, groups);
    uint16_t *s = take(p, groups * 2);
    *w = (struct linear){.in = in,
                         .out = out,
                         .k = in,
                         .group = group,
                         .n_groups = in / group,
                         .scale_type = DT_F16};
    w->codes = c, w->zeros = z, w->scales = s;
    if (!p->at) return;
    fill_random(c, codes, (uint64_t)out);
    memset(z, 8, groups);
    for (size_t i = 0; i < groups; i++) s[i] = 0x2000; /* 2^-7 */
}

static const float *make_ones(struct pool_of_bytes *p, int n)
{
    float *v = take(p, (size_t)n * sizeof *v);
    for (int i = 0; p->at && i < n; i++) v[i] = 1;
    return v;
}

static void make_dense(struct pool_of_bytes *p, struct linear *w, int in, int out)
{
    uint16_t *v = take(p, (size_t)in * (size_t)out * 2);
    *w = (struct linear){.in = in, .out = out, .weight = v, .weight_type = DT_F16};
    if (p->at) fill_halves(v, (size_t)in * (size_t)out, 0.01f);
}

/* Hands out every weight; also used to count them. */
static void make_all(struct pool_of_bytes *p, struct model *m, const struct shape *s)
{
    struct model_config *g = &m->config;
    int q = s->n_heads * s->head_dim, kv = s->n_kv_heads * s->head_dim;
    g->windows = take(p, (size_t)s->n_layers * sizeof *g->windows);
    m->layers = take(p, (size_t)s->n_layers * sizeof *m->layers);
    float *f = take(p, (size_t)s->head_dim / 2 * sizeof *f);
    m->inv_freq = f;
    for (int i = 0; p->at && i < s->head_dim / 2; i++)
        f[i] = powf(10000.0f, -2.0f * (float)i / (float)s->head_dim);
    m->norm = make_ones(p, s->dim);
    for (int i = 0; i < s->n_layers; i++) {
        struct layer unused, *l = p->at ? &m->layers[i] : &unused;
        const int in[LIN_COUNT] = {s->dim, s->dim, s->dim, q, s->dim, s->dim, s->ffn};
        const int out[LIN_COUNT] = {q, kv, kv, s->dim, s->ffn, s->ffn, s->dim};
        for (int j = 0; j < LIN_COUNT; j++) make_linear(p, &l->linear[j], in[j], out[j], s->group);
        l->input_norm = make_ones(p, s->dim);
        l->post_norm = make_ones(p, s->dim);
    }
    make_dense(p, &m->embed, s->dim, s->vocab);
    make_dense(p, &m->head, s->dim, s->vocab);
}

int shape_open(struct model *m, const struct shape *s, struct err *e)
{
    struct pool_of_bytes p = {0};
    memset(m, 0, sizeof *m);
    make_all(&p, m, s);
    size_t bytes = p.n;
    char *block = aligned_alloc(MF_ALIGN, bytes);
    if (!block) return err_memory_for(e, "out of memory for made-up weights (%zu bytes)", bytes);
    memset(m, 0, sizeof *m);
    m->config = (struct model_config){.n_layers = s->n_layers,
                                      .dim = s->dim,
                                      .ffn = s->ffn,
                                      .n_heads = s->n_heads,
                                      .n_kv_heads = s->n_kv_heads,
                                      .head_dim = s->head_dim,
                                      .vocab = s->vocab,
                                      .context = s->context,
                                      .norm_eps = 1e-5f,
                                      .rope_scale = 1,
                                      .bos = -1};
    snprintf(m->config.architecture, sizeof m->config.architecture, "llama");
    p = (struct pool_of_bytes){block, 0};
    memset(block, 0,
           (size_t)s->n_layers * (sizeof(int) + sizeof(struct layer)) +
               2 * MF_ALIGN); /* windows, norms that are absent */
    make_all(&p, m, s);
    CHECK(p.n == bytes);
    return 0;
}

void shape_close(struct model *m)
{
    free(m->config.windows); /* the first thing taken from the block */
    memset(m, 0, sizeof *m);
}
