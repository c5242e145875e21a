/* exact_linear_wgmma.hip: 4-bit linears in the CPU's order by wgmma of signed bytes on sm_90a, for
 * many rows: plain linears (scales in fp16, groups of multiples of 128 inputs).
 *   grid      persistent: a block, of which a multiprocessor has one or two, takes output x row
 *             tiles in turn, rows first
 *   warps     warp-specialized as hopper/linear_prefill_wgmma.hip: three producer warps, one to
 *             three consumer warpgroups of 64 outputs each
 *   pipeline  a ring of stages in shared memory, full and empty mbarriers; a stage is a sub-group:
 *             128 inputs
 *   products  code - zero as signed bytes in registers, the integers of the rows in shared memory;
 *             of 64 or 128 columns, two of 128 where a tile has 256
 *   rows      [row tile][sub-group] of [columns][128 bytes], then a scale for each row. Digit d of
 *             row r is column r * digits + d, so that a lane has both digits of a row. Octet o of
 *             chunk c: the bytes for low nibbles are at 32c + 4o, those for high ones at 32c + 16 +
 *             4o; 16 bytes number i of a column are at i ^ (column % 8). Scales: of each 16 rows
 *             four that a lane needs lie together (exact_scale_place)
 * Bits: the matrix unit sums the integers of a sub-group, the lane that has an output adds its
 * terms, sub-group by sub-group (common/exact_linear.hip). */
struct exact_ring {
    u32 scaled, codes, meta, bytes; /* offsets in a stage */
};

DEVICE struct exact_ring exact_ring_of(const int groups, const int columns, int digits)
{
    struct exact_ring r;
    r.scaled = (u32)columns * 128;
    r.codes = r.scaled + (u32)(columns / digits) * 4;
    r.meta = r.codes + (u32)groups * 4 * ITEM_BYTES;
    r.bytes = EXACT_WGMMA_STAGE(groups, columns);
    return r;
}

/* Columns of a product. */
#define EXACT_PRODUCT(columns) ((columns) < 128 ? (columns) : 128)

/* What a block computes at a time: products first .. first + n - 1 of a tile. */
struct exact_piece {
    int out_tile, row_tile, first, n;
};

/* Pieces of a launch. The tiles that do not fill a grid are halved if their halves fit one. */
struct exact_pieces {
    int row_tiles, whole, n; /* number of pieces that are whole tiles; of all pieces */
};

DEVICE struct exact_pieces exact_pieces_of(const struct exact_linear_args *a, const int products)
{
    struct exact_pieces p;
    p.row_tiles = (a->linear.rows + a->of.tile - 1) / a->of.tile;
    int n = a->linear.n_blocks * p.row_tiles, rest = n % grid_x();
    p.whole = n - (products == 2 && 2 * rest <= grid_x() ? rest : 0);
    p.n = 2 * n - p.whole;
    return p;
}

DEVICE struct exact_piece exact_piece_of(const struct exact_linear_args *a,
                                         const struct exact_pieces *p, int index,
                                         const int products)
{
    int halved = index - p->whole, tile = halved < 0 ? index : p->whole + halved / 2;
    struct exact_piece x = {tile / p->row_tiles, tile % p->row_tiles, 0, 1};
    if (products == 1) return x;
    int rows = a->linear.rows - x.row_tile * a->of.tile;
    x.first = halved < 0 ? 0 : halved % 2;
    x.n = halved < 0 && rows > a->of.tile / 2 ? 2 : rows > x.first * (a->of.tile / 2);
    return x;
}

/* A producer warp, whose first lane copies: rows, after the launches before; or codes, or scales,
 * of the weights, in TMA boxes of 4 panels, at once. */
enum exact_copied { COPIES_CODES, COPIES_SCALES, COPIES_ROWS, EXACT_PRODUCERS };

DEVICE void exact_produce(const struct exact_linear_args *a, u32 lds, u32 full, u32 empty,
                          const int groups, const int columns, const int stages, int copied)
{
    const struct exact_ring r = exact_ring_of(groups, columns, a->of.digits);
    const int products = columns / EXACT_PRODUCT(columns), codes = copied == COPIES_CODES;
    const struct exact_pieces pieces = exact_pieces_of(a, products);
    const u32 box = codes ? 4 * ITEM_BYTES : 4 * PANEL * 4, position = codes ? r.codes : r.meta,
              bytes = copied == COPIES_ROWS ? r.codes : (u32)groups * box;
    int subs = a->groups.n, stage = 0;
    u32 parity = 1; /* an unused stage is empty */
    if (copied == COPIES_ROWS) wait_for_producer();
    for (int index = block_x(); index < pieces.n; index += grid_x()) {
        struct exact_piece piece = exact_piece_of(a, &pieces, index, products);
        struct linear_part p = part_of(&a->linear, piece.out_tile);
        const char *x = (const char *)a->of.digit + (u64)piece.row_tile * (u64)subs * (u64)r.codes,
                   *map = (const char *)p.maps + (codes ? 0 : 128);
        int panel = (piece.out_tile - p.first) * groups * 4, group = 0, left = p.group_chunks;
        if (!piece.n) continue;
        for (int sub = 0; sub < subs; sub++) {
            u32 to = lds + (u32)stage * r.bytes, count = full + 8 * (u32)stage;
            mbarrier_wait(empty + 8 * (u32)stage, parity);
            if (thread() % WARP == 0) {
                mbarrier_arrive_expect(count, bytes);
                if (copied == COPIES_ROWS)
                    bulk_copy(to, x + (u64)sub * (u64)r.codes, r.codes, count);
                else
                    UNROLL for (int j = 0; j < groups; j++)
                        tma_load(to + position + (u32)j * box, map, 0, codes ? sub : group,
                                 panel + 4 * j, count);
            }
            left -= ITEM_CHUNKS;
            if (!left && group < p.last_group) left = p.group_chunks, group++;
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
    if (copied != COPIES_ROWS) wait_for_producer();
}

/* A word of codes as bytes code - zero, those of the low nibbles and those of the high ones. less:
 * 4 times 128 - the zero point, which is at most 128 */
DEVICE void exact_unpack(u32 word, u32 less, u32 *low, u32 *high)
{
    *low = ((word & 0x0f0f0f0fu) + less) ^ 0x80808080u;
    *high = ((word >> 4 & 0x0f0f0f0fu) + less) ^ 0x80808080u;
}

/* A lane's codes of a sub-group as operand a, and the scales of its two outputs. */
struct exact_weights {
    u32 a[ITEM_CHUNKS][4];
    float scale[2];
};

/* codes, meta: addresses of the lane's, in shared memory */
DEVICE void exact_read_weights(u32 codes, u32 meta, struct exact_weights *w)
{
    u32 less[2];
    UNROLL for (int h = 0; h < 2; h++)
    {
        u32 m = lds_word(meta + (u32)(h * 32));
        w->scale[h] = (float)half_of(m);
        less[h] = 0x80808080u - (u32)(int)half_of(m >> 16) * 0x01010101u;
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        u32x4 q = lds_words(codes + (u32)(i * ITEM_BYTES / 2));
        UNROLL for (int j = 0; j < 4; j++) exact_unpack(
            q[j], less[j % 2], &w->a[2 * i + j / 2][j % 2], &w->a[2 * i + j / 2][2 + j % 2]);
    }
}

/* Begins the products of a sub-group with n columns, at this address in shared memory. */
DEVICE void exact_begin_products(int *part, const struct exact_weights *w, u32 columns, const int n)
{
    u64 rows = wgmma_rows(columns), high = rows >> 32 << 32;
    wgmma_begin();
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++) /* a chunk is two times 16 bytes */
        wgmma_s8(part, w->a[c], high | (u32)((u32)rows + 2u * (u32)c), c > 0, n);
    wgmma_commit();
}

/* Adds the terms of n columns to total. scaled is the address in shared memory of the scales of the
 * columns' rows. With one digit total[4j + 2h + e] belongs to output lane / 4 + 8h and row 8j +
 * 2 (lane % 4) + e, with two digits total[2j + h] to the same output and row 4j + lane % 4. */
DEVICE void exact_add_terms(const int *part, const float *scale, u32 scaled, float *total,
                            const int n, const int digits)
{
    UNROLL for (int i = 0; i < n / digits / 16; i++)
    {
        u32x4 xs = lds_words(scaled + (u32)(i * 64 + thread() % 4 * 16));
        UNROLL for (int k = 0; k < 8; k++)
        {
            int j = 8 * i + k;
            if (digits == 2) {
                float sum = (float)(part[2 * j] * 128 + part[2 * j + 1]);
                total[j] = total[j] + sum * (f32_of(xs[k / 2]) * scale[k % 2]);
            } else {
                float x = f32_of(xs[k / 4 * 2 + k % 2]);
                total[j] = total[j] + (float)part[j] * (x * scale[k / 2 % 2]);
            }
        }
    }
}

/* A consumer's place in the ring and what it has of a piece. codes, meta: the lane's offsets in a
 * stage */
struct exact_consumer {
    u32 lds, full, empty, codes, meta, parity;
    int stage, left; /* stage of the weights that are read next; sub-groups that are not read yet */
    struct exact_piece piece;
    struct exact_weights w[2];
    float total[2][64]; /* totals of two products; a product of 64 columns uses 32 of them, two
                           digits half */
};

/* Waits for the next sub-group of the tile, if there is one, and reads its weights. */
DEVICE void exact_next(struct exact_consumer *c, const struct exact_ring *r,
                       struct exact_weights *w)
{
    u32 x = c->lds + (u32)c->stage * r->bytes;
    if (!c->left) return;
    c->left--;
    mbarrier_wait(c->full + 8 * (u32)c->stage, c->parity);
    exact_read_weights(x + c->codes, x + c->meta, w);
}

/* Adds the terms of the sub-group whose weights are w[now], and reads the next one's weights while
 * its first product is in flight. */
DEVICE void exact_sub(struct exact_consumer *c, const struct exact_ring *r, const int now,
                      const int n, const int products, const int stages, const int digits)
{
    u32 x = c->lds + (u32)c->stage * r->bytes, empty = c->empty + 8 * (u32)c->stage;
    UNROLL for (int i = 0; i < products; i++)
    {
        u32 product = (u32)(c->piece.first + i);
        int part[64];
        exact_begin_products(part, &c->w[now], x + product * (u32)(n * 128), n);
        if (!i) {
            if (++c->stage == stages) c->stage = 0, c->parity ^= 1;
            exact_next(c, r, &c->w[!now]);
        }
        wgmma_wait_s8(part, n);
        exact_add_terms(part, c->w[now].scale, x + r->scaled + product * (u32)(n / digits * 4),
                        c->total[i], n, digits);
        if (products > 1) wgmma_done(c->total[i], n / digits);
    }
    warp_barrier(); /* all lanes have read the scales of the rows */
    if (thread() % WARP == 0) mbarrier_arrive(empty);
}

/* Writes the results of a product, of rows from row0 on. output: the lane's first one */
DEVICE void exact_write(const struct exact_linear_args *a, const struct linear_part *p,
                        const float *total, int row0, int output, const int n, const int digits)
{
    const int rows = digits == 2 ? 1 : 2, step = digits == 2 ? 4 : 8;
    int row = row0 + thread() % 4 * rows;
    float *y = p->y + (u64)row * (u64)p->out + (u64)output, bias[2] = {0, 0};
    UNROLL for (int h = 0; h < 2; h++) if (p->bias && output + 8 * h < p->out)
        bias[h] = p->bias[output + 8 * h];
    UNROLL for (int i = 0; i < n / digits / step; i++)
    {
        UNROLL for (int e = 0; e < rows; e++) UNROLL for (int h = 0; h < 2; h++)
        {
            float v = total[2 * rows * i + rows * h + e];
            if (row + e < a->linear.rows && output + 8 * h < p->out)
                y[(e ? p->out : 0) + 8 * h] = p->bias ? v + bias[h] : v;
        }
        row += step;
        y += (u64)step * (u64)p->out;
    }
}

/* Computes a piece, whose products have n columns. */
DEVICE void exact_compute(const struct exact_linear_args *a, struct exact_consumer *c,
                          const struct exact_ring *r, const int groups, const int n,
                          const int products, const int stages, const int digits)
{
    const int rows = n / digits;
    int warp = thread() / WARP;
    UNROLL for (int i = 0; i < products; i++) UNROLL for (int k = 0; k < rows / 2; k++)
        c->total[i][k] = 0;
    c->left = a->groups.n;
    exact_next(c, r, &c->w[0]);
    for (int sub = 0; sub < a->groups.n; sub += 2) {
        exact_sub(c, r, 0, n, products, stages, digits);
        if (sub + 1 == a->groups.n) break;
        exact_sub(c, r, 1, n, products, stages, digits);
    }
    struct linear_part p = part_of(&a->linear, c->piece.out_tile);
    int output = ((c->piece.out_tile - p.first) * groups * 4 + warp) * PANEL + thread() % WARP / 4;
    UNROLL for (int i = 0; i < products; i++) exact_write(
        a, &p, c->total[i], c->piece.row_tile * a->of.tile + (c->piece.first + i) * rows, output, n,
        digits);
}

/* A consumer warpgroup. */
DEVICE void exact_consume(const struct exact_linear_args *a, u32 lds, u32 full, u32 empty,
                          const int groups, const int columns, const int stages, const int digits)
{
    const struct exact_ring r = exact_ring_of(groups, columns, digits);
    const int n = EXACT_PRODUCT(columns), products = columns / n;
    const struct exact_pieces pieces = exact_pieces_of(a, products);
    int lane = thread() % WARP, warp = thread() / WARP;
    struct exact_consumer c;
    c.lds = lds;
    c.full = full;
    c.empty = empty;
    c.codes = r.codes + (u32)(warp * ITEM_BYTES + lane * 16);
    c.meta = r.meta + (u32)(warp * PANEL * 4 + lane / 4 * 4);
    c.parity = 0;
    c.stage = 0;
    for (int index = block_x(); index < pieces.n; index += grid_x()) {
        c.piece = exact_piece_of(a, &pieces, index, products);
        if (c.piece.n == products) exact_compute(a, &c, &r, groups, n, products, stages, digits);
        else if (c.piece.n) exact_compute(a, &c, &r, groups, n, 1, stages, digits);
    }
}

/* groups: consumer warpgroups. The mbarriers are behind the ring. */
DEVICE void exact_wgmma(const struct exact_linear_args *a, u32 *memory, const int groups,
                        const int columns, const int stages)
{
    u32 lds = lds_address(memory), full = lds + (u32)(stages * EXACT_WGMMA_STAGE(groups, columns)),
        empty = full + 8 * (u32)stages;
    if (thread() == 0) {
        for (int i = 0; i < stages; i++) {
            mbarrier_init(full + 8 * (u32)i, EXACT_PRODUCERS);
            mbarrier_init(empty + 8 * (u32)i, (u32)groups * 4); /* warps */
        }
        mbarrier_init_done();
    }
    barrier();
    if (thread() >= groups * 128) {
        if (groups == 1) REGISTERS_LESS(24);
        else if (groups == 2) REGISTERS_LESS(40);
        else REGISTERS_LESS(32);
        int copied = warp_number() - groups * 4;
        if (copied < EXACT_PRODUCERS)
            exact_produce(a, lds, full, empty, groups, columns, stages, copied);
        else wait_for_producer();
    } else {
        wait_for_producer();
        if (groups < 3) REGISTERS_MORE(232);
        else REGISTERS_MORE(160);
        if (a->of.digits == 2) exact_consume(a, lds, full, empty, groups, columns, stages, 2);
        else if (groups == 1 || columns < 128)
            exact_consume(a, lds, full, empty, groups, columns, stages, 1);
    }
}

#define EXACT_WGMMA(name, images, groups, columns, stages, blocks)                                 \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        exact_wgmma(EARLY_ARGS, dynamic_lds, groups, columns, stages);                             \
    })
#include "backend-hip/kernels/hopper/list.h"
