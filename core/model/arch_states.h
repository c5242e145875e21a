/* arch_states.h: the blocks with a state of each sequence in place of keys and values: gated
 * DeltaNet, Mamba-2, Mamba-1, gated short convolutions. Owns: the tensors' names in these blocks,
 * the order of their operations. Must not know: architectures. */
#ifndef CORE_ARCH_STATES_H
#define CORE_ARCH_STATES_H

#include "core/model/arch_blocks.h"

/* Heads and sizes of the layers with states. Mamba-2 (Dao & Gu 2024): key heads are its groups,
 * keys B, queries C, values x; key_dim is the size of the state, value_dim that of a head. */
struct arch_states {
    int key_heads, value_heads, key_dim, value_dim, width;
    int channels, values; /* of the convolution: q, k and v; of the result */
    int conv_bias;        /* the convolution has one */
    float beta_scale;     /* of gated DeltaNet; 0: 1 */
    int apart;            /* q, k and v have linears and convolutions of their own */
    int channels_apart;   /* Kimi Delta Attention: a decay for each channel, pairs of linears make
                             decays and z, whose sigmoid is the gate */
    float norm_eps;       /* of the norm of heads; 0: the model's */
};
/* Reads the keys linear_* and conv_width. */
struct arch_states arch_states(struct builder *b);
/* out = gated DeltaNet of the current layer. in, out: [dim] */
void arch_delta_block(struct builder *b, const struct arch_states *d, int in, int out);

/* Norms of Mamba-2's result, over the value heads of each key head. */
enum arch_mamba_norm { MAMBA_NORM_GATED, MAMBA_NORM_FIRST, MAMBA_NORM_NONE };
struct arch_mamba {
    struct arch_states states;
    enum arch_mamba_norm norm;  /* after the gate, before it, or none */
    float gate_scale, dt_scale; /* factors on these results of the first linear; 0: 1 */
};
/* Reads the keys; the norm is MAMBA_NORM_GATED. */
struct arch_mamba arch_mamba(struct builder *b);
/* out = Mamba-2 of the current layer */
void arch_mamba_block(struct builder *b, const struct arch_mamba *m, int in, int out);

/* Mamba-1 (Gu & Dao 2023) with norms of dt, B and C (Jamba). */
struct arch_scan {
    int inner, state, rank; /* channels, numbers of the state of each, latent of their steps */
    int width, conv_bias;
};
/* Reads the keys scan_*, conv_width and conv_bias. */
struct arch_scan arch_scan(struct builder *b);
/* out = Mamba-1 of the current layer */
void arch_scan_block(struct builder *b, const struct arch_scan *m, int in, int out);

/* out = out_proj(c * convolution(b * v)) of b, c, v = in_proj(in) (LFM2) */
struct arch_short_conv {
    int width, bias;
};
struct arch_short_conv arch_short_conv(struct builder *b);
void arch_short_conv_block(struct builder *b, const struct arch_short_conv *c, int in, int out);

#endif
