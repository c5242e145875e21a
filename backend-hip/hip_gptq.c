#include "backend-hip/hip_gptq.h"

#include "backend-hip/hip_internal.h"
#include "backend-hip/hip_memory.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)GPTQ_PLACES == (int)GPTQ_BLOCK && (int)GPTQ_BLOCK <= (int)GPTQ_TILE,
               "a block of the diagonal is a tile");

enum { NB = GPTQ_BLOCK };
enum gptq_buffer {
    Q_INDEX,
    Q_ORDER,
    Q_DEAD,
    Q_MATRIX,   /* double [n][ld] */
    Q_CORNER,   /* double [NB][NB] */
    Q_INVERSE,  /* double [blocks][NB][NB] */
    Q_TURNED,   /* the same of a block, transposed */
    Q_FACTOR,   /* float [n][n] */
    Q_DIAGONAL, /* float [n] */
    Q_WEIGHTS,  /* float [out][in] */
    Q_PLACES,   /* float [in][out] */
    Q_RAW,      /* the same, as it was */
    Q_ERRORS,   /* float [NB][out] */
    Q_CODES,    /* [in][out] by place, and by input */
    Q_RANGES,   /* float [3][out] */
    Q_SCALES,   /* F16 [n_groups][out] */
    Q_ZEROS,    /* [n_groups][out] */
    Q_LOST,     /* double [out][3] */
    Q_USED
};
_Static_assert((int)Q_USED <= (int)GPTQ_BUFFERS, "buffers");

/* NULL after a failure. */
static void *take(struct hip *h, enum gptq_buffer b, size_t bytes)
{
    struct hip_gptq *q = &h->gptq;
    if (bytes <= q->bytes[b]) return q->d[b];
    if (q->d[b]) hip_free(&h->be, q->d[b]);
    q->d[b] = hip_alloc(&h->be, bytes);
    q->bytes[b] = q->d[b] ? bytes : 0;
    return q->d[b];
}

void hip_gptq_close(struct hip *h)
{
    for (int i = 0; i < Q_USED; i++)
        if (h->gptq.d[i]) hip_free(&h->be, h->gptq.d[i]);
}

static int no_room(struct hip *h, size_t bytes, struct err *e)
{
    size_t left = 0, total = 0;
    if (h->failed.msg[0]) {
        *e = h->failed;
        return -1;
    }
    h->device->library->api.memory_info(&left, &total);
    return err_set(e,
                   "out of memory on %s: %.2f GiB are needed at once, %.2f of %.2f are free: take "
                   "--backend cpu",
                   h->device->name, (double)bytes / (1 << 30), (double)left / (1 << 30),
                   (double)total / (1 << 30));
}

static size_t tiles(int n, int tile) { return ((size_t)n + (size_t)tile - 1) / (size_t)tile; }

/* ---- sums */

static void product(struct hip *h, const struct gptq_product_args *a)
{
    hip_launch(h, K_gptq_product,
               (struct hip_blocks){tiles(a->nj, GPTQ_TILE_WIDE), tiles(a->ni, GPTQ_TILE), 1, 0}, a,
               sizeof *a);
}

static void add_rows(struct be *be, float *d_sum, int n, const struct gptq_rows *x)
{
    struct hip *h = (struct hip *)be;
    size_t bytes = (size_t)x->n * sizeof *x->index;
    long long *index = NULL;
    hip_use(h);
    if (x->index) {
        index = take(h, Q_INDEX, bytes);
        if (!index) {
            no_room(h, bytes, &h->failed);
            return;
        }
        hip_upload(be, index, x->index, bytes);
    }
    const size_t width = (size_t)n;
    const struct gptq_product_args a = {.c = d_sum,
                                        .a = x->d_x,
                                        .b = x->d_x,
                                        .index = index,
                                        .ldc = width,
                                        .lda = x->stride,
                                        .ldb = x->stride,
                                        .nr = x->n,
                                        .ni = n,
                                        .nj = n,
                                        .chunk = GPTQ_CHUNK,
                                        .upper = 1};
    product(h, &a);
    hip_flush(h);
}

static void diagonal(struct be *be, const float *d_sum, int n, float *to)
{
    struct hip *h = (struct hip *)be;
    size_t bytes = (size_t)n * sizeof *to;
    hip_use(h);
    const struct gptq_diagonal_args a = {take(h, Q_DIAGONAL, bytes), d_sum, n};
    memset(to, 0, bytes);
    if (!a.to) {
        no_room(h, bytes, &h->failed);
        return;
    }
    hip_launch_elements(h, K_gptq_diagonal, (size_t)n, &a, sizeof a);
    hip_flush(h);
    hip_download(be, to, a.to, bytes);
}

/* ---- the factor: the matrix g has R above the diagonal, from the block on that is worked on, and
 * behind it what is left to be factored; below, R^-T above the block's rows, and from them on the
 * sums of what it will be. */

struct work {
    struct hip *h;
    const struct gptq_factor *f;
    double *g, *corner, *inverse, *turned;
    size_t ld;
    int at, n;                        /* the block */
    double host[NB * NB], v[NB * NB]; /* of it */
};

static void product_64(struct work *w, const struct gptq_product_64_args *a)
{
    hip_launch(w->h, K_gptq_product_64,
               (struct hip_blocks){tiles(a->nj, GPTQ_TILE_64), tiles(a->ni, GPTQ_TILE), 1, 0}, a,
               sizeof *a);
}

/* Factors and inverts the diagonal block on the host. 0: it is not positive definite. */
static int do_corner(struct work *w)
{
    struct be *be = &w->h->be;
    double *inverse = w->inverse + (size_t)(w->at / NB) * NB * NB;
    const struct gptq_corner_args a = {w->corner, w->g + (size_t)w->at * (w->ld + 1), w->ld, w->n};
    hip_launch_elements(w->h, K_gptq_corner, NB * NB, &a, sizeof a);
    hip_flush(w->h);
    hip_download(be, w->host, w->corner, sizeof w->host);
    if (w->h->failed.msg[0]) return 1; /* sync tells */
    if (!w->f->diagonal(w->host, NB, w->n, w->v)) return 0;
    hip_upload(be, inverse, w->v, sizeof w->v);
    for (int i = 0; i < NB; i++)
        for (int j = 0; j < NB; j++) w->host[i * NB + j] = w->v[j * NB + i];
    hip_upload(be, w->turned, w->host, sizeof w->host);
    return 1;
}

static void do_block(struct work *w)
{
    int end = w->at + w->n, left = w->f->n - end;
    double *row = w->g + (size_t)w->at * w->ld, *below = w->g + (size_t)end * w->ld, *r = row + end;
    const double *inverse = w->inverse + (size_t)(w->at / NB) * NB * NB;
    struct gptq_product_64_args a = {.ldc = w->ld, .ldb = w->ld, .nr = w->n};
    /* R behind the block, and what is left behind it */
    a.c = r, a.a = inverse, a.b = r, a.lda = NB, a.ni = w->n, a.nj = left, a.set = 1;
    product_64(w, &a);
    a.c = below + end, a.a = r, a.b = r, a.lda = w->ld, a.ni = a.nj = left, a.set = 0;
    a.minus = a.upper = 1;
    product_64(w, &a);
    /* R^-T before the block */
    a.upper = 0, a.set = 1;
    a.c = row, a.a = inverse, a.b = row, a.lda = NB, a.ni = w->n, a.nj = w->at;
    product_64(w, &a);
    /* the sums of the rows below */
    a.minus = 0, a.a = r, a.lda = w->ld, a.ni = left;
    a.c = below + w->at, a.b = w->turned, a.ldb = NB, a.nj = w->n;
    product_64(w, &a);
    a.c = below, a.b = row, a.ldb = w->ld, a.nj = w->at, a.set = 0;
    product_64(w, &a);
}

static int open_work(struct work *w, struct hip *h, const struct gptq_factor *f, int **order,
                     struct err *e)
{
    size_t n = (size_t)f->n, blocks = (n + NB - 1) / NB;
    if (f->n >= 1 << 16)
        return err_set(e,
                       "%s: a linear of %d inputs, a GPU quantizes up to 65535: take --backend cpu",
                       h->device->name, f->n);
    w->h = h;
    w->f = f;
    w->ld = (n + 15) / 16 * 16;
    size_t matrix = n * w->ld * sizeof *w->g, block = NB * NB * sizeof *w->g,
           factor = n * n * sizeof(float);
    w->g = take(h, Q_MATRIX, matrix);
    w->corner = take(h, Q_CORNER, block);
    w->inverse = take(h, Q_INVERSE, blocks * block);
    w->turned = take(h, Q_TURNED, block);
    *order = take(h, Q_ORDER, n * sizeof **order);
    if (w->g && w->corner && w->inverse && w->turned && *order && take(h, Q_FACTOR, factor))
        return 0;
    return no_room(h, matrix + factor, e);
}

static void put_factor(struct work *w)
{
    const size_t n = (size_t)w->f->n;
    const struct gptq_factor_args a = {w->h->gptq.d[Q_FACTOR], w->g, w->inverse, w->ld, w->f->n};
    hip_launch(w->h, K_gptq_factor, (struct hip_blocks){tiles(w->f->n, THREADS), n, 1, 0}, &a,
               sizeof a);
    hip_flush(w->h);
    w->h->gptq.n = w->f->n;
}

static int factor(struct be *be, const struct gptq_factor *f, int *done, struct err *e)
{
    struct hip *h = (struct hip *)be;
    struct work *w = malloc(sizeof *w);
    int *order = NULL;
    if (!w) return err_memory(e);
    hip_use(h);
    int rc = open_work(w, h, f, &order, e);
    *done = !rc;
    if (!rc) {
        hip_upload(be, order, f->order, (size_t)f->n * sizeof *order);
        const struct gptq_matrix_args a = {w->g, f->d_sum, order, w->ld, f->add, f->n};
        hip_launch(h, K_gptq_matrix, (struct hip_blocks){tiles(f->n, THREADS), (size_t)f->n, 1, 0},
                   &a, sizeof a);
    }
    for (w->at = 0; !rc && *done && w->at < f->n; w->at += NB) {
        w->n = f->n - w->at < NB ? f->n - w->at : NB;
        *done = do_corner(w);
        if (*done) do_block(w);
    }
    if (!rc && *done) put_factor(w);
    free(w);
    return rc || hip_sync(be, e) ? -1 : 0;
}

/* ---- rounding */

struct rounding {
    struct hip *h;
    const struct gptq_matrix *m;
    size_t in, out, groups;
    float *places, *raw, *e, *scale, *inverse, *zero;
    uint8_t *q, *codes, *zeros, *dead;
    uint16_t *scales;
    double *lost;
    int *order;
};

static int open_rounding(struct rounding *r, struct hip *h, const struct gptq_matrix *m,
                         struct err *e)
{
    size_t in = r->in = (size_t)m->in, out = r->out = (size_t)m->out,
           groups = r->groups = (size_t)m->n_groups, places = in * out * sizeof(float);
    r->h = h;
    r->m = m;
    float *weights = take(h, Q_WEIGHTS, places);
    r->places = take(h, Q_PLACES, places);
    r->raw = take(h, Q_RAW, places);
    r->e = take(h, Q_ERRORS, NB * out * sizeof *r->e);
    r->q = take(h, Q_CODES, 2 * in * out);
    r->codes = r->q ? r->q + in * out : NULL;
    r->scale = take(h, Q_RANGES, 3 * out * sizeof *r->scale);
    r->inverse = r->scale ? r->scale + out : NULL;
    r->zero = r->scale ? r->scale + 2 * out : NULL;
    r->scales = take(h, Q_SCALES, groups * out * sizeof *r->scales);
    r->zeros = take(h, Q_ZEROS, groups * out);
    r->lost = take(h, Q_LOST, 3 * out * sizeof *r->lost);
    r->order = take(h, Q_ORDER, in * sizeof *r->order);
    r->dead = take(h, Q_DEAD, in);
    if (weights && r->places && r->e && r->q && r->scale && r->scales && r->zeros && r->lost &&
        r->order && r->dead && r->raw)
        return 0;
    return no_room(h, 3 * places + 2 * in * out, e);
}

/* All kernels by places: one launch for a row of blocks a place. */
static void by_places(const struct rounding *r, enum hip_kernel k, float *places)
{
    const struct gptq_places_args a = {.w = r->h->gptq.d[Q_WEIGHTS],
                                       .places = places,
                                       .raw = r->raw,
                                       .order = r->order,
                                       .dead = r->dead,
                                       .q = r->q,
                                       .codes = r->codes,
                                       .error = r->lost,
                                       .in = r->m->in,
                                       .out = r->m->out};
    hip_launch(r->h, k,
               (struct hip_blocks){tiles(r->m->out, THREADS), k == K_gptq_errors ? 1 : r->in, 1, 0},
               &a, sizeof a);
}

static int low_bits(const struct rounding *r, int g)
{
    return g + 1 < r->m->n_groups ? r->m->low_bits : 0;
}

static void choose_ranges(const struct rounding *r, int g)
{
    const struct gptq_matrix *m = r->m;
    const struct order_group *of = &m->group[g];
    int low = low_bits(r, g);
    const struct gptq_range_args a = {.w = r->places + (size_t)of->first * r->out,
                                      .scale = r->scale,
                                      .inverse = r->inverse,
                                      .zero = r->zero,
                                      .scales = r->scales + (size_t)of->number * r->out,
                                      .zeros = r->zeros + (size_t)of->number * r->out,
                                      .clip = low ? m->clip : 0,
                                      .n = of->n,
                                      .out = m->out,
                                      .bits = low ? low : m->bits,
                                      .sym = m->sym,
                                      .search = m->search && (low || !m->low_bits)};
    hip_launch(r->h, K_gptq_ranges, (struct hip_blocks){tiles(m->out, GPTQ_RANGE_ROWS), 1, 1, 0},
               &a, sizeof a);
}

/* Places from .. to - 1, of group g. */
static void round_places(const struct rounding *r, const struct order_block *b, int g, int from,
                         int to)
{
    const struct gptq_matrix *m = r->m;
    size_t first = (size_t)b->first, n = r->in;
    int low = low_bits(r, g);
    const struct gptq_round_args a = {.w = r->places + first * r->out,
                                      .raw = r->raw + first * r->out,
                                      .e = r->e,
                                      .q = r->q + first * r->out,
                                      .u = (const float *)r->h->gptq.d[Q_FACTOR] + first * n +
                                           first,
                                      .scale = r->scale,
                                      .inverse = r->inverse,
                                      .zero = r->zero,
                                      .error = r->lost,
                                      .ldu = n,
                                      .beta = m->beta,
                                      .n = b->n,
                                      .from = from - b->first,
                                      .to = to - b->first,
                                      .out = m->out,
                                      .bits = low ? low : m->bits};
    hip_launch(r->h, K_gptq_round, (struct hip_blocks){tiles(m->out, GPTQ_ROUND_ROWS), 1, 1, 0}, &a,
               sizeof a);
}

/* The error of a block goes to the places behind it. */
static void pass_on(const struct rounding *r, const struct order_block *b)
{
    size_t first = (size_t)b->first, end = first + (size_t)b->n, n = r->in;
    if (end == n) return;
    const struct gptq_product_args a = {.c = r->places + end * r->out,
                                        .a = (const float *)r->h->gptq.d[Q_FACTOR] + first * n +
                                             end,
                                        .b = r->e,
                                        .ldc = r->out,
                                        .lda = n,
                                        .ldb = r->out,
                                        .nr = b->n,
                                        .ni = (int)(n - end),
                                        .nj = (int)r->out,
                                        .chunk = GPTQ_CHUNK,
                                        .minus = 1};
    product(r->h, &a);
}

static void round_blocks(const struct rounding *r)
{
    const struct gptq_matrix *m = r->m;
    for (int i = 0, g = 0; i < m->n_blocks; i++) {
        const struct order_block *b = &m->block[i];
        for (int at = b->first, end = b->first + b->n; at < end;) {
            while (at >= m->group[g].first + m->group[g].n) g++;
            int last = m->group[g].first + m->group[g].n, to = last < end ? last : end;
            if (at == m->group[g].first) choose_ranges(r, g);
            round_places(r, b, g, at, to);
            at = to;
        }
        pass_on(r, b);
    }
}

static int round_matrix(struct be *be, const struct gptq_matrix *m, struct err *e)
{
    struct hip *h = (struct hip *)be;
    struct rounding r = {0};
    hip_use(h);
    CHECK(h->gptq.n == m->in);
    if (open_rounding(&r, h, m, e)) return -1;
    hip_upload(be, h->gptq.d[Q_WEIGHTS], m->w, r.in * r.out * sizeof *m->w);
    hip_upload(be, r.order, m->order, r.in * sizeof *r.order);
    hip_upload(be, r.dead, m->dead, r.in);
    hip_clear(h, r.lost, 3 * r.out * sizeof *r.lost);
    by_places(&r, K_gptq_take, r.places);
    by_places(&r, K_gptq_take, r.raw);
    round_blocks(&r);
    by_places(&r, K_gptq_codes, r.places);
    by_places(&r, K_gptq_errors, r.places);
    hip_flush(h);
    hip_download(be, m->codes, r.codes, r.in * r.out);
    hip_download(be, m->scales, r.scales, r.groups * r.out * sizeof *m->scales);
    hip_download(be, m->zeros, r.zeros, r.groups * r.out);
    hip_download(be, m->error, r.lost, 3 * r.out * sizeof *m->error);
    return hip_sync(be, e);
}

const struct gptq_ops hip_gptq_ops = {.add_rows = add_rows,
                                      .diagonal = diagonal,
                                      .factor = factor,
                                      .round = round_matrix};
