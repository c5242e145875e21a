/* checkop_states.c: conv, delta, mamba: operations with a state of each sequence. The layout of a
 * state is a backend's own, so states show only in the outputs of later steps. Every case is
 * computed in one step; row by row in place; and cut at random rows, states moving from slot to
 * slot, two sequences continuing from one slot, and with rows of drafts, of which some are right:
 * always the same bits. Slots that a step does not name keep theirs.
 *
 * conv: a product and fused sums: `width` roundings. The slope of silu is below 1.1; it adds 8
 * roundings of its own (checkop_vector.c, glu).
 *     |y - ref| <= (1.1 width sum |w x| + 8 |y|) 2^-24 + |z| 2^-126
 * A bias is one rounding of z more; without silu the slope is 1 and there are no further roundings.
 *
 * delta: q and k carry N = (dk + 6) / 2 + 8 roundings (the root halves the error of the sum of
 * squares), g = e^z carries 4 + |z| (12 + |x|) for softplus of x (its condition is below 1 + |x|),
 * beta 8. A column S_c of S with the error E_c (2-norms): g scales E_c, and the factor I - beta k
 * k^T does not enlarge it for beta <= 1, |k| <= 1. What is added in a row: the rounding of g S, the
 * error of beta k S, at most (dk + N + 3) |S_c|, of v - k S and of u, the rounding of k u and of
 * the sum. The output adds (dk + N) |q| |S_c|.
 *
 * With decays of channels g is the largest of them where it scales E_c, and carries the most that
 * one of them does.
 *
 * mamba: q and k are exact. u = softplus(x) v carries 13 + |x|; there is no beta k S. The output
 * adds the product with v, fused: 1 of it and of the result. scan: likewise, cell by cell: the
 * decay e^z carries 4 + |z| (14 + |x|), with the rounding of z. */
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SEQS = 3 };

struct state_case {
    int width, channels; /* conv */
    int bias, linear;
    int nk, nv, dk, dv; /* delta: width is 0 */
    int ssm, apart;     /* apart: q, k and v are in buffers of their own */
    int of_channels;    /* decays of channels */
    int scan;           /* Mamba-1; nk and nv are 1, apart */
    float beta_scale;
    int n_seqs, rows[MAX_SEQS]; /* rows of each sequence */
    int shared;                 /* the first rows of sequence 1 are those of sequence 0 */
};

/* Inputs of all rows, sequence by sequence. */
struct state_data {
    const struct state_case *k;
    int total, start[MAX_SEQS + 1];
    int n_in, in_cols[5], out_cols, n_w, w_floats[3];
    float *in[5], *w[3];
    float *joined; /* delta: q, k and v of all rows, what in[0] is unless they are apart */
    int joined_cols;
    float *want, *bound; /* [total][out_cols] */
    size_t state_floats;
};

static double norm2(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static void expect_conv(struct state_data *d, int seq)
{
    const struct state_case *k = d->k;
    for (int r = d->start[seq]; r < d->start[seq + 1]; r++)
        for (int c = 0; c < k->channels; c++) {
            double z = 0, size = 0;
            for (int i = 0; i < k->width; i++) {
                int at = r - k->width + 1 + i;
                if (at < d->start[seq]) continue;
                double p = (double)d->w[0][c * k->width + i] * d->in[0][at * k->channels + c];
                z += p;
                size += fabs(p);
            }
            double sum = U * k->width * size;
            if (k->bias) z += (double)d->w[1][c], sum += U * fabs(z);
            double y = z / (1 + exp(-z)), slope = 1.1; /* of silu, at most */
            d->want[r * k->channels + c] = (float)(k->linear ? z : y);
            d->bound[r * k->channels + c] =
                (float)(k->linear ? sum + U * fabs(z)
                                  : slope * sum + U * 8 * fabs(y) + fabs(z) * 0x1p-126);
        }
}

/* The double-precision state of one value head and the bounds of its columns. */
struct head {
    double s[160 * 128], error[128];
};

/* One row of one value head. */
static void expect_row(struct state_data *d, struct head *s, int r, int h)
{
    const struct state_case *k = d->k;
    int key = h / (k->nv / k->nk), nk = k->nk * k->dk;
    const float *x = d->joined + r * d->joined_cols, *v = x + 2 * nk + h * k->dv;
    double q[160], kk[160], N = (k->dk + 6) / 2.0 + 8;
    for (int i = 0; i < k->dk; i++) q[i] = x[key * k->dk + i], kk[i] = x[nk + key * k->dk + i];
    double nq = sqrt(norm2(q, k->dk) * norm2(q, k->dk) + 1e-6) * sqrt(k->dk),
           nkey = sqrt(norm2(kk, k->dk) * norm2(kk, k->dk) + 1e-6);
    for (int i = 0; i < k->dk; i++) q[i] /= nq, kk[i] /= nkey;
    double g[160], most = 0, eg = 0;
    for (int i = 0; i < k->dk; i++) {
        int at = k->of_channels ? h * k->dk + i : h, all = k->nv * (k->of_channels ? k->dk : 1);
        double a = (double)d->in[1][r * all + at] + (double)d->w[1][at],
               z = d->w[0][h] * ((a > 0 ? a : 0) + log1p(exp(-fabs(a))));
        g[i] = exp(z);
        most = fmax(most, g[i]);
        eg = fmax(eg, 4 + fabs(z) * (12 + fabs(a)));
    }
    double scale = k->beta_scale > 0 ? k->beta_scale : 1,
           beta = scale / (1 + exp(-(double)d->in[2][r * k->nv + h])), size_q = norm2(q, k->dk),
           size_k = norm2(kk, k->dk);
    for (int c = 0; c < k->dv; c++) {
        double sum = 0, out = 0, column = 0, after = 0, *e = &s->error[c];
        for (int i = 0; i < k->dk; i++) {
            s->s[i * k->dv + c] *= g[i];
            sum += kk[i] * s->s[i * k->dv + c];
            column += s->s[i * k->dv + c] * s->s[i * k->dv + c];
        }
        column = sqrt(column);
        double u = beta * (v[c] - sum),
               wrong = beta * U * ((k->dk + N + 3) * size_k * column + fabs(v[c] - sum)) +
                       9 * U * fabs(u);
        *e = most * *e + (eg + 1) * U * column + size_k * wrong + (N + 1) * U * size_k * fabs(u);
        for (int i = 0; i < k->dk; i++) {
            double *y = &s->s[i * k->dv + c];
            *y += kk[i] * u;
            out += q[i] * *y;
            after += *y * *y;
        }
        *e += U * sqrt(after);
        int at = r * d->out_cols + h * k->dv + c;
        d->want[at] = (float)out;
        d->bound[at] = (float)(size_q * *e + (k->dk + N + 1) * U * size_q * sqrt(after) + 0x1p-120);
    }
}

/* One row of one value head of Mamba-2. */
static void expect_ssm_row(struct state_data *d, struct head *s, int r, int h)
{
    const struct state_case *k = d->k;
    int key = h / (k->nv / k->nk), nk = k->nk * k->dk;
    const float *x = d->joined + r * d->joined_cols, *v = x + 2 * nk + h * k->dv,
                *q = x + key * k->dk, *kk = x + nk + key * k->dk;
    double a = (double)d->in[1][r * k->nv + h] + (double)d->w[1][h],
           step = (a > 0 ? a : 0) + log1p(exp(-fabs(a))), z = d->w[0][h] * step, g = exp(z),
           eg = 4 + fabs(z) * (12 + fabs(a)), size_q = 0, size_k = 0;
    for (int i = 0; i < k->dk; i++)
        size_q += (double)q[i] * (double)q[i], size_k += (double)kk[i] * (double)kk[i];
    size_q = sqrt(size_q), size_k = sqrt(size_k);
    for (int c = 0; c < k->dv; c++) {
        double out = 0, before = 0, after = 0, u = step * v[c], *e = &s->error[c],
               skip = (double)d->w[2][h] * v[c];
        for (int i = 0; i < k->dk; i++) {
            double *y = &s->s[i * k->dv + c];
            before += g * *y * g * *y;
            *y = g * *y + kk[i] * u;
            out += q[i] * *y;
            after += *y * *y;
        }
        *e = g * *e + (eg + 1) * U * sqrt(before) + (14 + fabs(a)) * U * size_k * fabs(u) +
             U * sqrt(after);
        int at = r * d->out_cols + h * k->dv + c;
        d->want[at] = (float)(out + skip);
        d->bound[at] = (float)(size_q * *e + (k->dk + 1) * U * size_q * sqrt(after) +
                               U * (fabs(skip) + 2 * fabs(out + skip)) + 0x1p-100);
    }
}

/* One row of Mamba-1. */
static void expect_scan_row(struct state_data *d, struct head *s, int r)
{
    const struct state_case *k = d->k;
    const float *q = d->joined + r * d->joined_cols, *kk = q + k->dk, *v = kk + k->dk;
    for (int c = 0; c < k->dv; c++) {
        double a = (double)d->in[1][r * k->dv + c] + (double)d->w[1][c],
               step = (a > 0 ? a : 0) + log1p(exp(-fabs(a))), u = step * v[c], out = 0, size_q = 0,
               size_k = 0, before = 0, after = 0, most = 0, *e = &s->error[c],
               skip = (double)d->w[2][c] * v[c];
        for (int i = 0; i < k->dk; i++) {
            double *y = &s->s[i * k->dv + c], z = step * d->w[0][i * k->dv + c], g = exp(z),
                   off = (5 + fabs(z) * (14 + fabs(a))) * g * *y;
            before += off * off;
            *y = g * *y + kk[i] * u;
            out += q[i] * *y;
            after += *y * *y;
            size_q += (double)q[i] * (double)q[i], size_k += (double)kk[i] * (double)kk[i];
            most = fmax(most, g);
        }
        *e = most * *e + U * sqrt(before) + (14 + fabs(a)) * U * sqrt(size_k) * fabs(u) +
             U * sqrt(after);
        int at = r * d->out_cols + c;
        d->want[at] = (float)(out + skip);
        d->bound[at] = (float)(sqrt(size_q) * (*e + (k->dk + 1) * U * sqrt(after)) +
                               U * (fabs(skip) + 2 * fabs(out + skip)) + 0x1p-100);
    }
}

static void expect_delta(struct state_data *d, struct head *s, int seq)
{
    for (int h = 0; h < d->k->nv; h++) {
        memset(s, 0, sizeof *s);
        for (int r = d->start[seq]; r < d->start[seq + 1]; r++) {
            if (d->k->scan) expect_scan_row(d, s, r);
            else if (d->k->ssm) expect_ssm_row(d, s, r, h);
            else expect_row(d, s, r, h);
        }
    }
}

static void describe_case(struct state_data *d)
{
    const struct state_case *k = d->k;
    if (k->width) {
        d->n_in = 1;
        d->n_w = 1 + k->bias;
        d->w_floats[1] = k->channels;
        d->in_cols[0] = d->out_cols = k->channels;
        d->w_floats[0] = k->channels * k->width;
        d->state_floats = (size_t)((k->width - 1) * k->channels);
    } else {
        d->n_in = 3 - k->ssm, d->n_w = 2 + k->ssm;
        d->w_floats[2] = k->nv;
        d->in_cols[0] = 2 * k->nk * k->dk + k->nv * k->dv;
        d->in_cols[1] = d->in_cols[2] = d->w_floats[0] = d->w_floats[1] = k->nv;
        if (k->of_channels) d->in_cols[1] = d->w_floats[1] = k->nv * k->dk;
        d->out_cols = k->nv * k->dv;
        d->state_floats = (size_t)(k->nv * k->dk * k->dv);
        if (!k->scan) return;
        d->n_in = 2, d->n_w = 3;
        d->in_cols[1] = d->w_floats[1] = d->w_floats[2] = k->dv, d->in_cols[2] = 0;
        d->w_floats[0] = k->dk * k->dv;
    }
}

/* Moves q, k and v of all rows into inputs 0, 3 and 4; input 2 of Mamba stays empty. */
static void take_apart(struct arena *a, struct state_data *d)
{
    const struct state_case *k = d->k;
    const int to[] = {0, 3, 4}, cols[] = {k->nk * k->dk, k->nk * k->dk, k->nv * k->dv};
    int first = 0;
    d->joined = d->in[0];
    d->joined_cols = d->in_cols[0];
    if (!k->apart) return;
    d->n_in = 5;
    for (int i = 0; i < 3; first += cols[i], i++) {
        float *x = d->in[to[i]] = arena_get(a, (size_t)(d->total * cols[i]) * sizeof(float));
        d->in_cols[to[i]] = cols[i];
        for (int r = 0; r < d->total; r++, x += cols[i])
            memcpy(x, d->joined + r * d->joined_cols + first, (size_t)cols[i] * sizeof *x);
    }
}

static void make_data(struct arena *a, struct rng *r, struct state_data *d)
{
    const struct state_case *k = d->k;
    for (int i = 0; i < k->n_seqs; i++) d->start[i + 1] = d->start[i] + k->rows[i];
    d->total = d->start[k->n_seqs];
    describe_case(d);
    for (int i = 0; i < d->n_in; i++) {
        size_t n = (size_t)(d->total * d->in_cols[i]);
        d->in[i] = arena_get(a, n * sizeof(float));
        for (size_t j = 0; j < n; j++) d->in[i][j] = 2 * rng_normal(r);
    }
    for (int i = 0; i < d->n_w; i++) {
        d->w[i] = arena_get(a, (size_t)d->w_floats[i] * sizeof(float));
        for (int j = 0; j < d->w_floats[i]; j++) d->w[i][j] = rng_normal(r);
    }
    /* decay = -e^A: from nearly none to nearly everything */
    for (int j = 0; !k->width && j < d->w_floats[0]; j++) d->w[0][j] = -expf(2 * d->w[0][j] - 1);
    if (k->rows[0] > 2) { /* rows of zeros, and gates at their ends */
        memset(d->in[0] + 2 * d->in_cols[0], 0, (size_t)d->in_cols[0] * sizeof(float));
        if (!k->width) d->in[1][0] = 100, d->in[1][d->in_cols[1]] = -100;
        if (!k->width && !k->ssm && !k->scan) d->in[2][0] = 200, d->in[2][k->nv] = -200;
    }
    for (int i = 0; k->shared && i < d->n_in; i++)
        memcpy(d->in[i] + d->start[1] * d->in_cols[i], d->in[i],
               (size_t)(k->shared * d->in_cols[i]) * sizeof(float));
    take_apart(a, d);
    size_t out = (size_t)(d->total * d->out_cols);
    d->want = arena_get(a, out * sizeof(float));
    d->bound = arena_get(a, out * sizeof(float));
    struct head *head = arena_get(a, sizeof *head);
    for (int i = 0; i < k->n_seqs; i++) {
        if (k->width) expect_conv(d, i);
        else expect_delta(d, head, i);
    }
}

/* A run on one side: device memory, and the slot of every sequence's state. */
struct state_run {
    struct check *c;
    int v;
    const char *name;
    const struct state_data *d;
    struct side side;
    struct dbuf in[5], w[3], out, slots, kept;
    size_t kept_bytes; /* of a row of a draft */
    int n_slots, slot[MAX_SEQS], done[MAX_SEQS];
    int right[MAX_SEQS]; /* rows of drafts of its last step that were right */
    float *got;          /* [total][out_cols] */
};

/* Of a row: the inputs of the convolution, or what the rule makes of q, k, v, a and b. */
static size_t kept_floats(const struct state_case *k)
{
    size_t decays = k->of_channels ? (size_t)k->dk : !k->scan, steps = k->scan ? (size_t)k->dv : 1;
    if (k->width) return (size_t)k->channels;
    return (size_t)(2 * k->nk * k->dk) + (size_t)k->nv * ((size_t)k->dv + decays + steps);
}

static void open_run(struct state_run *u, const struct variant *on, int n_threads)
{
    const struct state_data *d = u->d;
    side_open(&u->side, on, n_threads, plain_config(d->total));
    for (int i = 0; i < d->n_in; i++)
        u->in[i] = dbuf_new(&u->side, (size_t)(d->total * d->in_cols[i]) * sizeof(float));
    for (int i = 0; i < d->n_w; i++)
        u->w[i] = dbuf_from(&u->side, d->w[i], (size_t)d->w_floats[i] * sizeof(float));
    u->out = dbuf_new(&u->side, (size_t)(d->total * d->out_cols) * sizeof(float));
    u->n_slots = 2 * MAX_SEQS + 1;
    u->slots = dbuf_new(&u->side, (size_t)u->n_slots * d->state_floats * sizeof(float));
    u->kept_bytes = kept_floats(d->k) * sizeof(float);
    u->kept = dbuf_new(&u->side, (size_t)MAX_SEQS * STATE_DRAFTS * (size_t)on->ops->keeps_drafts *
                                     u->kept_bytes);
    for (int i = 0; i < MAX_SEQS; i++) u->slot[i] = -1, u->done[i] = u->right[i] = 0;
}

static void close_run(struct state_run *u)
{
    compare_fences(u->c, u->v, u->name, "output", &u->side, &u->out);
    compare_fences(u->c, u->v, u->name, "states", &u->side, &u->slots);
    compare_fences(u->c, u->v, u->name, "rows of drafts", &u->side, &u->kept);
    for (int i = 0; i < u->d->n_in; i++) dbuf_free(&u->side, &u->in[i]);
    for (int i = 0; i < u->d->n_w; i++) dbuf_free(&u->side, &u->w[i]);
    dbuf_free(&u->side, &u->out);
    dbuf_free(&u->side, &u->slots);
    dbuf_free(&u->side, &u->kept);
    side_close(&u->side);
}

/* One step: rows[i] rows of every sequence, to slot to[i], the last drafts[i] of which are drafts;
 * right[i] of these will be right, in the others the inputs are wrong. */
struct state_step {
    int rows[MAX_SEQS], to[MAX_SEQS], drafts[MAX_SEQS], right[MAX_SEQS];
};

static void run_trial(struct state_run *u, const struct batch *b)
{
    const struct state_case *k = u->d->k;
    struct trial t = {0};
    struct op *op = trial_op(&t, k->width ? OP_CONV : OP_DELTA);
    for (int i = 0; i < u->d->n_in; i++)
        if (u->d->in_cols[i])
            op->in[i] = trial_buffer(&t, u->in[i].d, ROWS_STEP,
                                     (size_t)u->d->in_cols[i] * sizeof(float));
    op->out[0] = trial_buffer(&t, u->out.d, ROWS_STEP, (size_t)u->d->out_cols * sizeof(float));
    for (int i = 0; i < u->d->n_w; i++) op->w[i] = trial_vector(&t, u->w[i].d, u->d->w_floats[i]);
    int state = trial_state(&t, u->slots.d, u->d->state_floats * sizeof(float), u->kept.d,
                            u->kept_bytes);
    if (k->width) {
        op->as.conv.channels = k->channels;
        op->as.conv.width = k->width;
        op->as.conv.linear = k->linear;
        op->as.conv.state = state;
    } else {
        op->as.delta.key_heads = k->nk, op->as.delta.value_heads = k->nv;
        op->as.delta.key_dim = k->dk, op->as.delta.value_dim = k->dv;
        op->as.delta.rule = k->scan          ? DELTA_SCAN
                            : k->ssm         ? DELTA_SSM
                            : k->of_channels ? DELTA_CHANNELS
                                             : DELTA_GATED;
        op->as.delta.beta_scale = k->beta_scale;
        op->as.delta.state = state;
    }
    trial_run(&t, &u->side, b, 0);
}

/* Slots outside `to` keep their bits. */
static void compare_slots(struct state_run *u, const struct state_step *s, const float *before,
                          const float *after)
{
    for (int i = 0; i < u->n_slots; i++) {
        int is_written = 0;
        for (int q = 0; q < u->d->k->n_seqs; q++) is_written |= s->rows[q] && s->to[q] == i;
        if (is_written) continue;
        size_t at = (size_t)i * u->d->state_floats;
        compare_bits(u->c, u->v, u->name, "a state that no sequence writes", after + at,
                     before + at, u->d->state_floats, u->d->state_floats);
    }
}

/* The rows of sequence q in front of the rest. */
static void upload_rows(struct state_run *u, const struct state_step *s, int q, int row)
{
    const struct state_data *d = u->d;
    struct arena a = {0};
    int n_wrong = s->drafts[q] - s->right[q];
    for (int i = 0; i < d->n_in; i++) {
        int cols = d->in_cols[i], all = s->rows[q] * cols;
        if (!cols) continue;
        float *x = arena_get(&a, (size_t)all * sizeof *x);
        memcpy(x, d->in[i] + (d->start[q] + u->done[q]) * cols, (size_t)all * sizeof *x);
        for (int j = all - n_wrong * cols; j < all; j++) x[j] = 1.5f - x[j];
        u->side.ops->upload(u->side.be, u->in[i].d + row * cols * 4, x, (size_t)all * sizeof *x);
    }
    u->side.ops->sync(u->side.be, &(struct err){0});
    arena_free(&a);
}

static void run_step(struct state_run *u, const struct state_step *s)
{
    const struct state_data *d = u->d;
    struct arena a = {0};
    struct span span[MAX_SEQS];
    int from[MAX_SEQS], to[MAX_SEQS], n_ctx[MAX_SEQS] = {0}, n = 0, row = 0;
    int32_t drafts[MAX_SEQS], right[MAX_SEQS], seat[MAX_SEQS], any = 0, n_first = 0;
    struct rng r = {7};
    for (int q = 0; q < d->k->n_seqs; q++) {
        if (!s->rows[q]) continue;
        upload_rows(u, s, q, row);
        drafts[n] = s->drafts[q], right[n] = u->right[q], seat[n] = MAX_SEQS - 1 - q;
        any |= drafts[n] | right[n];
        if (drafts[n] | right[n]) n_first = row + s->rows[q];
        span[n] = (struct span){n, u->done[q], s->rows[q]};
        n_ctx[n] = u->done[q] + s->rows[q];
        from[n] = u->slot[q], to[n++] = s->to[q];
        row += s->rows[q];
    }
    struct page_map m = make_pages(&a, &r, n_ctx, n);
    struct batch b = make_batch(&a, &m, span, n, 0);
    b.n_decode = n_first; /* sequences without drafts behind the last that has some are prompts */
    b.seat = seat;
    if (any) b.n_drafts = drafts, b.n_right = right;
    memcpy(b.state_from, from, (size_t)n * sizeof *from);
    memcpy(b.state_to, to, (size_t)n * sizeof *to);
    float *before = arena_get(&a, u->slots.bytes), *after = arena_get(&a, u->slots.bytes),
          *out = arena_get(&a, u->out.bytes);
    dbuf_get(&u->side, &u->slots, before);
    run_trial(u, &b);
    dbuf_get(&u->side, &u->slots, after);
    dbuf_get(&u->side, &u->out, out);
    compare_slots(u, s, before, after);
    for (int q = 0; q < d->k->n_seqs; q++) {
        if (!s->rows[q]) continue;
        int is = s->rows[q] - s->drafts[q] + s->right[q]; /* rows that are the sequence's */
        size_t bytes = (size_t)(is * d->out_cols) * sizeof(float);
        memcpy(u->got + (d->start[q] + u->done[q]) * d->out_cols, out, bytes);
        out += s->rows[q] * d->out_cols;
        u->done[q] += is;
        u->right[q] = s->right[q];
        u->slot[q] = s->to[q];
    }
    arena_free(&a);
}

enum how { WHOLE, ONE_BY_ONE, CUT, DRAFTED, SHARED };

static int left_of(const struct state_run *u, int q) { return u->d->k->rows[q] - u->done[q]; }

/* Sequence 0 computes the shared rows, and sequence 1 continues from its state. */
static void share(struct state_run *u)
{
    const struct state_data *d = u->d;
    run_step(u, &(struct state_step){.rows = {d->k->shared}, .to = {2 * MAX_SEQS}});
    memcpy(u->got + d->start[1] * d->out_cols, u->got,
           (size_t)(d->k->shared * d->out_cols) * sizeof(float));
    u->done[1] = d->k->shared;
    u->slot[1] = u->slot[0];
}

/* All rows; got receives the outputs. */
static void run_all(struct check *c, int v, const char *name, const struct variant *on,
                    int n_threads, const struct state_data *d, enum how how, float *got)
{
    struct state_run u = {.c = c, .v = v, .name = name, .d = d, .got = got};
    struct rng r = rng_for(1, name);
    open_run(&u, on, n_threads);
    if (how == SHARED) share(&u);
    for (;;) {
        struct state_step s = {0};
        int any = 0;
        for (int q = 0; q < d->k->n_seqs; q++) {
            int left = left_of(&u, q);
            s.rows[q] = !left || how == WHOLE ? left
                        : how == ONE_BY_ONE   ? 1
                                              : rng_below(&r, left < 6 ? left + 1 : 6);
            s.to[q] = how == WHOLE || how == ONE_BY_ONE ? q : 2 * q + (u.slot[q] == 2 * q);
            if (how == DRAFTED && u.slot[q] >= 0 && rng_below(&r, 2)) s.to[q] = u.slot[q];
            if (how == DRAFTED && s.rows[q] > 1 && rng_below(&r, 4)) {
                int most = s.rows[q] - 1 < STATE_DRAFTS ? s.rows[q] - 1 : STATE_DRAFTS;
                s.drafts[q] = 1 + rng_below(&r, most);
                s.right[q] = rng_below(&r, s.drafts[q] + 1);
            }
            any |= left;
        }
        if (!any) break;
        if (s.rows[0] + s.rows[1] + s.rows[2]) run_step(&u, &s);
    }
    close_run(&u);
}

static void check_case(struct check *c, const struct state_case *k)
{
    char name[NAME_BYTES];
    struct arena a = {0};
    int n = k->width ? snprintf(name, NAME_BYTES, "width %d, %d channels%s%s", k->width,
                                k->channels, k->bias ? ", bias" : "", k->linear ? ", linear" : "")
                     : snprintf(name, NAME_BYTES, "%d key and %d value heads of %d, %d, beta %g%s",
                                k->nk, k->nv, k->dk, k->dv, (double)k->beta_scale,
                                k->of_channels ? ", decays of channels"
                                : k->apart     ? ", apart"
                                               : "");
    for (int i = 0; i < k->n_seqs; i++)
        n += snprintf(name + n, (size_t)(NAME_BYTES - n), "%s%d", i ? " + " : ", rows ",
                      k->rows[i]);
    struct rng r = rng_for(c->seed, name);
    struct state_data d = {.k = k};
    make_data(&a, &r, &d);
    size_t rows = (size_t)d.total, cols = (size_t)d.out_cols, all = rows * cols;
    float *first = arena_get(&a, all * 4), *got = arena_get(&a, all * 4),
          *kept = arena_get(&a, all * 4);
    run_all(c, REF, name, &c->ref, 1, &d, WHOLE, got);
    count_case(c, REF);
    compare(c, REF, name, "output", got, d.want, d.bound, rows, cols);
    for (int v = 0; v < c->n && !is_caught(c); v++) {
        static const char *const cuts[] = {"", "row by row", "cut anywhere", "with drafts",
                                           "continued from one"};
        count_case(c, v);
        run_all(c, v, name, &c->v[v], 1, &d, WHOLE, first);
        compare(c, v, name, "output", first, d.want, d.bound, rows, cols);
        compare_variants(c, v, name, "output", kept, first, all, cols);
        for (int how = ONE_BY_ONE; how <= (k->shared ? SHARED : DRAFTED); how++) {
            run_all(c, v, name, &c->v[v], 1, &d, (enum how)how, got);
            compare_bits(c, v, name, cuts[how], got, first, all, cols);
        }
        run_all(c, v, name, &c->v[v], 3, &d, CUT, got);
        compare_bits(c, v, name, "3 threads against 1", got, first, all, cols);
    }
    arena_free(&a);
}

void check_conv(struct check *c)
{
    static const struct state_case cases[] = {
        {.width = 4, .channels = 40, .n_seqs = 3, .rows = {9, 12, 1}, .shared = 5},
        {.width = 4, .channels = 1, .n_seqs = 1, .rows = {7}},
        {.width = 2, .channels = 37, .n_seqs = 2, .rows = {5, 6}, .shared = 1},
        {.width = 4, .channels = 1100, .n_seqs = 2, .rows = {2, 17}, .shared = 2},
        {.width = 4, .channels = 6, .n_seqs = 2, .rows = {150, 13}, .shared = 3},
        {.width = 4, .channels = 530, .bias = 1, .n_seqs = 2, .rows = {140, 5}, .shared = 2},
        {.width = 3, .channels = 70, .linear = 1, .n_seqs = 2, .rows = {11, 4}, .shared = 1},
        {.width = 5, .channels = 33, .bias = 1, .linear = 1, .n_seqs = 1, .rows = {9}},
        {.width = 4, .channels = 19, .linear = 1, .n_seqs = 2, .rows = {133, 8}, .shared = 4},
        {.width = 3, .channels = 512, .n_seqs = 1, .rows = {20}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !(c->quick && i == 9); i++)
        check_case(c, &cases[i]);
}

void check_mamba(struct check *c)
{
    static const struct state_case cases[] = {
        {.ssm = 1,
         .nk = 1,
         .nv = 2,
         .dk = 16,
         .dv = 16,
         .n_seqs = 3,
         .rows = {9, 11, 1},
         .shared = 4},
        {.ssm = 1, .nk = 2, .nv = 8, .dk = 32, .dv = 24, .n_seqs = 2, .rows = {6, 3}, .shared = 2},
        {.ssm = 1, .nk = 2, .nv = 6, .dk = 24, .dv = 40, .n_seqs = 1, .rows = {13}},
        {.ssm = 1, .nk = 1, .nv = 1, .dk = 160, .dv = 8, .n_seqs = 2, .rows = {19, 2}, .shared = 1},
        {.ssm = 1,
         .nk = 1,
         .nv = 3,
         .dk = 128,
         .dv = 64,
         .n_seqs = 3,
         .rows = {27, 8, 1},
         .shared = 2},
        {.ssm = 1,
         .nk = 2,
         .nv = 4,
         .dk = 128,
         .dv = 128,
         .n_seqs = 2,
         .rows = {70, 9},
         .shared = 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !(c->quick && i == 5); i++)
        check_case(c, &cases[i]);
}

void check_scan(struct check *c)
{
    static const struct state_case cases[] = {
        {.scan = 1, .dk = 16, .dv = 48, .n_seqs = 3, .rows = {9, 11, 1}, .shared = 4},
        {.scan = 1, .dk = 5, .dv = 31, .n_seqs = 2, .rows = {6, 3}, .shared = 2},
        {.scan = 1, .dk = 16, .dv = 70, .n_seqs = 2, .rows = {37, 5}, .shared = 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !(c->quick && i == 2); i++) {
        struct state_case k = cases[i];
        k.nk = k.nv = k.apart = 1;
        check_case(c, &k);
    }
}

void check_channels(struct check *c)
{
    static const struct state_case cases[] = {
        {.nk = 2, .nv = 2, .dk = 16, .dv = 16, .n_seqs = 3, .rows = {9, 11, 1}, .shared = 4},
        {.nk = 1, .nv = 3, .dk = 24, .dv = 40, .n_seqs = 2, .rows = {6, 3}, .shared = 2},
        {.nk = 3, .nv = 3, .dk = 128, .dv = 20, .n_seqs = 2, .rows = {27, 8}, .shared = 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !(c->quick && i == 2); i++) {
        struct state_case k = cases[i];
        k.of_channels = k.apart = 1;
        check_case(c, &k);
    }
}

void check_delta(struct check *c)
{
    static const struct state_case cases[] = {
        {.nk = 1, .nv = 2, .dk = 16, .dv = 16, .n_seqs = 3, .rows = {9, 11, 1}, .shared = 4},
        {.nk = 2, .nv = 2, .dk = 32, .dv = 64, .n_seqs = 2, .rows = {6, 3}, .shared = 2},
        {.nk = 2,
         .nv = 6,
         .dk = 24,
         .dv = 40,
         .beta_scale = 2,
         .apart = 1,
         .n_seqs = 2,
         .rows = {13, 4},
         .shared = 3},
        {.nk = 1, .nv = 1, .dk = 160, .dv = 8, .n_seqs = 2, .rows = {19, 2}, .shared = 1},
        {.nk = 1, .nv = 1, .dk = 128, .dv = 64, .n_seqs = 3, .rows = {27, 8, 1}, .shared = 2},
        {.nk = 1,
         .nv = 2,
         .dk = 128,
         .dv = 64,
         .beta_scale = 2,
         .apart = 1,
         .n_seqs = 2,
         .rows = {19, 2},
         .shared = 1},
        {.nk = 2, .nv = 4, .dk = 128, .dv = 128, .n_seqs = 2, .rows = {70, 9}, .shared = 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !(c->quick && i == 6); i++)
        check_case(c, &cases[i]);
}
