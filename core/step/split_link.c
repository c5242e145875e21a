/* split_link.c: transfers between places as operations of their plans. */
#include "core/step/split.h"

#include <stdlib.h>
#include <string.h>

/* Transfers of the same rows to several places, from item `first` on. */
static int same_rows(const struct split *s, int first, int i)
{
    const struct split_item *a = &s->item[first], *b = &s->item[i];
    return !b->n_ops && (first < s->n_body) == (i < s->n_body) &&
           a->transfer.buffer == b->transfer.buffer && a->transfer.n == b->transfer.n &&
           !memcmp(a->transfer.piece, b->transfer.piece,
                   (size_t)a->transfer.n * sizeof *a->transfer.piece);
}

/* The exchange for transfers `first` to end - 1; *places: those that take part. */
static struct op exchange_of(const struct split *s, int first, int end, unsigned *places)
{
    const struct transfer *t = &s->item[first].transfer;
    struct op op = op_of(OP_EXCHANGE, "exchange", -1);
    op.as.exchange.groups = t->groups;
    op.as.exchange.n_places = s->n_places;
    for (int i = first; i < end; i++) op.as.exchange.to |= 1u << s->item[i].transfer.to;
    *places = op.as.exchange.to;
    for (int i = 0; i < t->n; i++) {
        const struct transfer_piece *piece = &t->piece[i];
        *places |= 1u << piece->from;
        for (int q = piece->from + 1; q <= s->n_places; q++)
            op.as.exchange.at[q] = piece->column + piece->n_columns;
    }
    return op;
}

/* The same as place q computes it. */
static struct op exchange_at(const struct transfer *t, const struct op *all, int q)
{
    struct op op = *all;
    op.as.exchange.place = q;
    for (int i = 0; i < t->n; i++)
        if (t->piece[i].from == q) op.in[0] = t->piece[i].buffer;
    if (op.as.exchange.to >> q & 1) op.out[0] = t->buffer;
    return op;
}

static void add(struct step_plan *p, const struct op *op, int n, int in_body)
{
    memcpy(p->op + p->n_ops, op, (size_t)n * sizeof *op);
    p->n_ops += n;
    if (in_body) p->n_body = p->n_ops;
}

int split_link(const struct split *s, struct step_plan *out, struct err *e)
{
    memset(out, 0, (size_t)s->n_places * sizeof *out);
    for (int q = 0; q < s->n_places; q++) {
        out[q] = s->plan[q];
        out[q].n_ops = out[q].n_body = 0;
        out[q].op = malloc((size_t)(s->plan[q].n_ops + s->n_items) * sizeof *out[q].op);
        if (out[q].op) continue;
        while (q >= 0) step_plan_free_slice(&out[q--]);
        return err_memory(e);
    }
    for (int i = 0, end; i < s->n_items; i = end) {
        const struct split_item *item = &s->item[i];
        int in_body = i < s->n_body;
        end = i + 1;
        if (item->n_ops) {
            add(&out[item->place], s->plan[item->place].op + item->first, item->n_ops, in_body);
            continue;
        }
        while (end < s->n_items && same_rows(s, i, end)) end++;
        unsigned places;
        struct op all = exchange_of(s, i, end, &places);
        for (int q = 0; q < s->n_places; q++) {
            struct op op = exchange_at(&item->transfer, &all, q);
            if (places >> q & 1) add(&out[q], &op, 1, in_body);
        }
    }
    for (int q = 0; q < s->n_places; q++) step_plan_liveness(&out[q], 0);
    return 0;
}
