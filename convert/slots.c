#include "convert/slots.h"

#include "core/model/modelfile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t x, int64_t m) { return (x + m - 1) / m * m; }

/* Inputs per group without a usable g_idx; -1: the configuration contradicts the tensors. */
static int64_t plain_group_size(int64_t in, int64_t n_source, int said)
{
    if (n_source == 1) return in;
    if (said > 0 && (in + said - 1) / said == n_source) return said;
    if (in % n_source == 0 && in / n_source % 8 == 0) return in / n_source; /* from the tensors */
    return -1;
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
            for (int high = planes - 1; high >= 0; high--, g++) {
                s->groups[g] = (struct slot_group){(int32_t)src, high};
                for (int64_t j = 0; j < s->group; j++)
                    s->perm[g * s->group + j] = at + j < start[src + 1] ? sorted[at + j] : -1;
            }
    s->identity = planes == 1;
    for (int64_t j = 0; j < s->k && s->identity; j++) s->identity = s->perm[j] == j;
}

int slots_plan(struct slots *s, const int32_t *g_idx, int64_t in, int64_t n_source, int said,
               int planes, struct err *e)
{
    int rc = -1;
    int32_t *own = NULL, *sorted = malloc((size_t)in * sizeof *sorted);
    int64_t *start = calloc((size_t)n_source + 2, sizeof *start);
    memset(s, 0, sizeof *s);
    if (!sorted || !start) {
        err_memory(e);
        goto fail;
    }
    if (!g_idx || is_meaningless(g_idx, in, n_source)) {
        int64_t size = plain_group_size(in, n_source, said);
        if (size < 0) {
            err_set(e,
                    "group_size %d does not fit %" PRId64 " inputs in %" PRId64 " groups of scales",
                    said, in, n_source);
            goto fail;
        }
        if (!(own = malloc((size_t)in * sizeof *own))) {
            err_memory(e);
            goto fail;
        }
        for (int64_t i = 0; i < in; i++) own[i] = (int32_t)(i / size);
        g_idx = own;
        s->assumed = n_source > 1;
    }
    int64_t largest = 0;
    for (int64_t i = 0; i < in; i++) {
        if (g_idx[i] < 0 || g_idx[i] >= n_source) {
            err_set(e, "g_idx[%" PRId64 "] is %d, but there are %" PRId64 " groups of scales", i,
                    g_idx[i], n_source);
            goto fail;
        }
        int64_t n =
            ++start[g_idx[i] + 2]; /* shifted by two: the next pass turns counts into positions */
        if (n > largest) largest = n;
        if (i && g_idx[i] < g_idx[i - 1]) s->act_order = 1;
    }
    /* Bounded by the average, so that one huge group of a hostile g_idx cannot inflate the others'
     * padding. */
    int64_t size = said > 0 && (in + said - 1) / said == n_source ? said
                                                                  : (in + n_source - 1) / n_source;
    s->group = round_up(largest < size ? largest : size, MF_GROUP_MULTIPLE);
    for (int64_t g = 0; g < n_source; g++) {
        s->n_groups += (start[g + 2] + s->group - 1) / s->group * planes;
        start[g + 2] += start[g + 1];
    }
    for (int64_t i = 0; i < in; i++) sorted[start[g_idx[i] + 1]++] = (int32_t)i;
    s->k = s->group * s->n_groups;
    s->groups = malloc((size_t)s->n_groups * sizeof *s->groups);
    s->perm = malloc((size_t)s->k * sizeof *s->perm);
    if (!s->groups || !s->perm) {
        err_memory(e);
        goto fail;
    }
    lay_out(s, sorted, start, n_source, planes);
    rc = 0;
fail:
    free(own);
    free(sorted);
    free(start);
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
