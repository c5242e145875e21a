/* unit_rows.c: the rows of a module that a linear of the model file takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "convert/plan_rows.h"

#include <stdlib.h>
#include <string.h>

/* The rule of an output from a source. */
static const struct linear_rule *rule_of(const char *to, const char *from)
{
    for (const struct linear_rule *r = linear_rules; r->to; r++)
        if (!strcmp(r->to, to) && !strcmp(r->from, from)) return r;
    fail_msg("no rule makes %s of %s", to, from);
    return NULL;
}

/* Checks the rows that an output takes of a module of `total` outputs. */
static void rows_are(const struct hf_config *c, const char *to, const char *from, int64_t total,
                     const int32_t *want, size_t n)
{
    struct layer l = {.number = 1};
    struct err e = {0};
    int32_t *rows;
    int64_t of;
    const struct linear_rule *rule = rule_of(to, from);
    rows_sizes(&l, c);
    assert_int_equal(rows_pick(&l, c, rule, &rows, &of, &e), 0);
    assert_int_equal(of, total);
    assert_int_equal(l.size[rule->out] * (rule->how & HEADS ? c->n_heads : 1), n);
    assert_memory_equal(rows, want, n * sizeof *want);
    free(rows);
}

/* Latent attention: 2 heads of 1 + 4 (pairs) elements, values of 2, a latent of 3. */
static void test_latent_rows(void)
{
    struct hf_config c = {.n_layers = 2,
                          .traits = HF_LATENT | HF_INTERLEAVED,
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .head_dim = 4,
                          .rotary = 4,
                          .latent_dim = 3,
                          .nope_dim = 1,
                          .value_dim = 2};
    static const int32_t nope[] = {0, 5}, rotated[] = {1, 3, 2, 4, 6, 8, 7, 9},
                         latent[] = {0, 1, 2}, key[] = {3, 5, 4, 6}, keys[] = {0, 3},
                         values[] = {1, 2, 4, 5};
    rows_are(&c, "self_attn.q_nope_proj", "self_attn.q_b_proj", 10, nope, 2);
    rows_are(&c, "self_attn.q_rope_proj", "self_attn.q_b_proj", 10, rotated, 8);
    rows_are(&c, "self_attn.kv_a_proj", "self_attn.kv_a_proj_with_mqa", 7, latent, 3);
    rows_are(&c, "self_attn.k_rope_proj", "self_attn.kv_a_proj_with_mqa", 7, key, 4);
    rows_are(&c, "self_attn.kv_b_k", "self_attn.kv_b_proj", 6, keys, 2);
    rows_are(&c, "self_attn.kv_b_v", "self_attn.kv_b_proj", 6, values, 4);
}

static void test_rows(void **state)
{
    (void)state;
    struct hf_config c = {.n_layers = 2,
                          .dim = 8,
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .head_dim = 8,
                          .rotary = 4,
                          .expert_ffn = 3,
                          .n_experts = 2,
                          .ffn = 3,
                          .ple_dim = 2,
                          .linear_key_heads = 2,
                          .linear_value_heads = 4,
                          .linear_key_dim = 1,
                          .linear_value_dim = 2};
    /* pairs (0, 2), (1, 3) of 8 go to (0, 4), (1, 5); the others fill up */
    static const int32_t halves[] = {16, 17, 20, 21, 18, 19, 22, 23},
                         pairs[] = {16, 18, 20, 21, 17, 19, 22, 23};
    rows_are(&c, "self_attn.k_proj", "self_attn.qkv_proj", 32, halves, 8);
    c.traits = HF_INTERLEAVED;
    rows_are(&c, "self_attn.k_proj", "self_attn.qkv_proj", 32, pairs, 8);
    c.traits = 0, c.head_dim = 2, c.rotary = 2;
    static const int32_t v[] = {6, 7}, q[] = {0, 1, 4, 5}, gate[] = {2, 3, 6, 7}, up[] = {3, 4, 5},
                         odd[] = {1, 3, 5}, layer[] = {2, 3};
    rows_are(&c, "self_attn.v_proj", "self_attn.qkv_proj", 8, v, 2);
    rows_are(&c, "self_attn.q_proj", "self_attn.q_proj", 8, q, 4);
    /* of each of 2 key heads: q of 2 heads, k, v */
    static const int32_t of_q[] = {0, 1, 2, 3, 8, 9, 10, 11}, of_k[] = {4, 5, 12, 13},
                         of_v[] = {6, 7, 14, 15};
    c.n_heads = 4, c.n_kv_heads = 2;
    rows_are(&c, "self_attn.q_proj", "attention.wqkv", 16, of_q, 8);
    rows_are(&c, "self_attn.k_proj", "attention.wqkv", 16, of_k, 4);
    rows_are(&c, "self_attn.v_proj", "attention.wqkv", 16, of_v, 4);
    c.n_heads = 2, c.n_kv_heads = 1;
    rows_are(&c, "self_attn.gate_proj", "self_attn.q_proj", 8, gate, 4);
    rows_are(&c, "mlp.up_proj", "mlp.gate_up_proj", 6, up, 3);
    rows_are(&c, "mlp.experts.up_proj", "mlp.experts.gate_up.%d", 6, odd, 3);
    rows_are(&c, "per_layer_model_projection", "per_layer_model_projection", 4, layer, 2);
    /* of each of 2 key heads: q 1, k 1, v 2 x 2, z 2 x 2 */
    static const int32_t qkv[] = {0, 10, 1, 11, 2, 3, 4, 5, 12, 13, 14, 15},
                         z[] = {6, 7, 8, 9, 16, 17, 18, 19}, a[] = {2, 3, 6, 7};
    rows_are(&c, "linear_attn.qkv_proj", "linear_attn.in_proj_qkvz", 20, qkv, 12);
    rows_are(&c, "linear_attn.z_proj", "linear_attn.in_proj_qkvz", 20, z, 8);
    rows_are(&c, "linear_attn.a_proj", "linear_attn.in_proj_ba", 8, a, 4);
    test_latent_rows();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
