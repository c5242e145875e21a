#include "convert/slots.h"

#include "core/model/modelfile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t x, int64_t m) { return (x + m - 1) / m * m; }

/* Inputs per group without a usable g_idx. Where none is declared that fits, the tensors decide, if
 * they leave one size open alone: 2 groups of 192 inputs have 96 each, or 128 and 64. -1: no size.
 */
static int64_t plain_group_size(int64_t in, int64_t n_source, int said)
{
    if (n_source == 1) return in;
    if (said > 0 && (in + said - 1) / said == n_source) return said;
    int64_t size = in / n_source;
    return in % n_source == 0 && size >= 8 && (size & (size - 1)) == 0 ? size : -1;
}

/* 1 for the all-zero g_idx that old AutoGPTQ writes without act-order. */
static int is_meaningless(const int32_t *g_idx, int64_t in, int64_t n_source)
{
    for (int64_t i = 0; i < in; i++)
        if (g_idx[i]) return 0;
    return n_source > 1;
}

/* Fills perm and groups with the inputs sorted by group. start: [n_source + 1] into sorted. */
static void lay_out(struct slots *s, const int32_t *sorted, const int64_t *start, int64_t n_source,
                    int planes)
{
    int64_t g = 0;
    for (int64_t src = 0; src < n_source; src++)
        for (int64_t at = start[src]; at < start[src + 1]; at += s->group)
            for (int high = src < s->low ? 0 : planes - 1; high >= 0; high--, g++) {
                s->groups[g] = (struct slot_group){(int32_t)src, high};
                for (int64_t j = 0; j < s->group; j++)
                    s->perm[g * s->group + j] = at + j < start[src + 1] ? sorted[at + j] : -1;
            }
    s->identity = planes == 1;
    for (int64_t j = 0; j < s->k && s->identity; j++) s->identity = s->perm[j] == j;
}

/* The source groups of a layer's inputs while its slots are planned. */
struct source_groups {
    int64_t in, n;     /* inputs, source groups */
    int said;          /* declared group size, 0: unknown */
    const int32_t *of; /* [in] source group of an input */
    int32_t *assumed;  /* [in] the same, made up; or NULL */
    int64_t *start;    /* [n + 2] first input of each group among the sorted ones */
    int32_t *sorted;   /* [in] inputs by group */
};

/* Without a usable g_idx: consecutive inputs. */
static int assume_groups(struct source_groups *g, struct err *e)
{
    int64_t size = plain_group_size(g->in, g->n, g->said);
    if (size < 0 && !g->said)
        return err_set(e,
                       "group_size is missing, and %" PRId64 " inputs in %" PRId64
                       " groups of scales leave it open",
                       g->in, g->n);
    if (size < 0)
        return err_set(
            e, "group_size %d does not fit %" PRId64 " inputs in %" PRId64 " groups of scales",
            g->said, g->in, g->n);
    if (!(g->assumed = malloc((size_t)g->in * sizeof *g->assumed))) return err_memory(e);
    for (int64_t i = 0; i < g->in; i++) g->assumed[i] = (int32_t)(i / size);
    g->of = g->assumed;
    return 0;
}

/* Counts the inputs of group g into start[g + 2] (a later pass turns counts into positions).
 * *largest: the most inputs of a group. */
static int count_inputs(struct source_groups *g, int *act_order, int64_t *largest, struct err *e)
{
    *largest = 0;
    for (int64_t i = 0; i < g->in; i++) {
        if (g->of[i] < 0 || g->of[i] >= g->n)
            return err_set(e,
                           "g_idx[%" PRId64 "] is %d, but there are %" PRId64 " groups of scales",
                           i, g->of[i], g->n);
        int64_t n = ++g->start[g->of[i] + 2];
        if (n > *largest) *largest = n;
        if (i && g->of[i] < g->of[i - 1]) *act_order = 1;
    }
    return 0;
}

/* Slots of a group. The average bounds it, so that one huge group of a hostile g_idx cannot inflate
 * the padding of the others. */
static int64_t slot_group_size(const struct source_groups *g, int64_t largest)
{
    int64_t average = (g->in + g->n - 1) / g->n, size = average;
    if (g->said > 0 && (g->in + g->said - 1) / g->said == g->n) size = g->said;
    return round_up(largest < size ? largest : size, MF_GROUP_MULTIPLE);
}

static int fill_slots(struct slots *s, struct source_groups *g, int planes, struct err *e)
{
    for (int64_t i = 0; i < g->n; i++) {
        s->n_groups += (g->start[i + 2] + s->group - 1) / s->group * (i < s->low ? 1 : planes);
        g->start[i + 2] += g->start[i + 1];
    }
    for (int64_t i = 0; i < g->in; i++) g->sorted[g->start[g->of[i] + 1]++] = (int32_t)i;
    s->k = s->group * s->n_groups;
    s->groups = malloc((size_t)s->n_groups * sizeof *s->groups);
    s->perm = malloc((size_t)s->k * sizeof *s->perm);
    if (!s->groups || !s->perm) return err_memory(e);
    lay_out(s, g->sorted, g->start, g->n, planes);
    return 0;
}

int slots_plan(struct slots *s, const struct slots_source *from, struct err *e)
{
    struct source_groups g = {
        .in = from->in, .n = from->n_groups, .said = from->group_size, .of = from->g_idx};
    int64_t largest = 0;
    int rc;
    *s = (struct slots){.low = from->low};
    g.sorted = malloc((size_t)g.in * sizeof *g.sorted);
    g.start = calloc((size_t)g.n + 2, sizeof *g.start);
    rc = g.sorted && g.start ? 0 : err_memory(e);
    if (!rc && (!g.of || is_meaningless(g.of, g.in, g.n))) {
        rc = assume_groups(&g, e);
        s->assumed = g.n > 1;
    }
    if (!rc) rc = count_inputs(&g, &s->act_order, &largest, e);
    if (!rc) {
        s->group = slot_group_size(&g, largest);
        rc = fill_slots(s, &g, from->planes, e);
    }
    free(g.assumed);
    free(g.sorted);
    free(g.start);
    if (rc) slots_free(s);
    return rc;
}

int slots_sort(struct slots *s, int64_t in, int32_t *order)
{
    int64_t n = 0;
    s->rank = malloc((size_t)in * sizeof *s->rank);
    for (int64_t j = 0; j < s->k && s->rank; j++) {
        if (s->perm[j] < 0 || s->groups[j / s->group].high) continue;
        CHECK(n < in);
        s->rank[s->perm[j]] = (int32_t)n;
        order[n++] = s->perm[j];
    }
    CHECK(!s->rank || n == in);
    return s->rank ? 0 : -1;
}

int slots_arriving(const struct slots *s, int32_t *perm)
{
    int moved = 0;
    for (int64_t j = 0; j < s->k; j++) {
        perm[j] = s->perm[j] < 0 || !s->rank ? s->perm[j] : s->rank[s->perm[j]];
        moved |= perm[j] != j;
    }
    return moved;
}

void slots_free(struct slots *s)
{
    free(s->rank);
    free(s->groups);
    free(s->perm);
    memset(s, 0, sizeof *s);
}
