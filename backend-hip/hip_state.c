/* hip_state.c: launches of the operations that keep a state of every sequence: the causal
 * convolution and the gated delta rule. Slots of states are arrays of the batch, so steps of one
 * shape have equal launches. Must not know: how a kernel computes. */
#include "backend-hip/hip_plan.h"

#include <math.h>

enum { MANY_ROWS = 128 }; /* so many prompt rows fill the device with CONV_ROWS for a thread */

int hip_check_state(const struct op *op, struct err *e)
{
    const int most = 256; /* delta_256 */
    if (op->kind == OP_CONV && op->as.conv.width < 1)
        return err_set(e, "--backend hip: a convolution of width %d", op->as.conv.width);
    if (op->kind != OP_DELTA) return 0;
    int dk = op->as.delta.key_dim, dv = op->as.delta.value_dim;
    if (dk > most || dk % 4 || dv % 2 || op->as.delta.value_heads * dv % 4)
        return err_set(e,
                       "--backend hip: DeltaNet with keys of %d dimensions and values of %d; "
                       "multiples of 4, keys of up to %d are supported",
                       dk, dv, most);
    return 0;
}

static struct state_rows state_rows(const struct hip *h, const struct be_plan *p, int state)
{
    const struct hip_shape *s = &h->shape;
    return (struct state_rows){.seq = s->d_seq,
                               .seq_start = s->d_seq_start,
                               .from = s->d_state_from,
                               .to = s->d_state_to,
                               .slots = p->memory->state[state],
                               .slot_floats = p->plan->state[state].bytes / sizeof(float)};
}

struct conv_args hip_conv_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int rows = h->shape.n_rows,
        of_thread = rows - h->shape.n_decode >= MANY_ROWS ? CONV_ROWS : 1;
    return (struct conv_args){.state = state_rows(h, p, o->as.conv.state),
                              .x = hip_in(p, op, 0),
                              .weight = hip_vector(p, op, 0),
                              .out = hip_out(p, op, 0),
                              .rows = rows,
                              .channels = o->as.conv.channels,
                              .width = o->as.conv.width,
                              .of_thread = of_thread};
}

void hip_conv(struct hip *h, const struct be_plan *p, int op)
{
    struct conv_args a = hip_conv_args(h, p, op);
    size_t of_thread = (size_t)a.of_thread;
    hip_launch(h, hip_is_exact(h) ? K_exact_conv : K_conv_rows,
               (struct hip_blocks){((size_t)a.channels + THREADS - 1) / THREADS,
                                   ((size_t)a.rows + of_thread - 1) / of_thread, 1, 0},
               &a, sizeof a);
}

static struct delta_args delta_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    int nk = o->as.delta.key_heads, nv = o->as.delta.value_heads, dk = o->as.delta.key_dim,
        dv = o->as.delta.value_dim;
    return (struct delta_args){.state = state_rows(h, p, o->as.delta.state),
                               .x = hip_in(p, op, 0),
                               .a = hip_in(p, op, 1),
                               .b = hip_in(p, op, 2),
                               .decay = hip_vector(p, op, 0),
                               .dt = hip_vector(p, op, 1),
                               .out = hip_out(p, op, 0),
                               .q_scale = 1 / sqrtf((float)dk),
                               .key_heads = nk,
                               .value_heads = nv,
                               .key_dim = dk,
                               .value_dim = dv};
}

void hip_delta(struct hip *h, const struct be_plan *p, int op)
{
    struct delta_args a = delta_args(h, p, op);
    int nv = a.value_heads, dk = a.key_dim, dv = a.value_dim;
    if (hip_is_exact(h)) {
        int in_registers = dk == EXACT_DELTA_KEYS && dv % EXACT_DELTA_COLUMNS == 0 &&
                           hip_has(h, K_exact_delta_128);
        size_t columns = in_registers ? EXACT_DELTA_COLUMNS : THREADS,
               blocks = (size_t)nv * (((size_t)dv + columns - 1) / columns);
        hip_launch(h, in_registers ? K_exact_delta_128 : K_exact_delta,
                   (struct hip_blocks){blocks, (size_t)h->shape.n_seqs, 1, 0}, &a, sizeof a);
        return;
    }
    size_t of_head = ((size_t)dv + DELTA_COLUMNS - 1) / DELTA_COLUMNS;
    int one = h->shape.n_rows == h->shape.n_seqs;
    enum hip_kernel k = dk <= 128 ? one ? K_delta_one_128 : K_delta_128
                        : one     ? K_delta_one_256
                                  : K_delta_256;
    hip_launch(h, k, (struct hip_blocks){(size_t)nv * of_head, (size_t)h->shape.n_seqs, 1, 0}, &a,
               sizeof a);
}

int hip_delta_gates(const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op), *norm = hip_op(p, op + 1), *glu = hip_op(p, op + 2);
    return o->as.delta.value_dim == CLUSTER * DELTA_COLUMNS && o->as.delta.key_dim <= 128 &&
           norm->in[0] == o->out[0] && norm->in[1] < 0 && !norm->as.norm.centered &&
           norm->as.norm.groups == o->as.delta.value_heads && glu->in[1] == norm->out[0] &&
           glu->as.glu.activation == ACTIVATION_SILU;
}

/* Blocks of a launch with norm and gate; 0: none, because a sequence has several rows, or clusters
 * would wait for places. */
static size_t gated_blocks(const struct hip *h, const struct be_plan *p, int op)
{
    size_t blocks = (size_t)hip_op(p, op)->as.delta.value_heads * CLUSTER,
           resident = hip_kernels[K_delta_gated_128].blocks *
                      (size_t)hip_stream_multiprocessors(h->stream);
    return h->shape.n_rows == h->shape.n_seqs && blocks * (size_t)h->shape.n_seqs <= resident
               ? blocks
               : 0;
}

void hip_delta_gated_linear(struct hip *h, const struct be_plan *p, int op)
{
    if (gated_blocks(h, p, op)) {
        hip_delta_gated(h, p, op);
        hip_linear(h, p, op + 3, -1);
        return;
    }
    hip_delta(h, p, op);
    hip_gated_parts(h, p, op + 1);
}

void hip_delta_gated(struct hip *h, const struct be_plan *p, int op)
{
    size_t blocks = gated_blocks(h, p, op);
    if (!blocks) {
        hip_delta(h, p, op);
        hip_norm(h, p, op + 1);
        hip_glu(h, p, op + 2);
        return;
    }
    struct delta_gated_args a = {.delta = delta_args(h, p, op),
                                 .norm = hip_vector(p, op + 1, 0),
                                 .gate = hip_in(p, op + 2, 0),
                                 .eps = hip_op(p, op + 1)->as.norm.eps};
    hip_launch(h, K_delta_gated_128, (struct hip_blocks){blocks, (size_t)h->shape.n_seqs, 1, 0}, &a,
               sizeof a);
}
