/* unit_arch_plans.c: what the plans of architectures do: experts, latent heads, states, shared
 * keys, their order of operations, sets of steps, choices of a backend. */
#include "tests/unit/arch_built.h"

static int count(const struct step_plan *p, enum op_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++) n += p->op[i].kind == kind;
    return n;
}

static const struct op *first(const struct step_plan *p, enum op_kind kind)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->op[i].kind == kind) return &p->op[i];
    fail_msg("no operation of kind %d", kind);
    return NULL;
}

static size_t row_bytes(const struct step_plan *p, int buffer)
{
    return p->buffer[buffer].row_bytes;
}

static void test_experts(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "qwen2_moe", "{" SPARSE(48) "}", no_head_norms);
    const struct op *route = first(p, OP_ROUTE), *up = first(p, OP_EXPERTS), *glu = up + 1,
                    *down = up + 2, *mix = up + 3;
    assert_int_equal(count(p, OP_ROUTE), 1); /* layer 0 is dense */
    assert_int_equal(count(p, OP_EXPERTS), 2);
    assert_true(glu->kind == OP_GLU && down->kind == OP_EXPERTS && mix->kind == OP_MIX);
    assert_int_equal(row_bytes(p, route->out[0]), 2 * 4);
    assert_int_equal(row_bytes(p, up->out[1]), 2 * 32 * 4);
    assert_int_equal(row_bytes(p, down->out[0]), 2 * 64 * 4);
    assert_true(up->in[1] == route->out[0] && !up->as.experts.each && up->n == 2);
    assert_true(down->in[0] == glu->out[0] && down->as.experts.each && down->n == 1);
    assert_true(mix->in[0] == down->out[0] && mix->in[1] == route->out[1]);
    const struct op *add = first(p, OP_ADD); /* the shared expert with its gate */
    assert_true(add->in[0] == mix->out[0] && row_bytes(p, add->in[2]) == 4);
    step_plan_free(&b.plan);
}

/* Latent heads: a key is a value and what rotates; linears of their own for every head. */
static void test_latent(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "deepseek_v2", "{\"q_lora_dim\": 0, \"router_group_best\": 1, " LATENT_KEYS "}",
          none);
    const struct op *heads = first(p, OP_EXPERTS), *rope = heads + 1, *attend = heads + 2,
                    *values = heads + 3;
    const struct heads *h = &attend->as.attend.heads;
    assert_true(rope->kind == OP_ROPE_STORE && attend->kind == OP_ATTEND &&
                values->kind == OP_EXPERTS);
    assert_true(heads_are_latent(h) && h->n_heads == 6 && h->head_dim == 48 && h->rotated == 16);
    assert_true(heads->in[1] == NO_BUFFER && heads->as.experts.each &&
                heads->as.experts.top_k == 6);
    assert_true(rope->in[0] == heads->out[0] && rope->out[0] == attend->in[0] &&
                attend->out[0] == values->in[0]);
    assert_int_equal(row_bytes(p, attend->in[0]), 6 * 48 * 4);
    assert_int_equal(row_bytes(p, attend->out[0]), 6 * 32 * 4);
    assert_int_equal(row_bytes(p, values->out[0]), 6 * 10 * 4);
    assert_true(p->n_kv == 2 && kv_is_latent(&p->kv[0]) && p->kv[0].n_kv_heads == 1);
    /* 48 numbers a position, of integers two scales besides */
    assert_int_equal(kv_format_page_bytes(KV_F16, &p->kv[0]), 16 * 48 * 2);
    assert_int_equal(kv_format_page_bytes(KV_INT8, &p->kv[0]), 16 * (48 + 8));
    assert_int_equal(kv_format_page_bytes(KV_INT4, &p->kv[0]), (16 * (24 + 8) + 96 + 63) / 64 * 64);
    assert_true(first(p, OP_ROUTE)->as.route.group_best);
    step_plan_free(&b.plan);
}

/* A choice of the indexer for attention; a layer without one takes the choice before. */
static void test_indexer(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "glm_moe_dsa", "{\"q_lora_dim\": 40, " LATENT_KEYS ", " INDEX_KEYS("[1, 0]") "}",
          none);
    const struct op *choose = first(p, OP_CHOOSE), *store = choose - 1, *attend = choose + 1;
    int n = 0, chosen = choose->out[0];
    assert_int_equal(count(p, OP_CHOOSE), 1);
    assert_true(store->kind == OP_ROPE_STORE && attend->kind == OP_ATTEND);
    assert_true(store->as.rope.joined && store->in[1] == store->in[2]);
    assert_int_equal(store->as.rope.kv, choose->as.choose.kv);
    assert_int_not_equal(choose->as.choose.kv, attend->as.attend.kv);
    assert_true(store->out[0] == choose->in[0] && choose->as.choose.heads.rotated == 16);
    assert_int_equal(row_bytes(p, choose->in[0]), 3 * 40 * 4);
    assert_int_equal(row_bytes(p, choose->in[1]), 3 * 4);
    assert_int_equal(row_bytes(p, chosen), 7 * 4);
    for (int i = 0; i < p->n_ops; i++) {
        if (p->op[i].kind != OP_ATTEND) continue;
        assert_true(p->op[i].in[1] == chosen && p->op[i].as.attend.chosen == 7);
        n++;
    }
    assert_int_equal(n, 2);
    assert_true(p->n_kv == 3 && kv_is_latent(&p->kv[1]) && p->kv[1].head_dim == 40);
    step_plan_free(&b.plan);
}

/* The draft layer chooses by an indexer of its own, whatever the layers before it have. */
static void test_indexer_of_drafts(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    const struct op *choose = NULL, *attend = NULL;
    (void)state;
    build(&b, "glm_moe_dsa",
          "{\"q_lora_dim\": 40, \"draft_layers\": 1, \"draft_experts\": 0, " LATENT_KEYS
          ", " INDEX_KEYS("[1, 0]") "}",
          none);
    for (int i = 0; i < p->n_draft; i++) {
        if (p->draft[i].kind == OP_CHOOSE) choose = &p->draft[i];
        if (p->draft[i].kind == OP_ATTEND) attend = &p->draft[i];
    }
    assert_true(choose && attend && choose < attend);
    assert_true(attend->in[1] == choose->out[0] && attend->as.attend.chosen == 7);
    assert_int_equal(p->n_kv, 5);
    assert_true(choose->as.choose.kv >= 3 && attend->as.attend.kv >= 3);
    assert_int_not_equal(choose->as.choose.kv, attend->as.attend.kv);
    step_plan_free(&b.plan);
}

/* Hunyuan: heads are rotated, then normed, then stored as they are. Cohere: one LayerNorm without
 * bias, two blocks. */
static void test_orders(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "hunyuan_v1_dense", "{}", none);
    const struct op *q = first(p, OP_ROPE_STORE), *k = q + 1, *q_norm = q + 2, *k_norm = q + 3,
                    *store = q + 4;
    assert_true(q->as.rope.ahead && q->as.rope.heads.n_heads == 6 && q->in[1] < 0);
    assert_true(k->as.rope.ahead && k->as.rope.heads.n_heads == 3 && k->in[1] < 0);
    assert_true(q_norm->kind == OP_NORM && q_norm->as.norm.groups == 6);
    assert_true(k_norm->kind == OP_NORM && k_norm->as.norm.groups == 3);
    assert_true(store->kind == OP_ROPE_STORE && !store->as.rope.ahead && store->w[0] < 0);
    assert_true(store->in[0] == q_norm->out[0] && store->in[1] == k_norm->out[0]);
    assert_true(store->in[3] != q->in[3] && q->as.rope.kv == store->as.rope.kv);
    step_plan_free(&b.plan);
    build(&b, "cohere2", "{\"no_rope\": [1, 0], \"logits_scale\": 0.25}", no_head_norms);
    const struct op *norm = first(p, OP_NORM);
    assert_true(norm->as.norm.centered && norm->w[1] < 0);
    assert_int_equal(count(p, OP_NORM), 3);
    assert_int_equal(count(p, OP_ADD), 3); /* attention in two layers, the factor on logits */
    step_plan_free(&b.plan);
    build(&b, "llama4",
          "{\"no_rope\": [1, 0], \"chunks\": [0, 8], \"query_beta\": 0.1, \"query_original\": 16, "
          "\"experts\": [0, 1], \"shared_ffn\": 0, \"n_experts\": 6, \"top_k\": 1,"
          "\"expert_ffn\": 32, \"router_score\": \"sigmoid\", \"router_normalize\": 0,"
          "\"router_scale\": 1.0, \"router_groups\": 1, \"router_kept_groups\": 1}",
          none);
    const struct op *attend = first(p, OP_ATTEND), *scale = first(p, OP_ADD),
                    *mix = first(p, OP_MIX), *up = first(p, OP_EXPERTS);
    assert_true(attend->layer == 0 && attend->as.attend.window == 0);
    while ((++attend)->kind != OP_ATTEND) {
    }
    assert_int_equal(attend->as.attend.window, -8);
    assert_int_equal(count(p, OP_ADD), 1); /* of the layer that does not rotate */
    assert_true(scale->layer == 0 && scale->as.add.first == 1 && scale->as.add.original == 16);
    assert_true(count(p, OP_MIX) == 1 && up->in[0] == mix->out[0]);
    step_plan_free(&b.plan);
}

static void test_states(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "qwen3_next", "{" DELTA_KEYS "}", none);
    assert_int_equal(p->n_states, 2);
    assert_int_equal(p->n_kv, 1);
    assert_int_equal(p->state[first(p, OP_CONV)->as.conv.state].bytes, 3 * 88 * 4);
    assert_int_equal(p->state[first(p, OP_DELTA)->as.delta.state].bytes, 4 * 12 * 10 * 4);
    assert_true(first(p, OP_GLU)->as.glu.activation == ACTIVATION_SIGMOID); /* layer 0's gate */
    step_plan_free(&b.plan);
}

/* The operations of Mamba-2: the recurrence, norms of groups, factors. */
static void test_mamba(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "nemotron_h", "{" MAMBA_KEYS "}", no_head_norms);
    const struct op *conv = first(p, OP_CONV), *delta = conv + 1, *glu = delta + 1, *norm = glu + 1;
    assert_true(delta->kind == OP_DELTA && glu->kind == OP_GLU && norm->kind == OP_NORM);
    assert_true(delta->as.delta.rule == DELTA_SSM && delta->in[2] < 0 && delta->w[2] >= 0);
    assert_true(conv->w[1] >= 0 && !conv->as.conv.linear);
    assert_true(norm->as.norm.groups == 2 && norm->as.norm.own && norm->in[0] == glu->in[0]);
    assert_int_equal(p->state[delta->as.delta.state].bytes, 4 * 12 * 10 * 4);
    step_plan_free(&b.plan);
    build(&b, "falcon_h1", "{" FALCON_KEYS ", \"mamba_norm\": \"first\"}", no_head_norms);
    delta = first(p, OP_DELTA);
    assert_true(delta[1].kind == OP_NORM && delta[2].kind == OP_GLU);
    assert_int_equal(count(p, OP_ADD), 2 * 7 + 1);
    assert_int_equal(p->n_states, 4);
    assert_int_equal(p->n_kv, 2);
    step_plan_free(&b.plan);
    build(&b, "lfm2", "{\"layer_types\": [0, 1], \"conv_width\": 4, \"conv_bias\": 0}", none);
    conv = first(p, OP_CONV);
    assert_true(conv->as.conv.linear && conv->w[1] < 0 && conv[-1].kind == OP_GLU &&
                conv[1].kind == OP_GLU);
    assert_true(conv[-1].as.glu.activation == ACTIVATION_NONE && conv[1].in[1] == conv->out[0]);
    assert_int_equal(p->state[conv->as.conv.state].bytes, 3 * 64 * 4);
    step_plan_free(&b.plan);
}

/* A decay for each channel, or for each cell of the state. */
static void test_decays(void **state)
{
    static struct built b;
    const struct step_plan *p = &b.plan;
    (void)state;
    build(&b, "kimi_linear", "{\"q_lora_dim\": 0, " DELTA_KEYS ", " LATENT_KEYS "}", none);
    const struct op *delta = first(p, OP_DELTA), *norm = delta + 1, *glu = delta + 2;
    assert_true(delta->as.delta.rule == DELTA_CHANNELS && norm->kind == OP_NORM);
    assert_int_equal(row_bytes(p, delta->in[1]), 4 * 12 * 4);
    assert_int_equal(row_bytes(p, delta->in[2]), 4 * 4);
    assert_true(glu->kind == OP_GLU && glu->as.glu.activation == ACTIVATION_SIGMOID);
    assert_int_equal(p->state[delta->as.delta.state].kept_bytes, (2 * 24 + 40 + 48 + 4) * 4);
    assert_true(p->n_kv == 1 && kv_is_latent(&p->kv[0]));
    step_plan_free(&b.plan);
    build(&b, "jamba", "{" SCAN_KEYS("[0, 1]") "}", no_head_norms);
    delta = first(p, OP_DELTA);
    assert_true(delta->as.delta.rule == DELTA_SCAN && delta->in[2] < 0 && delta->w[1] < 0);
    assert_int_equal(row_bytes(p, delta->in[0]), 6 * 4);
    assert_int_equal(row_bytes(p, delta->in[3]), 6 * 4);
    assert_int_equal(row_bytes(p, delta->in[1]), 40 * 4);
    assert_int_equal(p->state[delta->as.delta.state].bytes, 6 * 40 * 4);
    assert_int_equal(p->state[delta->as.delta.state].kept_bytes, (2 * 6 + 2 * 40) * 4);
    step_plan_free(&b.plan);
}

/* A layer that reads the keys and values of an earlier one. */
static void test_shared_keys(void **state)
{
    static const char keys[] =
        "{" GEMMA_KEYS ", \"head_dims\": [16, 16], \"kv_heads\": [3, 3], \"ffns\": [160, 160],"
        "\"layer_scalar\": [1.0, 1.0], \"ple_dim\": 0, \"kv_from\": [0, 0]}";
    static struct built b;
    const struct step_plan *p = &b.plan;
    int n = 0;
    (void)state;
    build(&b, "gemma4", keys, none);
    assert_true(b.rc && strstr(b.e.msg, "'kv_from'")); /* one layer has a window */
    windows[0] = 8;
    build(&b, "gemma4", keys, none);
    windows[0] = 0;
    assert_int_equal(b.rc, 0);
    assert_int_equal(p->n_kv, 1);
    assert_false(has(&b.made, "layers.1.self_attn.k_proj 64>48"));
    assert_false(has(&b.made, "rope.full.inv_freq 8"));
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind == OP_ATTEND) assert_int_equal(op->as.attend.kv, 0);
        if (op->kind != OP_ROPE_STORE) continue;
        assert_true((op->in[1] >= 0) == (op->layer == 0) && (op->w[1] >= 0) == (op->layer == 0));
        n++;
    }
    assert_int_equal(n, 2);
    step_plan_free(&b.plan);
}

/* An OP_ROPE_STORE of a cache, or an OP_ATTEND. */
static struct op kv_op(enum op_kind kind, int kv)
{
    struct op op = op_of(kind, "kv", 0);
    if (kind == OP_ATTEND) op.as.attend.kv = kv;
    else op.as.rope.kv = kv, op.in[1] = 0;
    return op;
}

/* Step pages are used again as soon as nothing attends to them. */
static void test_step_sets(void **state)
{
    struct op op[] = {kv_op(OP_ROPE_STORE, 0), kv_op(OP_ATTEND, 0),     kv_op(OP_ROPE_STORE, 1),
                      kv_op(OP_ATTEND, 1),     kv_op(OP_ROPE_STORE, 2), kv_op(OP_ATTEND, 2),
                      kv_op(OP_ATTEND, 1),     kv_op(OP_ROPE_STORE, 3), kv_op(OP_ATTEND, 3)};
    static const int want[] = {0, 0, 0, 0, 1, 1, 0, 0, 0};
    struct step_plan p = {.op = op, .n_ops = sizeof op / sizeof *op};
    (void)state;
    step_plan_liveness(&p, 0);
    assert_int_equal(p.n_step_sets, 2);
    for (int i = 0; i < p.n_ops; i++)
        assert_int_equal(
            op[i].kind == OP_ATTEND ? op[i].as.attend.step_set : op[i].as.rope.step_set, want[i]);
}

/* What the bytes of another kind of operation say at the place of a cache is no matter. */
static void test_step_sets_of_attention_alone(void **state)
{
    (void)state;
    for (enum op_kind kind = 0; kind < OP_KINDS; kind++) {
        struct op op[] = {kv_op(OP_ROPE_STORE, 3), op_of(kind, "other", 0), kv_op(OP_ATTEND, 3)};
        struct step_plan p = {.op = op, .n_ops = 3};
        if (kind == OP_ATTEND || kind == OP_ROPE_STORE || kind == OP_CHOOSE) continue;
        op[1].as.attend.kv = 3, op[1].as.attend.step_set = -7;
        step_plan_liveness(&p, 0);
        assert_int_equal(op[1].as.attend.step_set, -7);
        assert_int_equal(op[2].as.attend.step_set, 0);
    }
}

/* The choices of the step before have one buffer, also where it is the plan's first. */
static void test_best(void **state)
{
    (void)state;
    struct made made = {.absent = none};
    struct step_plan p;
    struct err e = {0};
    struct model_config g = {.dim = 8, .vocab = 16};
    struct builder b = {.config = &g,
                        .from = {&made, "made", made_linear, made_vector},
                        .plan = &p,
                        .layer = -1,
                        .err = &e};
    step_plan_init(&p);
    int table = arch_linear(&b, "embed_tokens", 8, 16);
    int first = arch_embed(&b, table, 5)->in[0], second = arch_embed(&b, table, 5)->in[0];
    assert_false(b.failed);
    assert_int_equal(first, 0);
    assert_int_equal(second, 0);
    assert_int_equal(p.n_buffers, 1);
    step_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experts),   cmocka_unit_test(test_latent),
        cmocka_unit_test(test_indexer),   cmocka_unit_test(test_orders),
        cmocka_unit_test(test_states),    cmocka_unit_test(test_mamba),
        cmocka_unit_test(test_decays),    cmocka_unit_test(test_shared_keys),
        cmocka_unit_test(test_step_sets), cmocka_unit_test(test_step_sets_of_attention_alone),
        cmocka_unit_test(test_best),      cmocka_unit_test(test_indexer_of_drafts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
