#include "convert/plan_rows.h"

#include <stdlib.h>
#include <string.h>

enum { SLICES = 3 };

void rows_sizes(struct layer *l, const struct hf_config *c)
{
    int i = l->number, gemma4 = (c->traits & HF_GEMMA4) != 0;
    int64_t head = gemma4 ? c->head_dims[i] : c->head_dim,
            kv_heads = gemma4 ? c->kv_heads[i] : c->n_kv_heads,
            keys = (int64_t)c->linear_key_heads * c->linear_key_dim,
            values = (int64_t)c->linear_value_heads * c->linear_value_dim;
    const int64_t size[N_SIZES] = {
        [SIZE_ONE] = 1,
        [SIZE_DIM] = c->dim,
        [SIZE_HEAD] = head,
        [SIZE_HEADS] = c->n_heads,
        [SIZE_Q] = c->n_heads * head,
        [SIZE_KV] = kv_heads * head,
        [SIZE_FFN] = gemma4 ? c->ffns[i] : c->ffn,
        [SIZE_EXPERTS] = c->n_experts,
        [SIZE_EXPERT_FFN] = c->expert_ffn,
        [SIZE_EXPERT_IN] = c->expert_dim ? c->expert_dim : c->dim,
        [SIZE_SHARED_FFN] = c->shared_ffn,
        [SIZE_KEYS] = keys,
        [SIZE_VALUES] = values,
        [SIZE_VALUE_HEADS] = c->linear_value_heads,
        [SIZE_VALUE] = c->linear_value_dim,
        [SIZE_DELTA] = 2 * keys + values,
        [SIZE_PLE] = c->ple_dim,
        [SIZE_DT_RANK] = c->dt_rank,
        [SIZE_LATENT] = c->latent_dim,
        [SIZE_Q_LORA] = c->q_lora_dim,
        [SIZE_NOPE] = c->nope_dim,
        [SIZE_NOPES] = (int64_t)c->n_heads * c->nope_dim,
        [SIZE_ROTS] = c->n_heads * head,
        [SIZE_HEAD_VALUE] = c->value_dim,
        [SIZE_HEAD_VALUES] = (int64_t)c->n_heads * c->value_dim,
        [SIZE_INDEX_HEADS] = c->index_heads,
        [SIZE_INDEX] = c->index_dim,
        [SIZE_INDEX_RESTS] = c->index_heads * (c->index_dim - head),
        [SIZE_INDEX_ROTS] = c->index_heads * head,
    };
    memcpy(l->size, size, sizeof size);
}

/* Source row of output d of a head of `dim`. The model file rotates (i, i + dim/2); the source
 * rotates the first c->rotary dimensions, of them (i, i + rotary/2) or (2i, 2i + 1). */
int64_t rows_rope_source(const struct hf_config *c, int64_t dim, int64_t d)
{
    int64_t half = dim / 2, pairs = c->rotary / 2, i = d % half;
    if (i >= pairs) return 2 * pairs + (d < half ? i - pairs : half - pairs + i - pairs);
    if (c->traits & HF_INTERLEAVED) return 2 * i + (d >= half);
    return d < half ? i : pairs + i;
}

int rows_keep_order(const struct hf_config *c)
{
    return c->traits & HF_GEMMA4 || (c->rotary == c->head_dim && !(c->traits & HF_INTERLEAVED));
}

/* Rows first, first + 1, ..., first + count - 1, then the same `stride` further on, `blocks`
 * times. */
struct slice {
    int64_t first, count, stride, blocks;
};

/* Source of element i of the indexer's rotated part. */
static int64_t index_rotated(const struct hf_config *c, int64_t i)
{
    int64_t half = c->head_dim / 2;
    return c->index_pairs ? i % half * 2 + i / half : i;
}

int64_t rows_index_source(const struct hf_config *c, int64_t d)
{
    int64_t rotated = c->head_dim, rest = c->index_dim - rotated;
    return d < rest ? rotated + d : index_rotated(c, d - rest);
}

/* The rows of the indexer's queries; total: of the module. */
static int index_slices(const struct hf_config *c, enum row_pick pick, struct slice *s,
                        int64_t *total)
{
    int64_t rotated = c->head_dim, dim = c->index_dim, heads = c->index_heads;
    *total = heads * dim;
    *s = pick == PICK_INDEX_REST ? (struct slice){rotated, dim - rotated, dim, heads}
                                 : (struct slice){0, rotated, dim, heads};
    return 1;
}

/* The rows of a pick of latent attention. */
static int latent_slices(const struct layer *l, const struct hf_config *c, enum row_pick pick,
                         struct slice *s, int64_t *total)
{
    int64_t head = l->size[SIZE_HEAD], nope = c->nope_dim, value = c->value_dim,
            latent = c->latent_dim, q = nope + head, kv = nope + value, heads = c->n_heads;
    if (pick == PICK_INDEX_REST || pick == PICK_INDEX_ROTATED)
        return index_slices(c, pick, s, total);
    *total = pick == PICK_NOPE || pick == PICK_ROTATED ? heads * q : heads * kv;
    switch (pick) {
    case PICK_NOPE: *s = (struct slice){0, nope, q, heads}; break;
    case PICK_ROTATED: *s = (struct slice){nope, head, q, heads}; break;
    case PICK_LATENT_KEYS: *s = (struct slice){0, nope, kv, heads}; break;
    case PICK_LATENT_VALUES: *s = (struct slice){nope, value, kv, heads}; break;
    default:
        *total = latent + head;
        *s = pick == PICK_LATENT ? (struct slice){0, latent, 0, 1}
                                 : (struct slice){latent, head, 0, 1};
    }
    return 1;
}

/* Of [q.., k, v] for each key head: the rows of one of the three. */
static int grouped_slice(enum row_pick pick, int64_t q, int64_t kv, int64_t head,
                         struct slice s[SLICES])
{
    int64_t own = q / kv * head, first = pick == PICK_GROUPED_Q   ? 0
                                         : pick == PICK_GROUPED_K ? own
                                                                  : own + head;
    s[0] = (struct slice){first, first ? head : own, own + 2 * head, kv / head};
    return 1;
}

/* Of [z, x, B, C, dt] the rows of z, of dt, or of C, B, x. */
static int mamba_slices(const struct layer *l, enum row_pick pick, int64_t n,
                        struct slice s[SLICES], int64_t *total)
{
    int64_t inner = l->size[SIZE_VALUES], keys = l->size[SIZE_KEYS], b = 2 * inner;
    *total = b + 2 * keys + l->size[SIZE_VALUE_HEADS];
    s[0] = (struct slice){pick == PICK_MAMBA_Z ? 0 : b + 2 * keys, n, 0, 1};
    if (pick != PICK_MAMBA_QKV) return 1;
    s[0] = (struct slice){b + keys, keys, 0, 1};
    s[1] = (struct slice){b, keys, 0, 1};
    s[2] = (struct slice){inner, inner, 0, 1};
    return 3;
}

/* Of [dt, B, C] the rows of one. */
static int scan_slice(const struct layer *l, enum row_pick pick, int64_t n, struct slice s[SLICES],
                      int64_t *total)
{
    int64_t rank = l->size[SIZE_DT_RANK], state = l->size[SIZE_KEYS];
    *total = rank + 2 * state;
    s[0] = (struct slice){pick == PICK_SCAN_DT ? 0 : rank + (pick == PICK_SCAN_C) * state, n, 0, 1};
    return 1;
}

/* The rows of a pick. *total: rows of the module. Returns the number of slices, 0: all rows. */
static int slices_of(const struct layer *l, const struct hf_config *c,
                     const struct linear_rule *rule, struct slice s[SLICES], int64_t *total)
{
    int64_t n = l->size[rule->out], q = l->size[SIZE_Q], kv = l->size[SIZE_KV],
            head = l->size[SIZE_HEAD], nk = c->linear_key_heads, dk = c->linear_key_dim,
            group = nk ? c->linear_value_heads / nk : 0, dv = group * c->linear_value_dim;
    int second = 0;
    *total = 2 * n;
    switch (rule->pick) {
    case PICK_INDEX_KEY:
    case PICK_ALL: *total = n; return 0;
    case PICK_Q:
    case PICK_K:
    case PICK_V:
        *total = q + 2 * kv;
        s[0] = rule->pick == PICK_Q ? (struct slice){0, q, 0, 1}
                                    : (struct slice){q + (rule->pick == PICK_V) * kv, kv, 0, 1};
        return 1;
    case PICK_SECOND: second = 1; /* fall through */
    case PICK_FIRST: s[0] = (struct slice){second * n, n, 0, 1}; return 1;
    case PICK_ODD: second = 1; /* fall through */
    case PICK_EVEN: s[0] = (struct slice){second, 1, 2, n}; return 1;
    case PICK_HEAD_SECOND: second = 1; /* fall through */
    case PICK_HEAD_FIRST: s[0] = (struct slice){second * head, head, 2 * head, n / head}; return 1;
    case PICK_DELTA_QKV:
        *total = 2 * nk * (dk + dv);
        s[0] = (struct slice){0, dk, 2 * (dk + dv), nk};
        s[1] = (struct slice){dk, dk, 2 * (dk + dv), nk};
        s[2] = (struct slice){2 * dk, dv, 2 * (dk + dv), nk};
        return 3;
    case PICK_DELTA_Z:
        *total = 2 * nk * (dk + dv);
        s[0] = (struct slice){2 * dk + dv, dv, 2 * (dk + dv), nk};
        return 1;
    case PICK_DELTA_A: second = 1; /* fall through */
    case PICK_DELTA_B: s[0] = (struct slice){second * group, group, 2 * group, nk}; return 1;
    case PICK_GROUPED_Q:
    case PICK_GROUPED_K:
    case PICK_GROUPED_V: *total = q + 2 * kv; return grouped_slice(rule->pick, q, kv, head, s);
    case PICK_SCAN_DT:
    case PICK_SCAN_B:
    case PICK_SCAN_C: return scan_slice(l, rule->pick, n, s, total);
    case PICK_MAMBA_DT:
    case PICK_MAMBA_QKV:
    case PICK_MAMBA_Z: return mamba_slices(l, rule->pick, n, s, total);
    case PICK_THIRD_3: second++; /* fall through */
    case PICK_THIRD_2: second++; /* fall through */
    case PICK_THIRD_1:
        *total = 3 * n;
        s[0] = (struct slice){second * n, n, 0, 1};
        return 1;
    case PICK_LAYER:
        *total = c->n_layers * n;
        s[0] = (struct slice){l->number * n, n, 0, 1};
        return 1;
    default: return latent_slices(l, c, rule->pick, s, total);
    }
    return 0;
}

/* *rows [outputs of the rule]: the module's rows that they are; NULL: all in order. */
int rows_pick(const struct layer *l, const struct hf_config *c, const struct linear_rule *rule,
              int32_t **rows, int64_t *total, struct err *e)
{
    struct slice s[SLICES];
    int64_t n = l->size[rule->out] * (rule->how & HEADS ? c->n_heads : 1),
            head = l->size[SIZE_HEAD], at = 0;
    int n_slices = slices_of(l, c, rule, s, total), key = rule->pick == PICK_INDEX_KEY,
        queries = rule->pick == PICK_INDEX_ROTATED,
        moves = key || queries || (rule->how & ROPE && !rows_keep_order(c));
    *rows = NULL;
    if (!n_slices && !moves) return 0;
    int32_t *r = malloc((size_t)n * sizeof *r), *moved = malloc((size_t)n * sizeof *moved);
    if (!r || !moved) {
        free(r);
        free(moved);
        return err_memory(e);
    }
    for (int k = 0; k < n_slices; k++)
        for (int64_t b = 0; b < s[k].blocks; b++)
            for (int64_t i = 0; i < s[k].count; i++)
                r[at++] = (int32_t)(s[k].first + b * s[k].stride + i);
    while (at < n) r[at] = (int32_t)at, at++;
    CHECK(at == n);
    for (int64_t i = 0; i < n && moves; i++)
        moved[i] = key ? (int32_t)rows_index_source(c, i)
                       : r[i / head * head + (queries ? index_rotated(c, i % head)
                                                      : rows_rope_source(c, head, i % head))];
    *rows = moves ? moved : r;
    free(moves ? r : moved);
    return 0;
}
