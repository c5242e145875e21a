#include "quantize/factor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NB = GPTQ_BLOCK, STRIP = TN_COLUMNS };

/* ---- order, groups, blocks */

struct ranked {
    float size;
    int input, n;
};

static int by_size(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return x->input < y->input ? -1 : x->input > y->input;
}

/* of `own`, or the square sum; 0 without both */
static float size_of(const struct hessian *h, const float *own, int i)
{
    if (own) return own[i];
    return h ? h->diagonal[i] : 0;
}

/* ORDER_RISING and ORDER_FALLING; r [n] has the largest first. */
static void arrange_outliers(struct factor *f, const struct ranked *r)
{
    int last = f->n < f->group ? f->n : f->group, low = f->n - last,
        rising = f->kind == ORDER_RISING;
    for (int i = 0; i < f->n; i++) {
        int first = i < low ? last : 0, n = i < low ? low : last, at = i < low ? i : i - low;
        f->order[i] = r[first + (rising ? n - 1 - at : at)].input;
    }
    for (int g = 0; g < f->n_groups; g++) {
        int first = g * f->group, end = first + f->group < low ? first + f->group : low;
        f->groups[g] = (struct order_group){first, end - first, g};
    }
    f->groups[f->n_groups - 1] = (struct order_group){low, last, f->n_groups - 1};
}

/* Fills groups and order; r [n]. */
static void arrange(struct factor *f, const struct hessian *h, const float *own, struct ranked *r)
{
    int place = 0;
    for (int i = 0; i < f->n; i++) r[i] = (struct ranked){size_of(h, own, i), i, 1};
    if (f->kind == ORDER_RISING || f->kind == ORDER_FALLING) {
        qsort(r, (size_t)f->n, sizeof *r, by_size);
        arrange_outliers(f, r);
        return;
    }
    if (f->kind == ORDER_FULL && h) qsort(r, (size_t)f->n, sizeof *r, by_size);
    for (int g = 0; g < f->n_groups; g++) {
        int first = g * f->group, n = f->n - first < f->group ? f->n - first : f->group;
        f->groups[g] = (struct order_group){first, n, g};
        if (f->kind == ORDER_GROUP && h) qsort(r + first, (size_t)n, sizeof *r, by_size);
    }
    if (f->kind != ORDER_GROUP || !h) {
        for (int i = 0; i < f->n; i++) f->order[i] = r[i].input;
        return;
    }
    struct ranked *by_group = r + f->n;
    for (int g = 0; g < f->n_groups; g++)
        by_group[g] = (struct ranked){r[f->groups[g].first].size, g, f->groups[g].n};
    qsort(by_group, (size_t)f->n_groups, sizeof *by_group, by_size);
    for (int g = 0; g < f->n_groups; g++) {
        int number = by_group[g].input, n = by_group[g].n;
        f->groups[g] = (struct order_group){place, n, number};
        for (int i = 0; i < n; i++) f->order[place++] = r[number * f->group + i].input;
    }
}

static void cut_blocks(struct factor *f)
{
    struct order_block *b = f->blocks;
    for (int g = 0, fits = 0; g < f->n_groups; g++) {
        int first = f->groups[g].first, n = f->groups[g].n;
        fits = fits && b->n + n <= NB;
        for (int i = 0; i < n && !fits; i += NB) {
            b += f->n_blocks++ > 0;
            *b = (struct order_block){first + i, n - i < NB ? n - i : NB, 0};
        }
        if (fits) b->n += n;
        fits = 1;
    }
    size_t at = 0;
    for (int i = 0; i < f->n_blocks; i++) {
        f->blocks[i].at = at;
        at += (size_t)f->blocks[i].n * (size_t)(f->n - f->blocks[i].first);
    }
}

int factor_open(struct factor *f, int n, const struct hessian *h, const struct factor_want *want,
                struct err *e)
{
    size_t m = (size_t)n, groups = (m + (size_t)want->group - 1) / (size_t)want->group;
    *f = (struct factor){.n = n,
                         .kind = want->kind,
                         .group = want->group,
                         .n_groups = (int)groups,
                         .order = malloc(m * sizeof *f->order),
                         .groups = malloc(groups * sizeof *f->groups),
                         .blocks = malloc((m / STRIP + 1) * sizeof *f->blocks),
                         .dead = calloc(m, 1)};
    struct ranked *r = malloc((m + groups) * sizeof *r);
    if (!f->order || !f->groups || !f->blocks || !f->dead || !r) {
        free(r);
        factor_close(f);
        return err_memory(e);
    }
    CHECK(n % STRIP == 0 && want->group % STRIP == 0);
    arrange(f, h, want->size, r);
    cut_blocks(f);
    free(r);
    for (int i = 0; i < n && h; i++) f->dead[i] = size_of(h, want->size, f->order[i]) == 0;
    return 0;
}

void factor_close(struct factor *f)
{
    free(f->order);
    free(f->groups);
    free(f->blocks);
    free(f->dead);
    free(f->u);
    *f = (struct factor){0};
}

/* ---- the matrix in reversed order: R above the diagonal blocks, R^-T below, both in double */

struct solve {
    struct factor *f;
    const struct hessian *h;
    const struct quantize_kernels *k;
    double *g;     /* [n][ld] */
    double *r_inv; /* [blocks][NB][NB] inverses of the diagonal blocks of R, upper triangular */
    double *sum;   /* [threads][NB][STRIP] */
    size_t ld, bytes;
    double add; /* to the diagonal */
    int at, n;  /* the block of columns that is worked on */
};

static void take_rows(void *arg, int task, int thread)
{
    struct solve *s = arg;
    const struct factor *f = s->f;
    size_t n = (size_t)f->n;
    int end = (task + 1) * STRIP;
    (void)thread;
    for (int i = task * STRIP; i < end; i++) {
        double *row = s->g + (size_t)i * s->ld;
        size_t a = (size_t)f->order[f->n - 1 - i];
        for (int j = i; j < f->n; j++) {
            size_t b = (size_t)f->order[f->n - 1 - j];
            row[j] = a < b ? s->h->sum[a * n + b] : s->h->sum[b * n + a];
        }
        row[i] = row[i] > 0 ? row[i] + s->add : s->add > 0 ? s->add : 1;
    }
}

/* A strip of columns behind the block: R^-T times it, through a copy. */
static void solve_strip(void *arg, int task, int thread)
{
    struct solve *s = arg;
    double *to = s->g + (size_t)s->at * s->ld + s->at + s->n + task * STRIP,
           *copy = s->sum + (size_t)thread * NB * STRIP;
    for (int i = 0; i < s->n; i++) {
        memcpy(copy + i * STRIP, to + (size_t)i * s->ld, STRIP * sizeof *copy);
        memset(to + (size_t)i * s->ld, 0, STRIP * sizeof *to);
    }
    const struct tn_f64 t = {.c = to,
                             .a = s->r_inv + (size_t)(s->at / NB) * NB * NB,
                             .b = copy,
                             .ldc = s->ld,
                             .lda = NB,
                             .ldb = STRIP,
                             .ni = s->n,
                             .nj = STRIP,
                             .nr = s->n};
    s->k->tn_f64(&t);
}

/* What is left behind the block, a strip of rows: minus R12^T R12. */
static void update_strip(void *arg, int task, int thread)
{
    struct solve *s = arg;
    int first = s->at + s->n + task * STRIP;
    double *r = s->g + (size_t)s->at * s->ld + first;
    (void)thread;
    const struct tn_f64 t = {.c = s->g + (size_t)first * s->ld + first,
                             .a = r,
                             .b = r,
                             .ldc = s->ld,
                             .lda = s->ld,
                             .ldb = s->ld,
                             .ni = STRIP,
                             .nj = s->f->n - first,
                             .nr = s->n,
                             .minus = 1};
    s->k->tn_f64(&t);
}

static int cholesky(struct solve *s, struct pool *p)
{
    for (s->at = 0; s->at < s->f->n; s->at += NB) {
        int left = s->f->n - s->at;
        s->n = left < NB ? left : NB;
        double *v = s->r_inv + (size_t)(s->at / NB) * NB * NB;
        if (!s->k->diagonal(s->g + (size_t)s->at * (s->ld + 1), s->ld, s->n, v)) return 0;
        pool_run(p, (left - s->n) / STRIP, solve_strip, s);
        pool_run(p, (left - s->n) / STRIP, update_strip, s);
    }
    return 1;
}

/* Rows at .. at + n - 1 of R^-T, a strip of columns: -R_at^-T times the sum over the rows k before
 * of R[k][at ..]^T R^-T[k]. */
static void invert_strip(void *arg, int task, int thread)
{
    struct solve *s = arg;
    int j = task * STRIP, first = j / NB * NB; /* R^-T is 0 above its diagonal block */
    double *sum = s->sum + (size_t)thread * NB * STRIP, *to = s->g + (size_t)s->at * s->ld + j;
    struct tn_f64 t = {.c = sum, .ldc = STRIP, .lda = s->ld, .ldb = NB, .ni = s->n, .nj = STRIP};
    /* the diagonal block of R^-T, from the inverse of R's: transposed into the first rows of sum */
    double corner[NB * STRIP];
    int n = s->f->n - first < NB ? s->f->n - first : NB;
    const double *v = s->r_inv + (size_t)(first / NB) * NB * NB;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < STRIP; i++) corner[k * STRIP + i] = v[(j - first + i) * NB + k];
    memset(sum, 0, NB * STRIP * sizeof *sum);
    t.a = s->g + (size_t)first * s->ld + s->at, t.b = corner, t.ldb = STRIP, t.nr = n;
    s->k->tn_f64(&t);
    t.ldb = s->ld;
    for (int k = first + n; k < s->at; k += NB) { /* whole blocks: at is a multiple of NB */
        t.a = s->g + (size_t)k * s->ld + s->at;
        t.b = s->g + (size_t)k * s->ld + j, t.nr = NB;
        s->k->tn_f64(&t);
    }
    for (int i = 0; i < s->n; i++) memset(to + (size_t)i * s->ld, 0, STRIP * sizeof *to);
    const struct tn_f64 last = {.c = to,
                                .a = s->r_inv + (size_t)(s->at / NB) * NB * NB,
                                .b = sum,
                                .ldc = s->ld,
                                .lda = NB,
                                .ldb = STRIP,
                                .ni = s->n,
                                .nj = STRIP,
                                .nr = s->n,
                                .minus = 1};
    s->k->tn_f64(&last);
}

static void invert(struct solve *s, struct pool *p)
{
    for (s->at = NB; s->at < s->f->n; s->at += NB) {
        int left = s->f->n - s->at;
        s->n = left < NB ? left : NB;
        pool_run(p, s->at / STRIP, invert_strip, s);
    }
}

/* R^-T[i][j], j <= i. */
static double inverse_at(const struct solve *s, int i, int j)
{
    int b = i / NB;
    if (j / NB < b) return s->g[(size_t)i * s->ld + (size_t)j];
    return s->r_inv[(size_t)b * NB * NB + (size_t)(j % NB) * NB + (size_t)(i % NB)];
}

/* U's rows of one block of the order. */
static void put_block(void *arg, int task, int thread)
{
    struct solve *s = arg;
    struct factor *f = s->f;
    const struct order_block *b = &f->blocks[task];
    float *u = f->u + b->at;
    (void)thread;
    for (int j0 = b->first; j0 < f->n; j0 += STRIP)
        for (int i = 0; i < b->n; i++)
            for (int j = j0; j < j0 + STRIP; j++, u++) {
                int row = b->first + i;
                *u = j < row ? 0 : (float)inverse_at(s, f->n - 1 - row, f->n - 1 - j);
            }
}

static int open_solve(struct solve *s, int n_threads, struct err *e)
{
    size_t n = (size_t)s->f->n, blocks = (n + NB - 1) / NB;
    const struct order_block *last = &s->f->blocks[s->f->n_blocks - 1];
    s->ld = (n + 511) / 512 * 512 + 16; /* neighbours in a column do not share a set of a cache */
    s->bytes = n * s->ld * sizeof *s->g;
    s->g = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->g == MAP_FAILED) s->g = NULL;
    else madvise(s->g, s->bytes, MADV_HUGEPAGE);
    s->r_inv = malloc(blocks * NB * NB * sizeof *s->r_inv);
    s->sum = malloc((size_t)n_threads * NB * STRIP * sizeof *s->sum);
    s->f->u = malloc((last->at + (size_t)last->n * (n - (size_t)last->first)) * sizeof *s->f->u);
    if (s->g && s->r_inv && s->sum && s->f->u) return 0;
    return err_memory_for(e, "out of memory: the factor of %d inputs takes %.0f MiB", s->f->n,
                          (double)s->bytes * 1.5 / (1 << 20));
}

/* One attempt; 0: the matrix is not positive definite. */
static int solve_host(struct solve *s, struct pool *p)
{
    pool_run(p, s->f->n / STRIP, take_rows, s);
    if (!cholesky(s, p)) return 0;
    invert(s, p);
    pool_run(p, s->f->n_blocks, put_block, s);
    return 1;
}

static int solve_device(const struct solve *s, int *done, struct err *e)
{
    const struct backend *ops = s->h->on->ops;
    const struct gptq_factor f = {s->h->d_sum, s->f->order, s->f->n, s->add, s->k->diagonal};
    return ops->gptq->factor(s->h->on, &f, done, e);
}

int factor_solve(struct factor *f, const struct hessian *h, double damp, struct pool *p,
                 const struct quantize_kernels *k, struct err *e)
{
    struct solve s = {.f = f, .h = h, .k = k};
    double mean = 0;
    int live = 0, done = 0, rc = h->on ? 0 : open_solve(&s, pool_n_threads(p), e);
    for (int i = 0; i < f->n; i++) {
        if (f->dead[i]) continue;
        mean += (double)size_of(h, NULL, f->order[i]);
        live++;
    }
    mean = live ? mean / live : 1;
    for (f->damp = damp; !rc && !done && f->damp <= 1; f->damp = done ? f->damp : 2 * f->damp) {
        s.add = f->damp * mean;
        if (h->on) rc = solve_device(&s, &done, e);
        else done = solve_host(&s, p);
        if (!done && f->damp == 0) f->damp = 0.005;
    }
    f->solved = done;
    f->on = done ? h->on : NULL;
    f->failed = !done;
    if (s.g) munmap(s.g, s.bytes);
    free(s.r_inv);
    free(s.sum);
    return rc;
}
