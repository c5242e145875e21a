/* arch_built.h: plans of architectures, built from a source of weights that records names and
 * shapes, for their tests. */
#ifndef TESTS_UNIT_ARCH_BUILT_H
#define TESTS_UNIT_ARCH_BUILT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/json.h"
#include "core/model/arch.h"
#include "core/step/kv_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 256, NAME_ROOM = 96 };

/* Has every tensor but those whose name contains one of `absent`. */
struct made {
    const char *const *absent;           /* ends with NULL */
    char tensor[MAX_TENSORS][NAME_ROOM]; /* "NAME IN>OUT", "NAME STACK*IN>OUT", "NAME N" */
    int n;
};

static int is_absent(const struct made *m, const char *name)
{
    for (const char *const *a = m->absent; *a; a++)
        if (strstr(name, *a)) return 1;
    return 0;
}

static int made_linear(void *self, const char *name, int stack, int in, int out, struct linear *w,
                       struct err *e)
{
    struct made *m = self;
    (void)e;
    if (is_absent(m, name)) return 0;
    assert_true(m->n < MAX_TENSORS);
    if (stack) snprintf(m->tensor[m->n++], NAME_ROOM, "%s %d*%d>%d", name, stack, in, out);
    else snprintf(m->tensor[m->n++], NAME_ROOM, "%s %d>%d", name, in, out);
    *w = (struct linear){.in = in, .out = out, .stack = stack, .k = in, .weight = self};
    return 1;
}

static int made_vector(void *self, const char *name, int n, const float **v, struct err *e)
{
    struct made *m = self;
    (void)e;
    if (is_absent(m, name)) return 0;
    assert_true(m->n < MAX_TENSORS);
    snprintf(m->tensor[m->n++], NAME_ROOM, "%s %d", name, n);
    *v = self;
    return 1;
}

/* A plan of two layers, the second with a window: 6 heads and 3 KV heads of 16. */
struct built {
    struct made made;
    struct step_plan plan;
    struct err e;
    int rc;
};

static int windows[] = {0, 8};

static void build(struct built *b, const char *architecture, const char *keys,
                  const char *const *absent)
{
    struct model_config g = {.n_layers = 2,
                             .dim = 64,
                             .ffn = 160,
                             .n_heads = 6,
                             .n_kv_heads = 3,
                             .head_dim = 16,
                             .vocab = 128,
                             .context = 256,
                             .norm_eps = 1e-6f,
                             .rope_scale = 1,
                             .bos = -1,
                             .windows = windows};
    json_t *json = json_loads(keys, 0, NULL);
    assert_non_null(json);
    snprintf(g.architecture, sizeof g.architecture, "%s", architecture);
    memset(b, 0, sizeof *b);
    b->made.absent = absent;
    const struct weight_source from = {&b->made, "made", made_linear, made_vector};
    b->rc = arch_build(&b->plan, &g, json, &from, &b->e);
    json_decref(json);
}

static const char *const none[] = {".long", "lm_head", NULL}, *const no_head_norms[] = {
                                                                  ".long", "lm_head", "q_norm",
                                                                  "k_norm", NULL};

static int has(const struct made *m, const char *tensor)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->tensor[i], tensor)) return 1;
    return 0;
}

/* Keys of experts but for `experts` and shared_ffn. */
#define MOE_KEYS                                                                                   \
    "\"n_experts\": 6, \"top_k\": 2, \"expert_ffn\": 32, \"router_score\": \"softmax\","           \
    "\"router_normalize\": 1, \"router_scale\": 1.0, \"router_groups\": 1,"                        \
    "\"router_kept_groups\": 1"
#define SPARSE(shared) "\"experts\": [0, 1], \"shared_ffn\": " #shared ", " MOE_KEYS
#define DELTA_SIZES                                                                                \
    "\"linear_key_heads\": 2, \"linear_value_heads\": 4, \"linear_key_dim\": 12,"                  \
    "\"linear_value_dim\": 10, \"conv_width\": 4"
#define DELTA_KEYS "\"layer_types\": [0, 1], " DELTA_SIZES
#define MAMBA_KEYS_OF(types) "\"layer_types\": " types ", \"conv_bias\": 1, " DELTA_SIZES
#define MAMBA_KEYS MAMBA_KEYS_OF("[0, 1]")
#define SCAN_KEYS(types)                                                                           \
    "\"layer_types\": " types ", \"scan_inner\": 40, \"scan_state\": 6, \"scan_rank\": 5,"         \
    "\"conv_width\": 4, \"conv_bias\": 1"
#define FALCON_KEYS                                                                                \
    DELTA_SIZES                                                                                    \
    ", \"conv_bias\": 1, \"embed_scale\": 5.0, \"attend_scale\": 0.4, \"logits_scale\": 0.5,"      \
    "\"attend_out_scale\": 0.5, \"mamba_gate_scale\": 1.5, \"mamba_dt_scale\": 0.5,"               \
    "\"mamba_out_scale\": 2.0, \"mlp_gate_scale\": 0.5, \"mlp_out_scale\": 2.0"
#define LATENT_KEYS                                                                                \
    "\"latent_dim\": 32, \"nope_dim\": 12, \"value_dim\": 10, \"latent_eps\": 1e-06,"              \
    "\"attend_scale\": 0.25, " SPARSE(48)
#define INDEX_KEYS(layers)                                                                         \
    "\"index_top_k\": 7, \"index_heads\": 3, \"index_dim\": 40, \"indexers\": " layers
#define GEMMA_KEYS "\"embed_scale\": 8.0, \"attend_scale\": 1.0, \"logits_softcap\": 30.0"

#endif
