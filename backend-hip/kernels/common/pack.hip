/* pack.hip: repacks weights, scales and zero points from the layouts of the model file to those of
 * args.h, while a model is loaded. */

/* Reorders a word of 8 codes from the model file (byte b has input b in its low and input 4 + b in
 * its high half) to args.h. */
DEVICE u32 reorder(u32 q)
{
    u32 even = (q & 0xf) | (q >> 12 & 0xf0) | (q << 4 & 0xf00) |
               (q >> 8 & 0xf000); /* inputs 0 2 4 6 */
    u32 odd = (q >> 8 & 0xf) | (q >> 20 & 0xf0) | (q >> 4 & 0xf00) |
              (q >> 16 & 0xf000); /* inputs 1 3 5 7 */
    return even | odd << 16;
}

/* One thread writes one word. The model file has n_chunks chunks of a panel; padding makes them a
 * multiple of 4. */
KERNEL(repack_codes, struct repack_args)
{
    const struct repack_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread(), whole = (u64)(a->n_chunks + 3) / 4 * 4,
        per_panel = whole * (PANEL * 4);
    u64 panel = i / per_panel, lane = i / 4 % 32,
        chunk = i % per_panel / (PANEL * 8) * 2 + i / 2 % 2;
    u64 output = lane / 4 + i % 2 * 8, word = lane % 4;
    if (panel >= (u64)a->n_panels) return;
    u32 codes = 0;
    if (chunk < (u64)a->n_chunks)
        codes =
            ((const u32 *)a->src)[((panel * (u64)a->n_chunks + chunk) * 4 + word) * PANEL + output];
    ((u32 *)a->dst)[i] = reorder(codes);
}

/* Repacks codes for the integer arithmetics without NVIDIA's matrix instructions
 * (common/exact_linear_lanes.hip): [panel][chunk][16 outputs][4 words], a word to an octet. */
#if !HAS_MMA
KERNEL(repack_lanes, struct repack_args)
{
    const struct repack_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread(), whole = (u64)(a->n_chunks + 3) / 4 * 4,
        per_panel = whole * (PANEL * 4), panel = i / per_panel,
        chunk = i % per_panel / (PANEL * 4), output = i / 4 % PANEL, word = i % 4;
    if (panel >= (u64)a->n_panels) return;
    u32 codes = 0;
    if (chunk < (u64)a->n_chunks)
        codes =
            ((const u32 *)a->src)[((panel * (u64)a->n_chunks + chunk) * 4 + word) * PANEL + output];
    ((u32 *)a->dst)[i] = reorder(codes);
}
#endif

/* Repacks codes for linear_paper.hip, where the words of one octet of inputs are adjacent for all
 * outputs. */
KERNEL(repack_rows, struct repack_args)
{
    const struct repack_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread(), per_panel = (u64)a->n_chunks * (PANEL * 4),
        panel = i / per_panel;
    if (panel >= (u64)a->n_panels) return;
    u64 row = i % per_panel / PANEL, output = ((u64)a->first + panel) * PANEL + i % PANEL;
    ((u32 *)a->dst)[row * (u64)a->stride + output] = reorder(((const u32 *)a->src)[i]);
}

KERNEL(repack_meta, struct repack_meta_args)
{
    const struct repack_meta_args *a = ARGS;
    int i = block_x() * THREADS + thread();
    if (i >= a->n) return;
    u32 *dst = (u32 *)a->dst;
    if (a->scale_f32) {
        dst[2 * i] = ((const u32 *)a->scales)[i];
        dst[2 * i + 1] = bits_of((float)a->zeros[i]);
    } else {
        f16 zero = (f16)(float)a->zeros[i];
        u16 bits;
        __builtin_memcpy(&bits, &zero, 2);
        u64 to = (u64)i;
        if (a->stride) {
            u64 from = (u64)a->first + (u64)i, row = from / PANEL;
            to = row % (u64)a->n_groups * (u64)a->stride + row / (u64)a->n_groups * PANEL +
                 from % PANEL;
        }
        dst[to] = ((const u16 *)a->scales)[i] | (u32)bits << 16;
    }
}

/* One thread writes 16 bytes of one output. */
DEVICE void repack_pieces(const struct repack_args *a, const int pieces)
{
    u64 i = (u64)block_x() * THREADS + (u64)thread(),
        n = (u64)a->n_panels * (u64)(a->n_chunks * pieces * PANEL);
    if (i >= n) return;
    const int inputs = CHUNK / pieces;
    int piece = (int)(i / PANEL % (u64)(a->n_chunks * pieces)),
        row = (int)(i / (u64)(a->n_chunks * pieces * PANEL)) * PANEL + (int)(i % PANEL);
    u32x4 v = {0, 0, 0, 0};
    UNROLL for (int j = 0; j < inputs; j++)
    {
        int index = piece * inputs + j;
        if (row >= a->out_left || index >= a->in) continue;
        u64 from = (u64)row * (u64)a->in + (u64)index;
        if (pieces == 8) v[j] = ((const u32 *)a->src)[from];
        else v[j / 2] |= (u32)((const u16 *)a->src)[from] << (16 * (j % 2));
    }
    ((u32x4 *)a->dst)[i] = v;
}

KERNEL(repack_dense_16, struct repack_args) { repack_pieces(ARGS, 4); }
KERNEL(repack_dense_32, struct repack_args) { repack_pieces(ARGS, 8); }

#if HAS_WGMMA
/* Codes of 8 bits from pairs: groups 2i and 2i + 1 of `group` inputs have their high and low
 * halves. One thread writes 16 bytes, those of t = 0 a word of scales, too. n_chunks: even */
KERNEL(repack_bytes, struct repack_args)
{
    const struct repack_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread(), n_stages = (u64)a->n_chunks / 2,
        stage = i / 64 % n_stages, panel = i / 64 / n_stages;
    int t = (int)(i / PANEL % 4), output = (int)(i % PANEL), octets = a->group / 8;
    const u32 *src = (const u32 *)a->src + panel * (u64)(a->in / 4) * PANEL + (u64)output;
    char *to = (char *)a->dst + (panel * n_stages + stage) * BYTES_STAGE;
    u32x4 v;
    if (panel >= (u64)a->n_panels) return;
    u32 scales = 0;
    UNROLL for (int c = 0; c < 2; c++)
    {
        int octet = (int)stage * 8 + 4 * c + t, group = octet / octets;
        u32 high = 0x88888888u, low = 0;
        if (octet * 8 < a->in) {
            u64 offset = (u64)(2 * group * octets + octet % octets);
            high = src[offset * PANEL];
            low = src[(offset + (u64)octets) * PANEL];
            scales |=
                (u32)((const u16 *)
                          a->scales)[(panel * (u64)(a->in / a->group) * 2 + (u64)(2 * group + 1)) *
                                         PANEL +
                                     (u64)output]
                << (16 * c);
        }
        v[2 * c] = (high << 4 & 0xf0f0f0f0u) | (low & 0x0f0f0f0fu);
        v[2 * c + 1] = (high & 0xf0f0f0f0u) | (low >> 4 & 0x0f0f0f0fu);
    }
    ((u32x4 *)to)[t * PANEL + (output ^ 2 * t)] = v;
    if (t == 0) ((u32 *)(to + BYTES_CODES))[output % 8 * 2 + output / 8] = scales;
}
#endif
