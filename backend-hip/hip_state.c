/* hip_state.c: launches of the operations that keep a state of every sequence: the causal
 * convolution, the gated delta rule and Mamba-2. Slots of states are arrays of the batch, so steps
 * of one shape have equal launches. Must not know: how a kernel computes. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_state.h"

#include <math.h>

int hip_check_state(const struct op *op, struct err *e)
{
    const int most = 256; /* delta_256 */
    if (op->kind == OP_CONV && op->as.conv.width < 1)
        return err_set(e, "--backend hip: a convolution of width %d", op->as.conv.width);
    if (op->kind != OP_DELTA) return 0;
    if (op->as.delta.rule == DELTA_CHANNELS || op->as.delta.rule == DELTA_SCAN)
        return err_set(e, "--backend hip: %s: run such models with --backend cpu",
                       op->as.delta.rule == DELTA_SCAN ? "the scan of Mamba-1"
                                                       : "decays of single channels (Kimi-Linear)");
    int dk = op->as.delta.key_dim, dv = op->as.delta.value_dim;
    if (dk > most || dk % 4 || dv % 2 || op->as.delta.value_heads * dv % 4)
        return err_set(e,
                       "--backend hip: DeltaNet with keys of %d dimensions and values of %d; "
                       "multiples of 4, keys of up to %d are supported",
                       dk, dv, most);
    return 0;
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

/* Mamba-2 in the CPU's order. */
static void exact_ssm(struct hip *h, const struct delta_args *a)
{
    size_t columns = (size_t)(a->value_heads / a->key_heads * a->value_dim),
           blocks = (columns + EXACT_SSM_THREADS - 1) / EXACT_SSM_THREADS;
    hip_launch(h, K_exact_ssm,
               (struct hip_blocks){(size_t)a->key_heads * blocks, (size_t)h->shape.n_seqs, 1, 0}, a,
               sizeof *a);
}

void hip_delta(struct hip *h, const struct be_plan *p, int op)
{
    struct delta_args a = hip_delta_args(h, p, op);
    int nv = a.value_heads, dk = a.key_dim, dv = a.value_dim,
        ssm = hip_op(p, op)->as.delta.rule == DELTA_SSM;
    if (ssm && hip_is_exact(h)) {
        exact_ssm(h, &a);
        return;
    }
    if (hip_is_exact(h)) {
        int in_registers = dk == EXACT_DELTA_KEYS && dv % EXACT_DELTA_COLUMNS == 0 &&
                           hip_has(h, K_exact_delta_128);
        size_t columns = in_registers ? EXACT_DELTA_COLUMNS : THREADS,
               blocks = (size_t)nv * (((size_t)dv + columns - 1) / columns);
        hip_launch(h, in_registers ? K_exact_delta_128 : K_exact_delta,
                   (struct hip_blocks){blocks, (size_t)h->shape.n_seqs, 1, 0}, &a, sizeof a);
        return;
    }
    static const enum hip_kernel kernel[2][2][2] = {
        {{K_delta_128, K_delta_one_128}, {K_delta_256, K_delta_one_256}},
        {{K_ssm_128, K_ssm_one_128}, {K_ssm_256, K_ssm_one_256}}};
    size_t of_head = ((size_t)dv + DELTA_COLUMNS - 1) / DELTA_COLUMNS;
    int one = h->shape.n_rows == h->shape.n_seqs;
    hip_launch(h, kernel[ssm][dk > 128][one],
               (struct hip_blocks){(size_t)nv * of_head, (size_t)h->shape.n_seqs, 1, 0}, &a,
               sizeof a);
}
