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

/* The source of weights of one shape. */
struct made {
    const struct shape *shape;
    struct pool_of_bytes bytes;
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

static int made_linear(void *self, const char *name, int stack, int in, int out, struct linear *w,
                       struct err *e)
{
    struct made *made = self;
    struct pool_of_bytes *p = &made->bytes;
    (void)e, (void)stack;
    if (strcmp(name, "embed_tokens") && strcmp(name, "lm_head")) {
        make_linear(p, w, in, out, made->shape->group);
        return 1;
    }
    uint16_t *v = take(p, (size_t)in * (size_t)out * 2);
    *w = (struct linear){.in = in, .out = out, .k = in, .weight = v, .weight_type = DT_F16};
    if (p->at) fill_halves(v, (size_t)in * (size_t)out, 0.01f);
    else w->weight = self; /* while bytes are counted: not NULL */
    return 1;
}

static int made_vector(void *self, const char *name, int n, const float **out, struct err *e)
{
    struct made *made = self;
    (void)e;
    if (strstr(name, "q_norm") || strstr(name, "k_norm") || strstr(name, ".long")) return 0;
    float *v = take(&made->bytes, (size_t)n * sizeof *v);
    int angles = !strcmp(name, "rope.inv_freq");
    for (int i = 0; made->bytes.at && i < n; i++)
        v[i] = angles ? powf(10000.0f, -(float)i / (float)n) : 1;
    *out = made->bytes.at ? v : self; /* while bytes are counted: not NULL */
    return 1;
}

int shape_open(struct model *m, const struct shape *s, struct err *e)
{
    struct made made = {.shape = s};
    const struct weight_source from = {&made, s->name, made_linear, made_vector};
    memset(m, 0, sizeof *m);
    m->config = (struct model_config){.architecture = "llama",
                                      .n_layers = s->n_layers,
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
    m->config.windows = calloc((size_t)s->n_layers, sizeof *m->config.windows);
    if (!m->config.windows) return err_memory(e);
    if (arch_build(&m->plan, &m->config, NULL, &from, e)) goto fail; /* counts */
    step_plan_free(&m->plan);
    size_t bytes = made.bytes.n;
    made.bytes = (struct pool_of_bytes){aligned_alloc(MF_ALIGN, bytes), 0};
    m->made_up = made.bytes.at;
    if (!made.bytes.at) {
        err_memory_for(e, "out of memory for made-up weights (%zu bytes)", bytes);
        goto fail;
    }
    if (arch_build(&m->plan, &m->config, NULL, &from, e)) goto fail;
    CHECK(made.bytes.n == bytes);
    return 0;
fail:
    shape_close(m);
    return -1;
}

void shape_close(struct model *m)
{
    step_plan_free(&m->plan);
    free(m->config.windows);
    free(m->made_up);
    memset(m, 0, sizeof *m);
}
