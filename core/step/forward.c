#include "core/step/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP_FLOATS = BE_TOP_ROOM * sizeof(struct logits_entry) / sizeof(float) };

static void *get(struct forward *f, size_t n_floats, struct err *e)
{
    void *d = f->be->ops->alloc(f->be, n_floats * sizeof(float));
    if (!d && !f->be->ops->sync(f->be, e))
        err_memory_for(e, "out of memory for activations (%zu bytes)", n_floats * sizeof(float));
    return d;
}

static int put_vector(struct forward *f, const float *src, int n, float **d, struct err *e)
{
    *d = get(f, (size_t)n, e);
    if (!*d) return -1;
    f->be->ops->upload(f->be, *d, src, (size_t)n * sizeof *src);
    return 0;
}

size_t forward_kv_bytes(const struct model *m, enum kv_type kv, int n_pages)
{
    const struct model_config *g = &m->config;
    return (size_t)g->n_layers * (size_t)n_pages * 2 * KV_PAGE * (size_t)g->n_kv_heads *
           (size_t)g->head_dim * (kv == KV_F16 ? 2 : 4);
}

static int open_layer(struct forward *f, int i, struct err *e)
{
    const struct backend *ops = f->be->ops;
    const struct model_config *g = &f->model->config;
    const struct layer *from = &f->model->layers[i];
    struct forward_layer *l = &f->layers[i];
    for (int j = 0; j < LIN_COUNT; j++)
        if (ops->pack(f->be, &from->linear[j], &l->linear[j], e)) return -1;
    if (put_vector(f, from->input_norm, g->dim, &l->d_input_norm, e) ||
        put_vector(f, from->post_norm, g->dim, &l->d_post_norm, e))
        return -1;
    if (from->q_norm && (put_vector(f, from->q_norm, g->head_dim, &l->d_q_norm, e) ||
                         put_vector(f, from->k_norm, g->head_dim, &l->d_k_norm, e)))
        return -1;
    l->d_kv = ops->alloc(f->be, (size_t)f->options.n_pages * ops->kv_page_bytes(f->be));
    if (!l->d_kv && ops->sync(f->be, e)) return -1;
    if (!l->d_kv)
        return err_memory_for(
            e,
            "out of memory: the KV cache needs %.1f GiB for %d positions; a smaller -c asks for "
            "less",
            (double)forward_kv_bytes(f->model, f->options.kv, f->options.n_pages) / (1 << 30),
            f->options.n_pages * KV_PAGE);
    return 0;
}

static struct be_config config_of(const struct model *m, const struct forward_options *o)
{
    const struct model_config *g = &m->config;
    return (struct be_config){
        .variant = o->variant,
        .n_threads = o->n_threads,
        .library = o->library,
        .device = o->device,
        .wait_seconds = o->wait_seconds,
        .act = o->act,
        .kv = o->kv,
        .n_heads = g->n_heads,
        .n_kv_heads = g->n_kv_heads,
        .head_dim = g->head_dim,
        .inv_freq = m->inv_freq,
        .rope_scale = g->rope_scale,
        .max_rows = o->max_rows > o->max_logits ? o->max_rows : o->max_logits,
        .max_k = model_max_k(m),
        .max_seqs = o->max_seqs,
        .max_pages = o->max_pages,
    };
}

void forward_need(const struct model *m, const struct backend *ops, const struct forward_options *o,
                  struct forward_need *n)
{
    const struct model_config *g = &m->config;
    struct be_config c = config_of(m, o);
    uint64_t row = 3u * (uint64_t)g->dim + 2u * (uint64_t)g->n_heads * (uint64_t)g->head_dim +
                   2u * (uint64_t)g->n_kv_heads * (uint64_t)g->head_dim + 2u * (uint64_t)g->ffn;
    *n = (struct forward_need){.weights = ops->packed_bytes(&m->embed),
                               .page = forward_kv_bytes(m, o->kv, 1)};
    if (m->head.codes || m->head.weight != m->embed.weight)
        n->weights += ops->packed_bytes(&m->head);
    for (int i = 0; i < g->n_layers; i++)
        for (int j = 0; j < LIN_COUNT; j++)
            n->weights += ops->packed_bytes(&m->layers[i].linear[j]);
    n->steps = sizeof(float) * ((uint64_t)o->max_rows * row +
                                (uint64_t)o->max_logits * ((uint64_t)g->dim + (uint64_t)g->vocab +
                                                           3 + (ops->top ? TOP_FLOATS : 0))) +
               ops->scratch_bytes(&c);
}

int forward_available(const struct model *m, const struct backend *ops,
                      const struct forward_options *o, uint64_t *bytes, struct err *e)
{
    struct be_config c = config_of(m, o);
    return ops->available(&c, bytes, e);
}

static int check_fit(const struct model *m, const struct backend *ops,
                     const struct forward_options *o, struct err *e)
{
    struct forward_need n;
    uint64_t available;
    forward_need(m, ops, o, &n);
    if (!n.weights) return 0;
    if (forward_available(m, ops, o, &available, e)) return -1;
    uint64_t kv = n.page * (uint64_t)o->n_pages;
    if (!available || n.weights + kv + n.steps <= available) return 0;
    const double mib = 1 << 20;
    return err_memory_for(e,
                          "out of memory: weights %.0f MiB, KV cache %.0f MiB for %d positions, "
                          "steps %.0f MiB: more than the %.0f MiB that are free",
                          (double)n.weights / mib, (double)kv / mib, o->n_pages * KV_PAGE,
                          (double)n.steps / mib, (double)available / mib);
}

int forward_open(struct forward *f, const struct model *m, const struct backend *ops,
                 const struct forward_options *o, struct err *e)
{
    const struct model_config *g = &m->config;
    memset(f, 0, sizeof *f);
    f->model = m;
    f->options = *o;
    struct be_config c = config_of(m, o);
    if (check_fit(m, ops, o, e) || ops->open(&f->be, &c, e)) return -1;
    size_t rows = (size_t)o->max_rows, dim = (size_t)g->dim,
           q = (size_t)g->n_heads * (size_t)g->head_dim,
           kv = (size_t)g->n_kv_heads * (size_t)g->head_dim;
    f->layers = calloc((size_t)g->n_layers, sizeof *f->layers);
    if (!f->layers) {
        err_memory(e);
        goto fail;
    }
    for (int i = 0; i < g->n_layers; i++)
        if (open_layer(f, i, e)) goto fail;
    if (ops->pack(f->be, &m->embed, &f->embed, e)) goto fail;
    f->head = f->embed;
    if ((m->head.codes || m->head.weight != m->embed.weight) &&
        ops->pack(f->be, &m->head, &f->head, e))
        goto fail;
    if (put_vector(f, m->norm, g->dim, &f->d_norm, e)) goto fail;
    const struct {
        float **d;
        size_t n;
    } buffers[] = {
        {&f->d_x, rows * dim},
        {&f->d_h, rows * dim},
        {&f->d_delta, rows * dim},
        {&f->d_q, rows * q},
        {&f->d_a, rows * q},
        {&f->d_k, rows * kv},
        {&f->d_v, rows * kv},
        {&f->d_gate, rows * (size_t)g->ffn},
        {&f->d_up, rows * (size_t)g->ffn},
        {&f->d_last, (size_t)o->max_logits * dim},
        {&f->d_logits, (size_t)o->max_logits * (size_t)g->vocab},
        {(float **)&f->d_top, ops->top ? (size_t)o->max_logits * TOP_FLOATS : 0},
        {(float **)&f->d_best, 3 * (size_t)o->max_logits},
    };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i].n && !(*buffers[i].d = get(f, buffers[i].n, e))) goto fail;
    f->best_view = ops->view(f->be, f->d_best, 3 * (size_t)o->max_logits * sizeof *f->best);
    f->logits = ops->view(f->be, f->d_logits,
                          (size_t)o->max_logits * (size_t)g->vocab * sizeof *f->logits);
    if (f->d_top)
        f->top = ops->view(f->be, f->d_top, (size_t)o->max_logits * BE_TOP_ROOM * sizeof *f->top);
    if (!f->best_view || !f->logits || (f->d_top && !f->top)) {
        if (!ops->sync(f->be, e)) err_memory_for(e, "out of memory for logits on the host");
        goto fail;
    }
    return 0;
fail:
    forward_close(f);
    return -1;
}

void forward_close(struct forward *f)
{
    if (f->be) {
        const struct backend *ops = f->be->ops;
        for (int i = 0; f->layers && i < f->model->config.n_layers; i++) {
            struct forward_layer *l = &f->layers[i];
            for (int j = 0; j < LIN_COUNT; j++)
                if (l->linear[j]) ops->drop(f->be, l->linear[j]);
            void *const d[] = {l->d_input_norm, l->d_post_norm, l->d_q_norm, l->d_k_norm, l->d_kv};
            for (size_t j = 0; j < sizeof d / sizeof *d; j++) ops->free(f->be, d[j]);
        }
        if (f->head && f->head != f->embed) ops->drop(f->be, f->head);
        if (f->embed) ops->drop(f->be, f->embed);
        if (f->best_view) ops->drop_view(f->be, f->best_view);
        if (f->logits) ops->drop_view(f->be, f->logits);
        if (f->top) ops->drop_view(f->be, f->top);
        void *const d[] = {f->d_norm, f->d_x,      f->d_h,   f->d_delta, f->d_q,
                           f->d_a,    f->d_k,      f->d_v,   f->d_gate,  f->d_up,
                           f->d_last, f->d_logits, f->d_top, f->d_best};
        for (size_t i = 0; i < sizeof d / sizeof *d; i++) ops->free(f->be, d[i]);
        ops->close(f->be);
    }
    free(f->layers);
    memset(f, 0, sizeof *f);
}

static void attention_block(struct forward *f, const struct batch *b, int i)
{
    const struct backend *ops = f->be->ops;
    const struct model_config *g = &f->model->config;
    const struct forward_layer *l = &f->layers[i];
    const struct be_linear *const qkv[] = {l->linear[LIN_Q], l->linear[LIN_K], l->linear[LIN_V]};
    ops->linear(f->be, 3, qkv, f->d_h, (float *const[]){f->d_q, f->d_k, f->d_v}, b->n_rows,
                b->n_decode);
    ops->rope_store(f->be, &(struct rope_args){.d_q = f->d_q,
                                               .d_k = f->d_k,
                                               .d_v = f->d_v,
                                               .d_q_norm = l->d_q_norm,
                                               .d_k_norm = l->d_k_norm,
                                               .eps = g->norm_eps,
                                               .d_kv = l->d_kv});
    ops->attend(f->be, &(struct attend_args){.d_q = f->d_q,
                                             .d_kv = l->d_kv,
                                             .d_out = f->d_a,
                                             .window = g->windows[i],
                                             .scale = 1.0f / sqrtf((float)g->head_dim)});
    ops->linear(f->be, 1, (const struct be_linear *const[]){l->linear[LIN_O]}, f->d_a,
                (float *const[]){f->d_delta}, b->n_rows, b->n_decode);
}

static void mlp_block(struct forward *f, const struct batch *b, int i)
{
    const struct backend *ops = f->be->ops;
    const struct forward_layer *l = &f->layers[i];
    const struct be_linear *const gate_up[] = {l->linear[LIN_GATE], l->linear[LIN_UP]};
    ops->linear(f->be, 2, gate_up, f->d_h, (float *const[]){f->d_gate, f->d_up}, b->n_rows,
                b->n_decode);
    ops->glu(f->be, f->d_gate, f->d_up, (size_t)b->n_rows * (size_t)f->model->config.ffn);
    ops->linear(f->be, 1, (const struct be_linear *const[]){l->linear[LIN_DOWN]}, f->d_gate,
                (float *const[]){f->d_delta}, b->n_rows, b->n_decode);
}

static int32_t *best_of(struct forward *f, unsigned step)
{
    return f->best_view + (1 + step % 2) * (size_t)f->options.max_logits;
}

/* The rows that are wanted, neighbours in one copy. 0: there are none. */
static int download_logits(struct forward *f, const uint8_t *wanted, int n)
{
    size_t vocab = (size_t)f->model->config.vocab;
    int any = 0;
    for (int i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && wanted[end]; end++) {
        }
        size_t at = (size_t)i * vocab;
        if (end > i)
            f->be->ops->download(f->be, f->logits + at, f->d_logits + at,
                                 (size_t)(end - i) * vocab * sizeof *f->logits);
        any |= end > i;
    }
    return any;
}

void forward_begin(struct forward *f, const struct batch *b, const uint8_t *wanted)
{
    const struct backend *ops = f->be->ops;
    const struct model_config *g = &f->model->config;
    CHECK(b->n_rows <= f->options.max_rows && b->n_logits <= f->options.max_logits &&
          b->n_top <= b->n_logits);
    CHECK(f->n_begun - f->n_ended < 2 && !f->logits_wanted);
    ops->begin_step(f->be, b);
    ops->embed(f->be, f->embed, f->d_best, f->d_x);
    const float *d_delta = NULL; /* added to the residual stream by the next norm */
    for (int i = 0; i < g->n_layers; i++) {
        ops->norm(f->be, f->d_x, d_delta, f->layers[i].d_input_norm, g->norm_eps, f->d_h, b->n_rows,
                  g->dim);
        attention_block(f, b, i);
        d_delta = f->d_delta;
        ops->norm(f->be, f->d_x, d_delta, f->layers[i].d_post_norm, g->norm_eps, f->d_h, b->n_rows,
                  g->dim);
        mlp_block(f, b, i);
    }
    if (b->n_logits) {
        ops->norm(f->be, f->d_x, d_delta, f->d_norm, g->norm_eps, f->d_h, b->n_rows, g->dim);
        ops->gather(f->be, f->d_h, f->d_last, g->dim);
        ops->linear(f->be, 1, (const struct be_linear *const[]){f->head}, f->d_last,
                    (float *const[]){f->d_logits}, b->n_logits, b->n_decode_logits);
        ops->argmax(f->be, f->d_logits, f->d_best, b->n_logits, g->vocab);
        if (b->n_top) ops->top(f->be, f->d_logits, f->d_top, g->vocab);
        ops->download(f->be, best_of(f, f->n_begun), f->d_best,
                      (size_t)b->n_logits * sizeof *f->best);
        if (b->n_top)
            ops->download(f->be, f->top, f->d_top, (size_t)b->n_top * BE_TOP_ROOM * sizeof *f->top);
        if (wanted) f->logits_wanted = download_logits(f, wanted, b->n_logits);
        f->logits_wanted |= b->n_top > 0;
    }
    ops->end_step(f->be);
    f->n_begun++;
}

int forward_has_top(const struct forward *f, int i)
{
    return f->top[(size_t)i * BE_TOP_ROOM].id >= 0;
}

int forward_n_top(const struct forward *f, int i)
{
    const struct logits_entry *top = f->top + (size_t)i * BE_TOP_ROOM;
    int n = 0;
    while (n < BE_TOP_ROOM && top[n].id >= 0) n++;
    return n;
}

int forward_fetch(struct forward *f, const uint8_t *wanted, int n, struct err *e)
{
    CHECK(f->n_ended == f->n_begun);
    return download_logits(f, wanted, n) ? f->be->ops->sync(f->be, e) : 0;
}

int forward_end(struct forward *f, struct err *e)
{
    CHECK(f->n_ended < f->n_begun);
    f->best = best_of(f, f->n_ended++);
    if (f->n_ended == f->n_begun) f->logits_wanted = 0; /* only the last one begun can want any */
    return f->be->ops->wait_step(f->be, e);
}

int forward_step(struct forward *f, const struct batch *b, const uint8_t *wanted, struct err *e)
{
    forward_begin(f, b, wanted);
    return forward_end(f, e);
}
