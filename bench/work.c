#include "bench/work.h"

#include <string.h>

const char *const op_name[OP_COUNT] = {
    "begin_step", "embed", "norm",   "qkv",  "rope_store", "attend", "o",        "gate_up",
    "glu",        "down",  "gather", "head", "argmax",     "top",    "download", "sync"};

static double linear_bytes(const struct linear *w)
{
    double bytes = w->bias ? 4.0 * w->out : 0;
    if (!w->codes) return bytes + (double)w->in * w->out * (double)dtype_bytes(w->weight_type);
    double rows = (double)((w->out + MF_PANEL - 1) / MF_PANEL * MF_PANEL);
    bytes += rows * w->k / 2 + rows * w->n_groups * (1 + (double)dtype_bytes(w->scale_type));
    return bytes + (w->perm ? 4.0 * w->k : 0);
}

static int digits(const struct linear *w, enum act act)
{
    return !w->codes ? 0 : act == ACT_I16 ? 2 : act == ACT_INT8;
}

struct work work_linear(const struct linear *w, int rows, enum act act)
{
    double ops = 2.0 * (w->codes ? w->k : w->in) * w->out * rows;
    int n = digits(w, act);
    return (struct work){.weights = linear_bytes(w),
                         .acts = 4.0 * rows * (w->in + w->out),
                         .fp32 = n ? 0 : ops,
                         .int8 = n * ops};
}

static struct work add(struct work a, struct work b)
{
    return (struct work){a.weights + b.weights, a.kv + b.kv, a.acts + b.acts, a.fp32 + b.fp32,
                         a.int8 + b.int8};
}

static struct work linears(const struct layer *l, int first, int last, int rows, enum act act)
{
    struct work w = {0};
    for (int i = first; i <= last; i++) w = add(w, work_linear(&l->linear[i], rows, act));
    return w;
}

static struct work attend(const struct model_config *g, int layer, const struct step_shape *s,
                          double kv_position)
{
    int window = g->windows[layer], end = s->depth + s->rows;
    double seen = 0; /* pairs of a row and a position that it sees, of one sequence */
    for (int i = 0; i < s->rows; i++) {
        int n = s->depth + i + 1;
        seen += window && window < n ? window : n;
    }
    int first = window && s->depth - window + 1 > 0 ? s->depth - window + 1 : 0;
    double q = (double)g->n_heads * g->head_dim;
    return (struct work){.kv = s->n_seqs * (end - first) * kv_position,
                         .acts = 8.0 * s->n_seqs * s->rows * q,
                         .fp32 = 4 * q * s->n_seqs * seen}; /* scores, then values */
}

struct work work_call(const struct model *m, enum op op, int layer, const struct step_shape *s,
                      enum act act, enum kv_type kv)
{
    const struct model_config *g = &m->config;
    const struct layer *l = &m->layers[layer];
    int rows = s->n_seqs * s->rows;
    double q = (double)g->n_heads * g->head_dim, kv_dim = (double)g->n_kv_heads * g->head_dim;
    double kv_position = 2 * kv_dim * (kv == KV_F16 ? 2 : 4);
    switch (op) {
    case OP_EMBED:
        return (struct work){.weights = (double)rows * g->dim *
                                        (double)dtype_bytes(m->embed.weight_type),
                             .acts = 4.0 * rows * g->dim};
    case OP_NORM: return (struct work){.weights = 4.0 * g->dim, .acts = 16.0 * rows * g->dim};
    case OP_QKV: return linears(l, LIN_Q, LIN_V, rows, act);
    case OP_ROPE:
        return (struct work){.kv = rows * kv_position, .acts = 4.0 * rows * (2 * q + 2 * kv_dim)};
    case OP_ATTEND: return attend(g, layer, s, kv_position);
    case OP_O: return linears(l, LIN_O, LIN_O, rows, act);
    case OP_GATE_UP: return linears(l, LIN_GATE, LIN_UP, rows, act);
    case OP_GLU: return (struct work){.acts = 12.0 * rows * g->ffn};
    case OP_DOWN: return linears(l, LIN_DOWN, LIN_DOWN, rows, act);
    case OP_GATHER: return (struct work){.acts = 8.0 * s->n_seqs * g->dim};
    case OP_HEAD: return work_linear(&m->head, s->n_seqs, act);
    case OP_ARGMAX: return (struct work){.acts = 4.0 * s->n_seqs * g->vocab};
    case OP_TOP: return (struct work){.acts = 4.0 * s->n_seqs * g->vocab};
    case OP_DOWNLOAD:
        return (struct work){.acts = 2.0 * s->n_seqs * BE_TOP_ROOM * sizeof(struct logits_entry)};
    default: return (struct work){0};
    }
}

struct work work_step(const struct model *m, enum op op, const struct step_shape *s, enum act act,
                      enum kv_type kv)
{
    int per_layer = op >= OP_NORM && op <= OP_DOWN, n = m->config.n_layers;
    struct work w = {0};
    for (int i = 0; i < (per_layer ? n : 1); i++) {
        struct work one = work_call(m, op, i, s, act, kv);
        w = add(w, op == OP_NORM ? add(one, one) : one);
    }
    return op == OP_NORM ? add(w, work_call(m, op, 0, s, act, kv)) : w;
}

double work_products(const struct work *w, enum act act)
{
    return w->fp32 + (act == ACT_I16 ? w->int8 / 2 : w->int8);
}

void work_model(const struct model *m, double *bytes, double *parameters)
{
    const struct model_config *g = &m->config;
    double norms = (2.0 * g->n_layers + 1) * g->dim +
                   (m->layers[0].q_norm ? 2.0 * g->head_dim * g->n_layers : 0);
    int tied = !m->head.codes && m->head.weight == m->embed.weight;
    *bytes = linear_bytes(&m->embed) + (tied ? 0 : linear_bytes(&m->head)) + 4 * norms;
    *parameters = (double)g->vocab * g->dim * (tied ? 1 : 2) + norms;
    for (int i = 0; i < g->n_layers; i++)
        for (int j = 0; j < LIN_COUNT; j++) {
            const struct linear *w = &m->layers[i].linear[j];
            *bytes += linear_bytes(w);
            *parameters += (double)w->in * w->out + (w->bias ? w->out : 0);
        }
}
