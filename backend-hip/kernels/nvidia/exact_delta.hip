/* exact_delta.hip: the gated delta rule in the CPU's order for keys of EXACT_DELTA_KEYS dimensions
 * and values of a multiple of EXACT_DELTA_COLUMNS, to the bit (common/exact_states.hip).
 *   block      (EXACT_DELTA_COLUMNS columns of a value head, sequence): two consumer warps, four
 *              producer warps
 *   consumers  a thread has a column of the state in registers from the first row to the last; the
 *              sum q S of a row, and its new state, are computed along with the sum k S of the next
 *              row, so that two sums run side by side
 *   producers  normalize q and k of EXACT_DELTA_ROWS rows ahead, into one of three buffers */

enum { EXACT_DELTA_ROWS = 8, EXACT_DELTA_BUFFERS = 3 };

/* A row of q, k and v, normed, and its gates, in shared memory. */
struct exact_delta_row {
    f32x4 q[EXACT_DELTA_KEYS / 4], k[EXACT_DELTA_KEYS / 4];
    float v[EXACT_DELTA_COLUMNS], g, beta, unused[2];
};

/* A producer warp prepares a row: 16 lanes each for q and k. */
DEVICE void exact_delta_produce(const struct delta_args *a, int row, int head, int column,
                                struct exact_delta_row *to)
{
    const int of_lane = EXACT_DELTA_KEYS / EXACT_LANES;
    int lane = thread() % WARP, l = lane % EXACT_LANES, is_key = lane / EXACT_LANES,
        key_head = head / (a->value_heads / a->key_heads);
    u64 gate = (u64)row * (u64)a->value_heads + (u64)head;
    const float *count = (is_key ? a->k : a->q) + (u64)row * (u64)a->qk_stride +
                         (u64)(key_head * EXACT_DELTA_KEYS + l),
                *v = a->v + (u64)row * (u64)a->v_stride + (u64)(head * a->value_dim + column);
    float y[of_lane], of_v[2], sum = 0, decay = a->a[gate], b = a->b[gate];
    UNROLL for (int i = 0; i < of_lane; i++) y[i] = count[i * EXACT_LANES];
    UNROLL for (int i = 0; i < 2; i++) of_v[i] = v[lane + 32 * i];
    UNROLL for (int i = 0; i < of_lane; i++) sum += y[i] * y[i];
    UNROLL for (int i = EXACT_LANES / 2; i; i /= 2) sum += f32_of(shuffle_xor(bits_of(sum), i));
    float root = 1 / exact_sqrt((float)EXACT_DELTA_KEYS), f = 1 / exact_sqrt(sum + 1e-6f),
          *unit = (float *)(is_key ? to->k : to->q) + l;
    UNROLL for (int i = 0; i < of_lane; i++)
        unit[i * EXACT_LANES] = is_key ? y[i] * f : y[i] * f * root;
    UNROLL for (int i = 0; i < 2; i++) to->v[lane + 32 * i] = of_v[i];
    if (lane) return;
    to->g = exact_exp(a->decay[head] * exact_softplus(decay + a->dt[head]));
    to->beta = a->beta_scale / (1 + exact_exp(-b));
}

/* s = g s of a column; returns k s. */
DEVICE float exact_delta_decay(float *s, const struct exact_delta_row *row)
{
    float sum = 0, g = row->g;
    UNROLL for (int i = 0; i < EXACT_DELTA_KEYS / 4; i++)
    {
        f32x4 k = row->k[i];
        UNROLL for (int e = 0; e < 4; e++)
        {
            s[4 * i + e] = g * s[4 * i + e];
            sum = fma32(k[e], s[4 * i + e], sum);
        }
    }
    return sum;
}

/* s += k u of row `last`; returns q s. */
DEVICE float exact_delta_update(float *s, const struct exact_delta_row *last, float u)
{
    float out = 0;
    UNROLL for (int i = 0; i < EXACT_DELTA_KEYS / 4; i++)
    {
        f32x4 k = last->k[i], q = last->q[i];
        UNROLL for (int e = 0; e < 4; e++)
        {
            s[4 * i + e] = fma32(k[e], u, s[4 * i + e]);
            out = fma32(q[e], s[4 * i + e], out);
        }
    }
    return out;
}

/* exact_delta_update() of row `last`, whose result goes to *out, and exact_delta_decay() of `row`,
 * in one pass. */
DEVICE float exact_delta_both(float *s, const struct exact_delta_row *last, float u,
                              const struct exact_delta_row *row, float *out)
{
    float sum = 0, of_last = 0, g = row->g;
    UNROLL for (int i = 0; i < EXACT_DELTA_KEYS / 4; i++)
    {
        f32x4 k = last->k[i], q = last->q[i], next = row->k[i];
        UNROLL for (int e = 0; e < 4; e++)
        {
            float v = fma32(k[e], u, s[4 * i + e]);
            of_last = fma32(q[e], v, of_last);
            s[4 * i + e] = g * v;
            sum = fma32(next[e], s[4 * i + e], sum);
        }
    }
    *out = of_last;
    return sum;
}

/* The rows of a sequence, and the buffers of chunks of them. */
struct exact_delta_rows {
    struct exact_delta_row *buffer;
    int first, end, head, column; /* column: the block's first */
};

/* The producers prepare a chunk of rows, then the next one while consumers compute it, and so on. A
 * buffer is written again when its chunk and the row behind it are done. */
DEVICE void exact_delta_producers(const struct delta_args *a, const struct exact_delta_rows *r)
{
    NO_UNROLL for (int row0 = r->first, index = 0; row0 < r->end; row0 += EXACT_DELTA_ROWS)
    {
        NO_UNROLL for (int i = (thread() - EXACT_DELTA_COLUMNS) / WARP;
                       i < EXACT_DELTA_ROWS && row0 + i < r->end; i += 4)
            exact_delta_produce(a, row0 + i, r->head, r->column, &r->buffer[index + i]);
        index += EXACT_DELTA_ROWS;
        if (index == EXACT_DELTA_BUFFERS * EXACT_DELTA_ROWS) index = 0;
        barrier();
    }
}

DEVICE void exact_delta_consumers(const struct delta_args *a, const struct exact_delta_rows *r,
                                  int seq)
{
    const struct state_rows *rows_of = &a->state;
    int t = thread(), from = rows_of->from[seq];
    u64 stride = (u64)a->value_dim, width = (u64)(a->value_heads * a->value_dim),
        index = (u64)r->head * (u64)(EXACT_DELTA_KEYS * a->value_dim) + (u64)(r->column + t);
    float *state = (float *)rows_of->slots + index,
          *out = a->out + (u64)(r->head * a->value_dim + r->column + t), s[EXACT_DELTA_KEYS], u = 0;
    const struct exact_delta_row *last = r->buffer;
    UNROLL for (int i = 0; i < EXACT_DELTA_KEYS; i++)
        s[i] = from >= 0 ? state[(u64)from * rows_of->slot_floats + (u64)i * stride] : 0;
    barrier();
    u = last->beta * (last->v[t] - exact_delta_decay(s, last));
    NO_UNROLL for (int row = r->first + 1, place = 1; row < r->end; row++)
    {
        const struct exact_delta_row *next = r->buffer + place;
        float y;
        if (place % EXACT_DELTA_ROWS == 0) barrier();
        float sum = exact_delta_both(s, last, u, next, &y);
        out[(u64)(row - 1) * width] = y;
        u = next->beta * (next->v[t] - sum);
        last = next;
        if (++place == EXACT_DELTA_BUFFERS * EXACT_DELTA_ROWS) place = 0;
    }
    out[(u64)(r->end - 1) * width] = exact_delta_update(s, last, u);
    UNROLL for (int i = 0; i < EXACT_DELTA_KEYS; i++)
        state[(u64)rows_of->to[seq] * rows_of->slot_floats + (u64)i * stride] = s[i];
}

KERNEL(exact_delta_128, struct delta_args)
{
    LDS(struct exact_delta_row, buffer, EXACT_DELTA_BUFFERS * EXACT_DELTA_ROWS);
    const struct delta_args *a = ARGS;
    int of_head = a->value_dim / EXACT_DELTA_COLUMNS, seq = block_y();
    const struct exact_delta_rows r = {buffer, a->state.seq_start[seq], a->state.seq_start[seq + 1],
                                       block_x() / of_head,
                                       block_x() % of_head * EXACT_DELTA_COLUMNS};
    if (r.first == r.end) return;
    if (thread() < EXACT_DELTA_COLUMNS) exact_delta_consumers(a, &r, seq);
    else exact_delta_producers(a, &r);
}
