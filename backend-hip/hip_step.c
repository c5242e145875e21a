#include "backend-hip/hip_step.h"

#include "backend-hip/hip_attend.h"
#include "backend-hip/hip_choose.h"
#include "backend-hip/hip_exchange.h"
#include "backend-hip/hip_experts.h"
#include "backend-hip/hip_heads.h"
#include "backend-hip/hip_latent.h"
#include "backend-hip/hip_linear.h"
#include "backend-hip/hip_memory.h"
#include "backend-hip/hip_open.h"
#include "backend-hip/hip_order.h"
#include "backend-hip/hip_scratch.h"
#include "backend-hip/hip_state.h"
#include "backend-hip/hip_turns.h"

#include <stdlib.h>
#include <string.h>

static int check_heads(const struct heads *g, struct err *e)
{
    if (heads_are_latent(g)) return hip_check_latent(g, e);
    if (!heads_are_plain(g))
        return err_set(e, "--backend hip: heads whose values or rotated parts have another size");
    if (g->head_dim <= LONG_HEAD_DIM && g->head_dim % 2 == 0) return 0;
    return err_set(e, "--backend hip: heads of %d dimensions; even sizes up to %d are supported",
                   g->head_dim, LONG_HEAD_DIM);
}

int hip_step_compile(struct be *be, const struct step_plan *plan, const struct plan_memory *m,
                     struct be_plan **out, struct err *e)
{
    struct hip *h = (struct hip *)be;
    hip_use(h);
    for (int i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind == OP_ATTEND &&
            (check_heads(&op->as.attend.heads, e) || hip_check_queries(h, op, e)))
            return -1;
        if (op->kind == OP_ROPE_STORE &&
            (op->as.rope.joined ? hip_check_choose(&op->as.rope.heads, e)
                                : check_heads(&op->as.rope.heads, e)))
            return -1;
        if (op->kind == OP_CHOOSE && hip_check_choose(&op->as.choose.heads, e)) return -1;
        if (hip_check_state(op, e)) return -1;
        if (op->kind == OP_EXCHANGE && hip_check_exchange(h, op, e)) return -1;
    }
    if (hip_reserve(h, plan, e)) return -1;
    struct be_plan *p = calloc(1, sizeof *p);
    if (!p || hip_stream_reserve(h->stream, (int)h->n_plans + 1)) {
        free(p);
        return err_memory(e);
    }
    *p = (struct be_plan){.plan = &p->own,
                          .memory = m,
                          .serial = ++h->n_plans,
                          .replays = !hip_runs_paper(h),
                          .step_set_bytes = hip_open_set_bytes(&h->config, plan)};
    if (hip_order(plan, &p->own, e) || hip_map_values(h, p, e) || hip_compile_linears(h, p, e) ||
        hip_fuse(h, p, e)) {
        hip_step_drop(be, p);
        return -1;
    }
    *out = p;
    return 0;
}

void hip_step_drop(struct be *be, struct be_plan *p)
{
    hip_free(be, p->d_values);
    step_plan_free_slice(&p->own);
    free(p->linears);
    free(p->kernels);
    for (int r = 0; r < REGIMES; r++) free(p->group[r]);
    free(p);
}

/* All that the launches of a run depend on, compared as bytes. */
struct run_key {
    unsigned serial;
    int tail; /* 1: with the operations behind n_body */
    int part; /* of microbatches: number of waits before it */
    int idle; /* no step before it is in flight */
    struct hip_shape shape;
};

/* A part of a run between two waits of a microbatch, which is replayed by itself. */
struct part {
    struct run_key key;
    int is_open, replayed;
};

static void end_part(struct hip *h, const struct be_plan *p, struct part *t)
{
    if (t->is_open && !t->replayed) hip_issue(h, &t->key, p->replays ? sizeof t->key : 0, 0);
    t->is_open = 0;
    t->key.part++;
    hip_forget_grouping(h);
}

/* A microbatch has the device's turn from its first operation until it sends rows, or to the end.
 * What place 0 does with the last rows has none: it is little, and others would wait for it. */
static void run_in_turns(struct hip *h, const struct be_plan *p, const struct run_key *key, int r,
                         int n)
{
    struct part t = {.key = *key};
    int had_turn = 0;
    for (int i = 0; i < n; i++) {
        const struct hip_group *g = &p->group[r][i];
        const int is_exchange = hip_op(p, g->first)->kind == OP_EXCHANGE,
                  awaits = is_exchange && hip_exchange_awaits(h, p, g->first),
                  takes = !had_turn && (!is_exchange || awaits);
        if (awaits || takes) end_part(h, p, &t);
        if (awaits) hip_give_turn(h);
        if (awaits) hip_await_exchange(h, p, g->first);
        if (takes) hip_take_turn(h);
        had_turn |= takes;
        if (!t.is_open) t.replayed = p->replays && hip_replay(h, &t.key, sizeof t.key);
        t.is_open = 1;
        if (!t.replayed) hip_launch_group(h, p, g);
        if (!is_exchange || !hip_exchange_sends(h, p, g->first)) continue;
        end_part(h, p, &t);
        hip_give_turn(h);
    }
    end_part(h, p, &t);
    hip_give_turn(h);
}

void hip_step_run(struct be *be, const struct be_plan *p)
{
    struct hip *h = (struct hip *)be;
    enum hip_regime r = hip_single(h) ? SINGLE_ROW : ANY_ROWS;
    int tail = h->shape.n_logits > 0, n = tail ? p->n_groups[r] : p->n_body[r];
    struct run_key key;
    hip_use(h);
    if (h->failed.msg[0]) return;
    memset(&key, 0, sizeof key);
    key.serial = p->serial;
    key.tail = tail;
    key.shape = h->shape;
    hip_flush(h);
    hip_forget_grouping(h);
    if (h->turns) {
        run_in_turns(h, p, &key, r, n);
        return;
    }
    key.idle = h->n_ended == h->n_waited;
    if (p->replays && hip_replay(h, &key, sizeof key)) return;
    for (int i = 0; i < n; i++) hip_launch_group(h, p, &p->group[r][i]);
    hip_issue(h, &key, p->replays ? sizeof key : 0, key.idle);
}
