/* hip_fuse.c: fusion: the patterns of hip_patterns.c are matched once when a plan is compiled, for
 * steps of any rows and for those of a single decode row. */
#include "backend-hip/hip_gemv.h"
#include "backend-hip/hip_patterns.h"
#include "backend-hip/hip_vector.h"

#include <stdlib.h>

int hip_only_for(const struct be_plan *p, int a, int i, int b)
{
    const struct op *op = hip_op(p, a);
    return op->out[i] >= 0 && op->last[i] == b;
}

int hip_is_complete(const struct be_plan *p, int norm)
{
    return hip_op(p, norm)->in[1] < 0 || (norm > 0 && p->linears[norm - 1].adds);
}

int hip_feeds_norm(const struct be_plan *p, int op, int width)
{
    return op + 1 < p->plan->n_ops && hip_op(p, op + 1)->kind == OP_NORM &&
           hip_op(p, op + 1)->in[1] == hip_op(p, op)->out[0] && hip_only_for(p, op, 0, op + 1) &&
           hip_width(p, op + 1) == width;
}

const char *hip_pattern_name(int i) { return i < hip_n_patterns ? hip_patterns[i].name : NULL; }

long hip_pattern_count(const struct be *be, int i)
{
    return ((const struct hip *)be)->n_launched[i];
}

int hip_has_pattern(const struct be *be, int i)
{
    const struct hip *h = (const struct hip *)be;
    if ((hip_patterns[i].regime >= EXACT_ROWS) != hip_is_exact(h)) return 0;
    if (hip_patterns[i].regime == SINGLE_ROW && h->pinned >= 0) return 0;
    if (hip_patterns[i].kind[0] == OP_EXCHANGE && !h->link) return 0;
    return hip_patterns[i].needs == K_COUNT || hip_has(h, (enum hip_kernel)hip_patterns[i].needs);
}

void hip_launch_group(struct hip *h, const struct be_plan *p, const struct hip_group *g)
{
    h->n_launched[g->pattern - hip_patterns]++;
    if (g->pattern->fused) g->pattern->fused(h, p, g);
    else g->pattern->launch(h, p, g->first);
}

/* Whether pattern t matches from operation `first` on in regime r and ends by `end`. A step without
 * logits ends at n_body, so no group crosses it. A GEMV may add its result to the x of the next
 * norm: in steps of a single row no pattern for any rows computes it, which would not add. */
static int applies(const struct hip *h, const struct be_plan *p, const struct hip_pattern *t,
                   enum hip_regime r, int first, int end)
{
    if (first + t->n > end) return 0;
    for (int i = 0; i < t->n; i++) {
        if (hip_op(p, first + i)->kind != t->kind[i]) return 0;
        if (r == SINGLE_ROW && (t->regime == ANY_ROWS || t->regime == EXACT_ROWS) &&
            p->linears[first + i].gemv)
            return 0;
    }
    for (int i = 0; i < MAX_CONDITIONS && t->when[i].holds; i++)
        if (!t->when[i].holds(h, p, first + t->when[i].op)) return 0;
    return 1;
}

static int is_of_single(const struct hip_pattern *t)
{
    return t->regime == SINGLE_ROW || t->regime == EXACT_SINGLE;
}

/* *apart becomes 1 where a launch stores keys and values by itself. */
static int match(const struct hip *h, struct be_plan *p, enum hip_regime r, int *apart,
                 struct err *e)
{
    int n = p->plan->n_ops;
    if (!(p->group[r] = calloc((size_t)n, sizeof *p->group[r]))) return err_memory(e);
    for (int at = 0; at < n;) {
        int end = at < p->plan->n_body ? p->plan->n_body : n, k = 0;
        while (k < hip_n_patterns &&
               ((hip_patterns[k].regime >= EXACT_ROWS) != hip_is_exact(h) ||
                (is_of_single(&hip_patterns[k]) && r == ANY_ROWS) ||
                !applies(h, p, &hip_patterns[k], r, at, end)))
            k++;
        if (k == hip_n_patterns)
            return err_set(e, "--backend hip%s: has no operation '%s'",
                           hip_is_exact(h) ? " with integer activations (--act)" : "",
                           hip_op(p, at)->name);
        p->group[r][p->n_groups[r]++] = (struct hip_group){&hip_patterns[k], at};
        if (hip_op(p, at)->kind == OP_ROPE_STORE && hip_patterns[k].n == 1) *apart = 1;
        at += hip_patterns[k].n;
        if (at <= p->plan->n_body) p->n_body[r] = p->n_groups[r];
    }
    return 0;
}

/* Whether a GEMV can include the norm: the row fits the registers, x is complete (the norm adds
 * nothing, or the GEMV before it has added it), and the result has no other reader. */
static int gemv_takes_norm(const struct be_plan *p, int norm)
{
    return hip_is_complete(p, norm) && hip_width(p, norm) <= GEMV_NORM_PIECES * PIECE &&
           hip_only_for(p, norm, 0, norm + 1);
}

/* Chooses the linears that are GEMVs in steps of a single row, and among them, the weighted sums of
 * experts and the additions those that add their result to the x of the next norm. A linear whose
 * norm does not fit a GEMV of codes stays with the general kernels. */
static void compile_gemvs(const struct hip *h, struct be_plan *p)
{
    for (int i = 0; i < p->plan->n_ops; i++) {
        const struct op *op = hip_op(p, i);
        struct hip_linears *l = &p->linears[i];
        if (op->kind == OP_MIX && hip_has(h, K_dense_gemv_row_f16) && !hip_is_exact(h))
            l->adds = hip_feeds_norm(p, i, hip_width(p, i) / op->as.mix.top_k);
        if (op->kind == OP_ADD && i > 0)
            l->adds = hip_can_dense_add(p, i - 1, i) && hip_feeds_norm(p, i, hip_width(p, i));
        if (op->kind != OP_LINEAR) continue;
        int normed = i > 0 && hip_op(p, i - 1)->kind == OP_NORM && hip_norm_is_plain(p, i - 1) &&
                     hip_op(p, i - 1)->out[0] == op->in[0];
        l->gemv = !hip_is_exact(h)           ? hip_gemv_of(h, p, i)
                  : hip_exact_is_gemv(h, p, i) ? GEMV_CODES
                                               : GEMV_NONE;
        if (l->gemv == GEMV_CODES && normed && !gemv_takes_norm(p, i - 1)) l->gemv = GEMV_NONE;
        /* not to the x that blocks of the same launch norm */
        l->adds = l->gemv && !normed && op->n == 1 &&
                  hip_feeds_norm(p, i, hip_weight(p, i, 0)->out);
    }
}

int hip_fuse(struct hip *h, struct be_plan *p, struct err *e)
{
    compile_gemvs(h, p);
    return match(h, p, ANY_ROWS, &h->stores_apart, e) ||
                   match(h, p, SINGLE_ROW, &h->stores_apart, e)
               ? -1
               : 0;
}
