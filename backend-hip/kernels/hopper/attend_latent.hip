/* attend_latent.hip: attention of latent heads over pages of fp16 by mma, in f16 (common/latent.hip
 * has all else). A block has `columns` columns, 16 or 32, a column being a head of a row: prompt
 * rows have all chunks of KV_SPLIT positions, decode rows a share of them, for exact_combine. Bits:
 * the same for both, however columns share blocks: each turn of LATENT_TURN positions is online
 * softmax (Milakov & Gimelshein 2018) within its chunk, chunks are merged in order.
 *   warps     16: eight and eight, which have different columns, of 16 in all different pages of a
 *             turn, then different values
 *   copies    a turn's two pages in bulk into one of `stages` stages, turns ahead, counted by an
 *             mbarrier a stage; positions that nobody sees are overwritten by zeros
 *   scores    keys as they lie are operand a, queries operand b, in two halves and in registers:
 *             warp w of eight has the steps of 16 dimensions w, w + 8, ..; the warps' sums meet in
 *             shared memory and are added in order
 *   weights   a warp has the positions of one or two columns; one half, times 2^14
 *   values    keys transposed are operand a: a warp has every eighth or sixteenth tile of 16
 *             dimensions
 * The scores of the next turn are computed while weights are made. */

enum {
    TURN_PAGES = LATENT_TURN / PAGE,
    LATENT_WARPS = 8,
    LATENT_STEPS = LATENT_DIMS / 16 / LATENT_WARPS, /* of a warp, at most */
    WARP_COLUMNS = 16
};
/* The pages of a turn whose scores a warp has; its tiles of values, at most. */
#define LATENT_PAGES(columns) ((columns) / WARP_COLUMNS)
#define LATENT_TILES(columns) (LATENT_VALUE / 16 * (columns) / WARP_COLUMNS / (2 * LATENT_WARPS))

/* Shared memory of a block. */
struct latent_lds {
    u8 *keys;                      /* [stages][TURN_PAGES] pages */
    float *sums;                   /* [LATENT_WARPS][LATENT_TURN][columns], see latent_sum_at() */
    float *total;                  /* [values of a thread][LATENT_THREADS]; prompt rows */
    f16 *weight;                   /* [columns][LATENT_TURN + 8] */
    float *factor, *unit;          /* [columns] of queries; what makes a sum a score */
    float *rescale, *before, *now; /* [columns] of the values of this chunk, at its end of those
                                      before it and of its own */
    float *max, *sum;              /* [columns] of the chunks before; prompt rows */
    u32 full;                      /* mbarriers: one for each stage */
    int *block;                    /* column0, begin, end of latent_columns */
    int *first, *pos;              /* [columns] visible positions are first .. pos; none: pos -1 */
};

/* The work of a block: columns begin .. end - 1 of those from column0 on, of one sequence. */
struct latent_columns {
    int column0, begin, end;
    int first, last; /* turns */
    int seen;        /* the last position that one of them sees */
    int slot, phase; /* the stage of their first turn, the parity of its mbarrier then */
    int warp;        /* this one's number */
    const int *table;
};

/* A column as the threads know it that make its weights. */
struct latent_column {
    int number, place; /* place: of the thread, that of its first position in a turn */
    float max, sum;    /* of the chunk; sum: of the positions `place` modulo 16 */
};

DEVICE struct latent_column latent_column_of(const struct latent_columns *b, const int columns)
{
    int lane = thread() % WARP, two = columns == 32;
    return (struct latent_column){two ? b->warp * 2 + lane % 2 : b->warp, two ? lane / 2 : lane,
                                  -__builtin_inff(), 0};
}

/* The largest of a column's threads; the sum of those with the places 0 .. 15. */
DEVICE float latent_largest(float x, const int columns)
{
    UNROLL for (int i = columns / 16; i < WARP; i *= 2)
        x = max32(f32_of(shuffle_xor(bits_of(x), i)), x);
    return x;
}

DEVICE float latent_sum(float x, const int columns)
{
    UNROLL for (int i = columns / 16; i < columns; i *= 2) x += f32_of(shuffle_xor(bits_of(x), i));
    return x;
}

/* The warp's first column, the first of its pages of a turn's scores, its tile i of values. */
DEVICE int latent_first_column(const struct latent_columns *b, const int columns)
{
    return columns == 32 ? b->warp / LATENT_WARPS * WARP_COLUMNS : 0;
}

DEVICE int latent_first_page(const struct latent_columns *b, const int columns)
{
    return columns == 32 ? 0 : b->warp / LATENT_WARPS;
}

DEVICE int latent_tile_of(const struct latent_columns *b, int i, const int columns)
{
    return columns == 32 ? b->warp % LATENT_WARPS + LATENT_WARPS * i
                         : b->warp + 2 * LATENT_WARPS * i;
}

/* Threads 0 and 1 copy a page of a turn each, thread 0 says of how many bytes. *page: its number,
 * afterwards that of the next turn */
DEVICE void latent_fetch(const struct latent_attend_args *a, const struct latent_lds *l,
                         const struct latent_columns *b, int turn, int slot, int *page)
{
    int number = turn * TURN_PAGES + thread(), last = b->seen / PAGE;
    u32 bytes = (u32)(PAGE * 2 * round16(a->latent + a->rotated)), full = l->full + 8 * (u32)slot;
    if (thread() >= TURN_PAGES || number > last) return;
    if (thread() == 0)
        mbarrier_arrive_expect(full, last - number < TURN_PAGES ? bytes * (u32)(last - number + 1)
                                                                : bytes * TURN_PAGES);
    bulk_copy(lds_address(l->keys) + bytes * (u32)(TURN_PAGES * slot + thread()),
              (const u8 *)a->pages + (u64)*page * bytes, bytes, full);
    if (number + TURN_PAGES <= last) *page = b->table[number + TURN_PAGES];
}

/* Waits for a turn, and makes zeros of the positions that nobody sees; what others write is there
 * behind a barrier. */
DEVICE void latent_await(const struct latent_attend_args *a, const struct latent_lds *l,
                         const struct latent_columns *b, int turn, int slot, int phase)
{
    int pieces = 2 * round16(a->latent + a->rotated);
    u32x4 *keys = (u32x4 *)l->keys + TURN_PAGES * pieces * slot;
    mbarrier_wait(l->full + 8 * (u32)slot, (u32)phase);
    if (turn < b->last || b->seen % LATENT_TURN == LATENT_TURN - 1) return;
    NO_UNROLL for (int j = thread(); j < TURN_PAGES * pieces; j += LATENT_THREADS)
    {
        int position = turn * LATENT_TURN + j / pieces * PAGE + j % PAGE;
        if (position > b->seen) keys[j] = (u32x4){0, 0, 0, 0};
    }
}

/* Where the sum of a position of the turn and a column is: sums that a warp reads or writes at once
 * share few banks. */
DEVICE int latent_sum_at(int position, int column, const int columns)
{
    int eights = columns == 32 ? position : position / 2,
        key = eights % (columns / 8) * 8 + position / 4 % 2 * 4 + position / 8 % 2 * 2;
    return position * columns + (column ^ key);
}

/* What the columns see. The power of two that brings each query into the range of halves, and what
 * undoes it, times the scale of scores. */
DEVICE void latent_begin(const struct latent_attend_args *a, const struct latent_lds *l,
                         const struct latent_columns *b, const struct latent_column *own,
                         const int columns)
{
    int c = own->number, hd = a->latent + a->rotated, valid = c >= b->begin && c < b->end;
    const float *q = a->q + (u64)(b->column0 + (valid ? c : b->begin)) * (u64)hd;
    float largest = 0;
    for (int d = own->place; d < hd; d += LATENT_THREADS / columns)
        largest = max32(abs32(q[d]), largest);
    struct power_of_two p = power_for(latent_largest(largest, columns), 14);
    if (thread() == 0) l->block[0] = b->column0, l->block[1] = b->begin, l->block[2] = b->end;
    if (own->place == 0) {
        l->factor[c] = p.factor;
        l->unit[c] = p.undo * a->scale;
        l->max[c] = -__builtin_inff();
        l->sum[c] = 0;
        l->pos[c] = valid ? a->pos[(b->column0 + c) / a->n_heads] : -1;
        l->first[c] = first_seen(l->pos[c], a->window);
    }
    barrier();
}

/* Operand b of the scores: lane (r, t) has the queries of columns r and r + 8 of the warp's. */
DEVICE void latent_operand(const struct latent_attend_args *a, const struct latent_lds *l,
                           const struct latent_columns *b, struct two_halves q[][2][2],
                           const int columns)
{
    int lane = thread() % WARP, hd = a->latent + a->rotated;
    UNROLL for (int i = 0; i < LATENT_STEPS; i++) UNROLL for (int n = 0; n < 2; n++)
        UNROLL for (int k = 0; k < 2; k++)
    {
        int c = latent_first_column(b, columns) + 8 * n + lane / 4,
            d = 16 * (b->warp % LATENT_WARPS + LATENT_WARPS * i) + 8 * k + lane % 4 * 2;
        f32x2 x = {0, 0};
        if (c >= b->begin && c < b->end && d < hd)
            x = *(const f32x2 *)(a->q + (u64)(b->column0 + c) * (u64)hd + (u64)d);
        q[i][n][k] = split_pair(x[0] * l->factor[c], x[1] * l->factor[c]);
    }
}

/* The warp's share of the sums of a turn: lane (r, t) has positions r and r + 8 of each page,
 * columns 2t and 2t + 1 of each eight. */
DEVICE void latent_scores(const struct latent_attend_args *a, const struct latent_columns *b,
                          const u8 *stage, const struct two_halves q[][2][2], float sum[][2][4],
                          const int columns)
{
    int lane = thread() % WARP, steps = round16(a->latent + a->rotated) / 16,
        warp = b->warp % LATENT_WARPS, page = latent_first_page(b, columns);
    u32 from = lds_address(stage) + (u32)((lane / 16 * PAGE + lane % 16) * 16);
    UNROLL for (int m = 0; m < LATENT_PAGES(columns); m++) UNROLL for (int n = 0; n < 2; n++)
        UNROLL for (int e = 0; e < 4; e++) sum[m][n][e] = 0;
    UNROLL for (int i = 0; i < LATENT_STEPS; i++)
    {
        int s = warp + LATENT_WARPS * i;
        if (s >= steps) continue;
        u32 k[TURN_PAGES][4];
        UNROLL for (int m = 0; m < LATENT_PAGES(columns); m++)
            load_matrices(from + (u32)(((m + page) * steps + s) * 32 * PAGE), k[m]);
        UNROLL for (int half = 0; half < 2; half++)
            UNROLL for (int m = 0; m < LATENT_PAGES(columns); m++)
                UNROLL for (int n = 0; n < 2; n++)
        {
            const struct two_halves *x = q[i][n];
            mma_16x8x16(sum[m][n], k[m][0], k[m][1], k[m][2], k[m][3], half ? x[0].low : x[0].high,
                        half ? x[1].low : x[1].high);
        }
    }
}

DEVICE void latent_put_sums(const struct latent_lds *l, const struct latent_columns *b,
                            const float sum[][2][4], const int columns)
{
    int lane = thread() % WARP, page = latent_first_page(b, columns);
    float *to = l->sums + b->warp % LATENT_WARPS * (LATENT_TURN * columns);
    UNROLL for (int m = 0; m < LATENT_PAGES(columns); m++) UNROLL for (int n = 0; n < 2; n++)
        UNROLL for (int k = 0; k < 2; k++)
    {
        int column = latent_first_column(b, columns) + 8 * n + lane % 4 * 2;
        f32x2 two = {sum[m][n][2 * k], sum[m][n][2 * k + 1]};
        *(f32x2 *)(to + latent_sum_at(PAGE * (m + page) + 8 * k + lane / 4, column, columns)) = two;
    }
}

/* Makes the weights of a turn, and what the values so far are multiplied by. Scores that are not
 * numbers make the sum none. */
DEVICE void latent_weights(const struct latent_lds *l, struct latent_column *c, int turn,
                           const int columns)
{
    float s[2], w[2] = {0, 0}, largest = c->max;
    int first = l->first[c->number], pos = l->pos[c->number], begin = turn * LATENT_TURN,
        none = c->max == -__builtin_inff() && (pos < begin || first >= begin + LATENT_TURN);
    UNROLL for (int i = 0; i < columns / 16; i++)
    {
        int p = c->place + 16 * i, position = begin + p;
        s[i] = 0;
        UNROLL for (int k = 0; k < LATENT_WARPS; k++)
            s[i] += l->sums[k * (LATENT_TURN * columns) + latent_sum_at(p, c->number, columns)];
        s[i] = position >= first && position <= pos ? s[i] * l->unit[c->number] : -__builtin_inff();
        largest = max32(s[i], largest);
    }
    largest = latent_largest(largest, columns);
    float rescale = none ? 1 : exp32(c->max - largest);
    UNROLL for (int i = 0; i < columns / 16; i++)
    {
        w[i] = none ? 0 : exp32(s[i] - largest) * 0x1p14f;
        l->weight[c->number * (LATENT_TURN + 8) + c->place + 16 * i] = (f16)w[i];
    }
    if (columns == 16) w[1] = f32_of(shuffle_xor(bits_of(w[0]), 16));
    c->max = largest;
    c->sum = fma32(c->sum, rescale, w[0] + w[1]);
    if (c->place == 0) l->rescale[c->number] = rescale;
}

/* Ends a chunk: merges its maximum and sum with those of the chunks before, or leaves them for
 * exact_combine. */
DEVICE void latent_close(const struct latent_attend_args *a, const struct latent_lds *l,
                         const struct latent_columns *b, struct latent_column *c, int chunk,
                         const int columns, const int whole)
{
    float sum = latent_sum(c->sum, columns) * 0x1p-14f, before = 1, now = 0;
    int valid = sum != 0; /* also where it is no number */
    if (whole && c->place == 0) {
        if (valid)
            exact_merge_scales(l->max + c->number, l->sum + c->number, c->max, sum, &before, &now);
        l->before[c->number] = before, l->now[c->number] = now;
    } else if (!whole && valid && c->place == 0) {
        float *part = a->parts + ((u64)(b->column0 + c->number) * (u64)a->n_splits + (u64)chunk) *
                                     (u64)part_floats(a->latent);
        part[round8(a->latent)] = c->max;
        part[round8(a->latent) + 1] = sum;
    }
    c->max = -__builtin_inff();
    c->sum = 0;
}

/* Adds a turn's weighted values: lane (r, t) has dimensions r and r + 8 of each tile, columns 2t
 * and 2t + 1 of each eight. */
DEVICE void latent_values(const struct latent_attend_args *a, const struct latent_lds *l,
                          const struct latent_columns *b, const u8 *stage, float acc[][2][4],
                          const int columns)
{
    int lane = thread() % WARP, steps = round16(a->latent + a->rotated) / 16,
        column = latent_first_column(b, columns);
    u32 from = lds_address(stage) + (u32)((lane / 8 % 2 * PAGE + lane / 16 * 8 + lane % 8) * 16);
    UNROLL for (int n = 0; n < 2; n++)
    {
        f32x2 f = *(const f32x2 *)(l->rescale + column + 8 * n + lane % 4 * 2);
        if (f[0] == 1 && f[1] == 1) continue;
        UNROLL for (int i = 0; i < LATENT_TILES(columns); i++) UNROLL for (int e = 0; e < 4; e++)
            acc[i][n][e] *= f[e % 2];
    }
    UNROLL for (int m = 0; m < TURN_PAGES; m++)
    {
        u32 w[2][2];
        UNROLL for (int n = 0; n < 2; n++) UNROLL for (int k = 0; k < 2; k++)
            w[n][k] = *(const u32 *)(l->weight + (column + 8 * n + lane / 4) * (LATENT_TURN + 8) +
                                     PAGE * m + 8 * k + lane % 4 * 2);
        UNROLL for (int i = 0; i < LATENT_TILES(columns); i++)
        {
            int tile = latent_tile_of(b, i, columns);
            if (tile >= a->latent / 16) continue;
            u32 v[4];
            load_transposed(from + (u32)((m * steps + tile) * 32 * PAGE), v);
            UNROLL for (int n = 0; n < 2; n++)
                mma_16x8x16(acc[i][n], v[0], v[1], v[2], v[3], w[n][0], w[n][1]);
        }
    }
}

/* The dimension of acc[i][n][e] of a tile. */
DEVICE int latent_dimension(int tile, const int e)
{
    return 16 * tile + e / 2 * 8 + thread() % WARP / 4;
}

/* Does DO(i, n, e, tile, c) for each of the thread's values: acc[i][n][e], its tile and column. */
#define LATENT_EACH(a, b, columns, DO)                                                             \
    UNROLL for (int i = 0; i < LATENT_TILES(columns); i++)                                         \
    {                                                                                              \
        int tile = latent_tile_of(b, i, columns);                                                  \
        if (tile < (a)->latent / 16)                                                               \
            UNROLL for (int n = 0; n < 2; n++) UNROLL for (int e = 0; e < 4; e++)                  \
            {                                                                                      \
                int c = latent_first_column(b, columns) + 8 * n + thread() % 4 * 2 + e % 2;        \
                if (c >= (b)->begin && c < (b)->end) DO(i, n, e, tile, c);                         \
            }                                                                                      \
    }

DEVICE float *latent_total(const struct latent_lds *l, int i, int n, int e)
{
    return l->total + ((i * 2 + n) * 4 + e) * LATENT_THREADS + thread();
}

/* *b, from shared memory and with the warp's number anew: nothing that depends on it is kept in
 * registers meanwhile. */
DEVICE struct latent_columns latent_anew(const struct latent_lds *l, const struct latent_columns *b)
{
    struct latent_columns same = *b;
    same.column0 = l->block[0], same.begin = l->block[1], same.end = l->block[2];
    same.warp = warp_number();
    return same;
}

/* Adds the values of a chunk to those of the chunks before, or writes them for exact_combine. */
DEVICE void latent_close_values(const struct latent_attend_args *a, const struct latent_lds *l,
                                const struct latent_columns *of, float acc[][2][4], int chunk,
                                const int columns, const int whole)
{
    const struct latent_columns b = latent_anew(l, of);
    if (whole) {
#define LATENT_MERGE(i, n, e, tile, c)                                                             \
    *latent_total(l, i, n, e) = *latent_total(l, i, n, e) * l->before[c] +                         \
                                acc[i][n][e] * 0x1p-14f * l->now[c]
        LATENT_EACH(a, &b, columns, LATENT_MERGE)
    } else {
        u32 size = (u32)part_floats(a->latent), of_column = (u32)a->n_splits * size;
        float *part = a->parts + (u64)b.column0 * of_column + (u32)chunk * size;
#define LATENT_PART(i, n, e, tile, c)                                                              \
    part[(u32)c * of_column + (u32)latent_dimension(tile, e)] = acc[i][n][e] * 0x1p-14f
        LATENT_EACH(a, &b, columns, LATENT_PART)
    }
    UNROLL for (int i = 0; i < LATENT_TILES(columns); i++) UNROLL for (int n = 0; n < 2; n++)
        UNROLL for (int e = 0; e < 4; e++) acc[i][n][e] = 0;
}

DEVICE void latent_put_out(const struct latent_attend_args *a, const struct latent_lds *l,
                           const struct latent_columns *of, const struct latent_column *own,
                           const int columns)
{
    const struct latent_columns b = latent_anew(l, of);
    if (own->place == 0)
        l->factor[own->number] = l->pos[own->number] < 0
                                     ? 0
                                     : exact_factor(l->sum[own->number], l->max[own->number], 0, 0);
    barrier();
#define LATENT_OUT(i, n, e, tile, c)                                                               \
    a->out[(u64)(b.column0 + c) * (u64)a->latent + (u64)latent_dimension(tile, e)] =               \
        *latent_total(l, i, n, e) * l->factor[c]
    LATENT_EACH(a, &b, columns, LATENT_OUT)
    matrix_reads_after(); /* and the copies of the next columns, behind zeros */
    barrier();
}

/* Turns b->first .. b->last of the columns. */
DEVICE void latent_turns(const struct latent_attend_args *a, const struct latent_lds *l,
                         struct latent_columns *b, const int columns, const int stages,
                         const int whole)
{
    struct two_halves q[LATENT_STEPS][2][2];
    float acc[LATENT_TILES(32)][2][4], sum[TURN_PAGES][2][4];
    struct latent_column own = latent_column_of(b, columns);
    int bytes = LATENT_TURN * 2 * round16(a->latent + a->rotated), last = b->seen / PAGE,
        number = b->first * TURN_PAGES + thread(),
        page = b->table[thread() < TURN_PAGES && number <= last ? number : last];
    UNROLL for (int i = 0; i < stages - 1; i++)
        latent_fetch(a, l, b, b->first + i, (b->slot + i) % stages, &page);
    latent_begin(a, l, b, &own, columns);
    latent_operand(a, l, b, q, columns);
    UNROLL for (int i = 0; i < LATENT_TILES(columns); i++) UNROLL for (int n = 0; n < 2; n++)
        UNROLL for (int e = 0; e < 4; e++)
    {
        acc[i][n][e] = 0;
        if (whole) *latent_total(l, i, n, e) = 0;
    }
    latent_await(a, l, b, b->first, b->slot, b->phase);
    barrier();
    latent_scores(a, b, l->keys + bytes * b->slot, q, sum, columns);
    latent_put_sums(l, b, sum, columns);
    NO_UNROLL for (int turn = b->first; turn <= b->last; turn++)
    {
        int slot = b->slot, free = slot ? slot - 1 : stages - 1,
            closes = turn == b->last || (turn + 1) * LATENT_TURN % KV_SPLIT == 0;
        b->slot = slot + 1 < stages ? slot + 1 : 0;
        b->phase ^= !b->slot;
        if (turn < b->last) latent_await(a, l, b, turn + 1, b->slot, b->phase);
        barrier();
        latent_fetch(a, l, b, turn + stages - 1, free, &page);
        if (turn < b->last) latent_scores(a, b, l->keys + bytes * b->slot, q, sum, columns);
        latent_weights(l, &own, turn, columns);
        if (closes) latent_close(a, l, b, &own, turn * LATENT_TURN / KV_SPLIT, columns, whole);
        barrier();
        if (turn < b->last) latent_put_sums(l, b, sum, columns);
        latent_values(a, l, b, l->keys + bytes * slot, acc, columns);
        if (closes)
            latent_close_values(a, l, b, acc, turn * LATENT_TURN / KV_SPLIT, columns, whole);
    }
    if (whole) latent_put_out(a, l, b, &own, columns);
}

/* What the rows of columns begin .. end - 1, which are of one sequence, see. */
DEVICE void latent_range(const struct latent_attend_args *a, struct latent_columns *b)
{
    int row = (b->column0 + b->begin) / a->n_heads, end = (b->column0 + b->end - 1) / a->n_heads;
    b->table = a->table + (u64)a->seq[row] * (u64)a->table_stride;
    b->seen = a->pos[row];
    int first = first_seen(b->seen, a->window);
    for (row++; row <= end; row++) {
        int pos = a->pos[row], least = first_seen(pos, a->window);
        if (pos > b->seen) b->seen = pos;
        if (least < first) first = least;
    }
    b->first = first / LATENT_TURN;
    b->last = b->seen / LATENT_TURN;
}

/* Ends the columns at the first one of another sequence. */
DEVICE void latent_one_sequence(const struct latent_attend_args *a, struct latent_columns *b,
                                int end)
{
    int heads = a->n_heads, row = (b->column0 + b->begin) / heads, seq = a->seq[row];
    do row++;
    while (row * heads < b->column0 + end && a->seq[row] == seq);
    b->end = row * heads - b->column0 < end ? row * heads - b->column0 : end;
}

/* Block (tile, 1, 1): the columns of a tile of prompt rows, sequence by sequence; the last rows,
 * which see most, come first. */
DEVICE void latent_tile(const struct latent_attend_args *a, const struct latent_lds *l,
                        const int columns, const int stages)
{
    int all = a->n_rows * a->n_heads, tile = (all + columns - 1) / columns - 1 - block_x();
    struct latent_columns b = {tile * columns, 0, 0, 0, 0, -1, 0, 0, warp_number(), 0};
    for (;;) {
        all = a->n_rows * a->n_heads - b.column0;
        if (b.begin >= (all < columns ? all : columns)) return;
        latent_one_sequence(a, &b, all < columns ? all : columns);
        latent_range(a, &b);
        latent_turns(a, l, &b, columns, stages, 1);
        b.column0 = l->block[0], b.begin = l->block[2];
        barrier();
    }
}

/* Block (row, heads, share): some chunks of some heads of a decode row. */
DEVICE void latent_share(const struct latent_attend_args *a, const struct latent_lds *l,
                         const int columns, const int stages)
{
    enum { TURNS_OF_CHUNK = KV_SPLIT / LATENT_TURN };
    int head0 = block_y() * columns, heads = a->n_heads - head0, share = block_z();
    struct latent_columns b = {block_x() * a->n_heads + head0,
                               0,
                               heads < columns ? heads : columns,
                               0,
                               0,
                               -1,
                               0,
                               0,
                               warp_number(),
                               0};
    latent_range(a, &b);
    int from = b.first / TURNS_OF_CHUNK, chunks = b.last / TURNS_OF_CHUNK + 1 - from,
        begin = from + chunks * share / a->shares, end = from + chunks * (share + 1) / a->shares;
    if (begin == end) return;
    if (share) b.first = begin * TURNS_OF_CHUNK;
    if (end < from + chunks) {
        b.last = end * TURNS_OF_CHUNK - 1;
        b.seen = end * KV_SPLIT - 1;
    }
    latent_turns(a, l, &b, columns, stages, 0);
}

#define ATTEND_LATENT_MMA(name, images, of, columns, stages, whole)                                \
    ON_##images(KERNEL(name, struct latent_attend_args) {                                          \
        LDS(float, small, 7 * (columns));                                                          \
        LDS(int, seen, 2 * (columns) + 3);                                                         \
        u8 *sums = (u8 *)dynamic_lds + (stages)*LATENT_TURN * LATENT_DIMS * 2,                     \
           *total = sums + LATENT_WARPS * LATENT_TURN * (columns)*4,                               \
           *weight = total + ((whole) ? (columns)*LATENT_VALUE * 4 : 0),                           \
           *full = weight + (columns)*2 * (LATENT_TURN + 8);                                       \
        const struct latent_lds l = {(u8 *)dynamic_lds,                                            \
                                     (float *)sums,                                                \
                                     (float *)total,                                               \
                                     (f16 *)weight,                                                \
                                     small,                                                        \
                                     small + (columns),                                            \
                                     small + 2 * (columns),                                        \
                                     small + 3 * (columns),                                        \
                                     small + 4 * (columns),                                        \
                                     small + 5 * (columns),                                        \
                                     small + 6 * (columns),                                        \
                                     lds_address(full),                                            \
                                     seen + 2 * (columns),                                         \
                                     seen,                                                         \
                                     seen + (columns)};                                            \
        if (thread() == 0) {                                                                       \
            for (int i = 0; i < (stages); i++) mbarrier_init(l.full + 8 * (u32)i, 1);              \
            mbarrier_init_done();                                                                  \
        }                                                                                          \
        barrier();                                                                                 \
        of(ARGS, &l, columns, stages);                                                             \
    })
#include "backend-hip/kernels/hopper/list.h"
