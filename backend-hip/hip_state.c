/* hip_state.c: launches of the operations that keep a state of every sequence: the causal
 * convolution, the delta rules and Mamba's; rows of drafts in them (kernels/common/kept.hip). Slots
 * of states are arrays of the batch, so steps of one shape have equal launches. Must not know: how
 * a kernel computes. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_state.h"

#include <math.h>

int hip_check_state(const struct op *op, struct err *e)
{
    if (op->kind == OP_CONV && op->as.conv.width < 1)
        return err_set(e, "--backend hip: a convolution of width %d", op->as.conv.width);
    if (op->kind != OP_DELTA) return 0;
    int dk = op->as.delta.key_dim, dv = op->as.delta.value_dim;
    if (op->as.delta.rule == DELTA_CHANNELS || op->as.delta.rule == DELTA_SCAN) {
        int scan = op->as.delta.rule == DELTA_SCAN, most = scan ? SCAN_KEYS : CHANNELS_KEYS;
        return dk <= most ? 0
                          : err_set(e, "--backend hip: %s of %d; up to %d are supported",
                                    scan ? "Mamba-1 with states" : "decays of channels, with keys",
                                    dk, most);
    }
    const int most = 256; /* delta_256 */
    if (dk > most || dk % 4 || dv % 2 || op->as.delta.value_heads * dv % 4)
        return err_set(e,
                       "--backend hip: DeltaNet with keys of %d dimensions and values of %d; "
                       "multiples of 4, keys of up to %d are supported",
                       dk, dv, most);
    return 0;
}

/* ---- rows of drafts */

static int n_drafts_of(const struct batch *b, int s) { return b->n_drafts ? b->n_drafts[s] : 0; }
static int n_right_of(const struct batch *b, int s) { return b->n_right ? b->n_right[s] : 0; }

/* A seat keeps two times STATE_DRAFTS rows: those of its last step with drafts are read while those
 * of this one are written. */
size_t hip_fill_kept(struct hip *h, const struct batch *b, int32_t *to, const int32_t *d)
{
    int n = 0, n_decoding = b->n_decode ? b->seq[b->n_decode - 1] + 1 : 0;
    for (int s = 0; s < b->n_seqs; s++)
        if (n_drafts_of(b, s) || n_right_of(b, s)) n = s + 1;
    if (!n) return 0;
    for (int s = 0; s < b->n_seqs; s++, to += KEPT_INTS) {
        char *half = &h->kept_half[b->seat[s]];
        int place = 2 * b->seat[s];
        to[KEPT_DRAFTS] = n_drafts_of(b, s);
        to[KEPT_RIGHT] = n_right_of(b, s);
        CHECK(to[KEPT_DRAFTS] <= MAX_DRAFTS && to[KEPT_RIGHT] <= MAX_DRAFTS &&
              to[KEPT_DRAFTS] < b->seq_start[s + 1] - b->seq_start[s]);
        to[KEPT_READ] = (place + *half) * MAX_DRAFTS;
        if (to[KEPT_DRAFTS]) *half = !*half;
        to[KEPT_WRITTEN] = (place + *half) * MAX_DRAFTS;
    }
    h->shape.d_kept = d;
    h->shape.n_kept_seqs = n <= n_decoding ? n_decoding : b->n_seqs;
    return KEPT_INTS * (size_t)b->n_seqs;
}

/* ---- launches */

void hip_conv(struct hip *h, const struct be_plan *p, int op)
{
    struct conv_args a = hip_conv_args(h, p, op);
    size_t of_thread = (size_t)a.of_thread, blocks = ((size_t)a.channels + THREADS - 1) / THREADS;
    if (!hip_is_exact(h) && hip_has(h, K_conv_few) && a.rows <= CONV_FEW && a.width == 4) {
        const struct hip_blocks few = {blocks, (size_t)h->shape.n_seqs, 1, 0};
        hip_launch(h, K_conv_few, few, &a, sizeof a);
        return;
    }
    hip_launch(h, hip_is_exact(h) ? K_exact_conv : K_conv_rows,
               (struct hip_blocks){blocks, ((size_t)a.rows + of_thread - 1) / of_thread, 1, 0}, &a,
               sizeof a);
}

/* Mamba-2 in the CPU's order. */
static void exact_ssm(struct hip *h, const struct delta_args *a, size_t n_seqs)
{
    size_t columns = (size_t)(a->value_heads / a->key_heads * a->value_dim),
           blocks = (columns + EXACT_SSM_THREADS - 1) / EXACT_SSM_THREADS;
    hip_launch(h, K_exact_ssm, (struct hip_blocks){(size_t)a->key_heads * blocks, n_seqs, 1, 0}, a,
               sizeof *a);
}

/* The delta rule in the CPU's order. */
static void exact_delta(struct hip *h, const struct delta_args *a, size_t n_seqs)
{
    int in_registers = a->key_dim == EXACT_DELTA_KEYS && !a->state.kept_of &&
                       a->value_dim % EXACT_DELTA_COLUMNS == 0 && hip_has(h, K_exact_delta_128);
    size_t columns = in_registers ? EXACT_DELTA_COLUMNS : THREADS,
           blocks = (size_t)a->value_heads * (((size_t)a->value_dim + columns - 1) / columns);
    hip_launch(h, in_registers ? K_exact_delta_128 : K_exact_delta,
               (struct hip_blocks){blocks, n_seqs, 1, 0}, a, sizeof *a);
}

static void delta_of(struct hip *h, const struct delta_args *a, int ssm, size_t n_seqs)
{
    static const enum hip_kernel kernel[2][2][2] = {
        {{K_delta_128, K_delta_one_128}, {K_delta_256, K_delta_one_256}},
        {{K_ssm_128, K_ssm_one_128}, {K_ssm_256, K_ssm_one_256}}};
    size_t of_head = ((size_t)a->value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS;
    int is_long = a->key_dim > 128, one = h->shape.n_rows == h->shape.n_seqs;
    enum hip_kernel k = !a->state.kept_of ? kernel[ssm][is_long][one]
                        : is_long         ? K_delta_kept_256
                                          : K_delta_kept_128;
    hip_launch(h, k, (struct hip_blocks){(size_t)a->value_heads * of_head, n_seqs, 1, 0}, a,
               sizeof *a);
}

/* Decays of channels and the scan of Mamba-1, the same in all arithmetics. */
static void delta_columns(struct hip *h, enum hip_kernel k, const struct delta_args *a,
                          size_t n_seqs)
{
    size_t of_block = hip_kernels[k].threads,
           blocks = (size_t)a->value_heads * (((size_t)a->value_dim + of_block - 1) / of_block);
    hip_launch(h, k, (struct hip_blocks){blocks, n_seqs, 1, 0}, a, sizeof *a);
}

/* n_seqs sequences from the first of *a on. */
static void launch_delta(struct hip *h, const struct delta_args *a, enum delta_rule rule,
                         int n_seqs)
{
    int ssm = rule == DELTA_SSM;
    if (!n_seqs) return;
    if (rule == DELTA_CHANNELS) delta_columns(h, K_delta_channels, a, (size_t)n_seqs);
    else if (rule == DELTA_SCAN) delta_columns(h, K_delta_scan, a, (size_t)n_seqs);
    else if (!hip_is_exact(h)) delta_of(h, a, ssm, (size_t)n_seqs);
    else if (ssm) exact_ssm(h, a, (size_t)n_seqs);
    else exact_delta(h, a, (size_t)n_seqs);
}

/* Sequences with rows of drafts have launches of their own, so that others, of prompts, keep
 * theirs. */
void hip_delta(struct hip *h, const struct be_plan *p, int op)
{
    struct delta_args a = hip_delta_args(h, p, op);
    enum delta_rule rule = hip_op(p, op)->as.delta.rule;
    int n = h->shape.n_seqs, n_kept = h->shape.d_kept ? h->shape.n_kept_seqs : 0;
    if (n_kept) launch_delta(h, &a, rule, n_kept);
    a.state.kept_of = NULL;
    a.state.seq_start += n_kept;
    a.state.from += n_kept;
    a.state.to += n_kept;
    launch_delta(h, &a, rule, n - n_kept);
}
