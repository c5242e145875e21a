#include "core/step/key_bias.h"

#include "core/step/sincos.h"

#include <stdlib.h>

/* A pair of elements that rotate together is large from this length on: keys less their bias have
 * elements of a few units (docs/kv.md). */
#define LARGE_PAIR 4.0f

/* What is known of a cache whose keys have a bias. */
struct biased {
    const struct heads *heads;
    int linear;             /* its weight in the plan */
    const float *bias;      /* [n_kv_heads * head_dim] */
    const float *frequency; /* [head_dim / 2] */
    float scale;            /* on cos and sin */
    int pairs;              /* large ones of the head that has most */
};

/* The last operation ahead of number `before` that writes a buffer, *out: as which result. */
static const struct op *writer(const struct step_plan *p, int before, int buffer, int *out)
{
    for (int i = before - 1; i >= 0; i--)
        for (*out = 0; *out < OP_OUTS; (*out)++)
            if (p->op[i].out[*out] == buffer) return &p->op[i];
    return NULL;
}

static int is_large(const float *bias, int pair, int half)
{
    return hypotf(bias[pair], bias[pair + half]) > LARGE_PAIR;
}

/* Pairs that are large, of the head that has most of them. */
static int count_large(const struct biased *b)
{
    int most = 0, half = b->heads->head_dim / 2;
    for (int h = 0; h < b->heads->n_kv_heads; h++) {
        const float *bias = b->bias + h * b->heads->head_dim;
        int n = 0;
        for (int i = 0; i < half; i++) n += is_large(bias, i, half);
        most = n > most ? n : most;
    }
    return most;
}

/* 1: operation i stores keys with a large bias. */
static int is_biased(const struct step_plan *p, int i, int n_positions, struct biased *b)
{
    const struct op *rope = &p->op[i];
    int of_key, of_cos;
    if (rope->kind != OP_ROPE_STORE || rope->in[1] < 0 || rope->w[1] >= 0) return 0;
    if (rope->as.rope.ahead || !heads_are_plain(&rope->as.rope.heads)) return 0;
    const struct op *linear = writer(p, i, rope->in[1], &of_key),
                    *angles = writer(p, i, rope->in[3], &of_cos);
    if (!linear || linear->kind != OP_LINEAR || !angles || angles->kind != OP_ANGLES) return 0;
    const struct weight *frequency = &p->weight[angles->w[0]];
    *b = (struct biased){
        .heads = &rope->as.rope.heads,
        .linear = linear->w[of_key],
        .bias = p->weight[linear->w[of_key]].linear.bias,
        .frequency = frequency->longer && n_positions > frequency->longer_from ? frequency->longer
                                                                               : frequency->vector,
        .scale = angles->as.angles.scale,
    };
    return b->bias && (b->pairs = count_large(b)) > 0;
}

/* Floats that live as long as the plan. */
static float *get_part(struct key_biases *k, size_t n, struct err *e)
{
    float *part = calloc(n, sizeof *part),
          **grown = realloc(k->part, (size_t)(k->n_parts + 1) * sizeof *grown);
    if (grown) k->part = grown;
    if (!part || !grown) {
        free(part);
        err_memory(e);
        return NULL;
    }
    return k->part[k->n_parts++] = part;
}

/* The rows of one head (op.h); `left` [head_dim] loses the pairs. */
static void fill_head(const struct biased *b, float *left, float *row)
{
    const int half = b->heads->head_dim / 2;
    for (int d = 0; d < half; d++) {
        const double x = left[d], y = left[d + half],
                     scale = b->frequency[d] == 0 ? 1 : (double)b->scale;
        if (!is_large(left, d, half)) continue;
        for (int i = 0; i < KEY_BIAS_CHUNK; i++) {
            float sine, cosine;
            step_sincos((float)i * b->frequency[d], &sine, &cosine);
            row[i] = (float)(scale * (x * cosine - y * sine));
            row[KEY_BIAS_CHUNK + i] = (float)(scale * (y * cosine + x * sine));
        }
        row[2 * KEY_BIAS_CHUNK] = (float)d;
        left[d] = left[d + half] = 0;
        row += KEY_BIAS_ROW;
    }
}

/* Weights of the plan, of which there is room for more. */
static int add_vector(struct step_plan *p, const float *v, size_t n)
{
    p->weight[p->n_weights] = (struct weight){.vector = v, .n = (int)n};
    return p->n_weights++;
}

/* The biases of one cache: *table and *turns are the weights of its OP_ATTEND. */
static int take(struct key_biases *k, struct step_plan *p, const struct biased *b, int n_positions,
                int *table, int *turns, struct err *e)
{
    const int hd = b->heads->head_dim, half = hd / 2, heads = b->heads->n_kv_heads,
              chunks = (n_positions + KEY_BIAS_CHUNK - 1) / KEY_BIAS_CHUNK;
    const size_t of_head = (size_t)b->pairs * KEY_BIAS_ROW, of_chunk = (size_t)hd;
    float *left = get_part(k, (size_t)(heads * hd), e),
          *rows = left ? get_part(k, (size_t)heads * of_head, e) : NULL,
          *turn = rows ? get_part(k, (size_t)chunks * of_chunk, e) : NULL;
    if (!turn) return -1;
    memcpy(left, b->bias, (size_t)(heads * hd) * sizeof *left);
    for (int h = 0; h < heads; h++) fill_head(b, left + h * hd, rows + (size_t)h * of_head);
    for (int c = 0; c < chunks; c++)
        for (int d = 0; d < half; d++) {
            float *to = turn + (size_t)c * of_chunk + 2 * d;
            step_sincos((float)(c * KEY_BIAS_CHUNK) * b->frequency[d], &to[1], &to[0]);
        }
    p->weight[b->linear].linear.bias = left;
    *table = add_vector(p, rows, (size_t)heads * of_head);
    *turns = add_vector(p, turn, (size_t)chunks * of_chunk);
    return 0;
}

/* The model's weights with room for two more of each cache; a power of two, as step_plan_add_weight
 * counts on. */
static int own_weights(struct key_biases *k, struct step_plan *p, struct err *e)
{
    size_t room = 1;
    if (k->weight) return 0;
    while (room <= (size_t)(p->n_weights + 2 * p->n_kv)) room *= 2;
    k->weight = calloc(room, sizeof *k->weight);
    if (!k->weight) return err_memory(e);
    memcpy(k->weight, p->weight, (size_t)p->n_weights * sizeof *k->weight);
    p->weight = k->weight;
    return 0;
}

int key_biases_take(struct key_biases *k, struct step_plan *p, enum kv_type kv, int n_positions,
                    struct err *e)
{
    *k = (struct key_biases){0};
    for (int i = 0; i < p->n_ops && kv_is_integer(kv); i++) {
        struct biased b;
        int table, turns;
        if (!is_biased(p, i, n_positions, &b)) continue;
        if (own_weights(k, p, e) || take(k, p, &b, n_positions, &table, &turns, e)) return -1;
        for (int j = i + 1; j < p->n_ops; j++) {
            struct op *op = &p->op[j];
            if (op->kind != OP_ATTEND || op->as.attend.kv != p->op[i].as.rope.kv) continue;
            op->w[1] = table;
            op->w[2] = turns;
            op->as.attend.bias_pairs = b.pairs;
        }
    }
    return 0;
}

void key_biases_free(struct key_biases *k)
{
    for (int i = 0; i < k->n_parts; i++) free(k->part[i]);
    free(k->part);
    free(k->weight);
    *k = (struct key_biases){0};
}
