/* exchange.hip: rows whose columns several devices have, put together on each (OP_EXCHANGE), in one
 * launch a device: block b of each device sends its slice of the device's columns into rings of the
 * others, and takes from its own rings what block b of the others sends. No block waits for another
 * block of its device, so they need not all run at once. Two devices compute their exchanges in the
 * same order. */

/* Loads of a thread in flight; gfx942's scalar registers hold no more than two. */
enum { EXCHANGE_AT_ONCE = HAS_MMA ? 4 : 2 };

/* What thread q of a block knows of device q. */
struct exchange_peer {
    u32 *arrived, *taken;             /* written by device q */
    u32 *arrived_there, *taken_there; /* read by it */
    u32 sent, got;                    /* messages before this launch */
    int receives;                     /* device q does */
    int chunks;                       /* messages of device q to take */
};

DEVICE u32 *exchange_flag(void *region, int part, int q)
{
    u64 number = (u64)q * EXCHANGE_BLOCKS + (u64)block_x();
    return (u32 *)((u8 *)region + (u64)part * EXCHANGE_FLAGS) + number * EXCHANGE_FLAG;
}

/* The slot of a message in a ring of a region; marked messages have rings of their own, behind the
 * others. */
DEVICE void *exchange_slot(const struct exchange_args *a, int region, u32 ring, u32 message)
{
    u64 slot = ((u64)ring * EXCHANGE_BLOCKS + (u64)block_x()) * a->slots + (message & (a->slots - 1));
    u8 *rings = (u8 *)a->region[region] + 2 * EXCHANGE_FLAGS;
    return a->is_marked ? rings + a->marked_at + slot * EXCHANGE_MARKED * 8
                        : rings + slot * EXCHANGE_FLOATS * 4;
}

/* The first float of block b's slice of n floats; a multiple of 4 but for the end. */
DEVICE u32 exchange_slice(u32 n, int b, int blocks)
{
    u32 each = (n / 4 + (u32)blocks) / (u32)blocks * 4, first = each * (u32)b;
    return first < n ? first : n;
}

/* Returns when a number of messages has come to n, or the host says that nobody waits. */
DEVICE void exchange_wait(const u32 *flag, u32 n, const u32 *stop)
{
    for (u32 i = 1; (int)(signalled(flag) - n) < 0; i++) {
        if (i % PATIENCE == 0 && signalled(stop)) return;
        rest();
    }
    trust_signal();
}

/* A thread's place among a device's columns: number k of all floats is in column `column` of a row.
 * It goes on by `rows` and `columns` for one turn of the block. */
struct exchange_cursor {
    u32 row, column, rows, columns, of_row;
};

DEVICE struct exchange_cursor exchange_cursor_of(u32 k, u32 turn, u32 of_row)
{
    struct exchange_cursor c = {k / of_row, k % of_row, turn / of_row, turn % of_row, of_row};
    return c;
}

DEVICE void exchange_go_on(struct exchange_cursor *c)
{
    c->row += c->rows;
    c->column += c->columns;
    if (c->column >= c->of_row) c->column -= c->of_row, c->row++;
}

/* Puts floats first .. first + n - 1 of device q's columns, which are at `from`, into their places;
 * EXCHANGE_AT_ONCE loads of a thread are in flight. */
DEVICE void exchange_place(const struct exchange_args *a, const f32x4 *from, u32 first, u32 n, int q)
{
    u32 at = (u32)a->at[q], columns = (u32)a->at[q + 1] - at, t = (u32)thread();
    float *to = a->out + at;
    if (columns % 4 == 0 && at % 4 == 0 && a->width % 4 == 0) {
        struct exchange_cursor c = exchange_cursor_of(first + 4 * t, 4 * THREADS, columns);
        for (u32 i = t; i < n / 4; i += EXCHANGE_AT_ONCE * THREADS) {
            f32x4 v[EXCHANGE_AT_ONCE];
            UNROLL for (u32 j = 0; j < EXCHANGE_AT_ONCE; j++) if (i + j * THREADS < n / 4) v[j] =
                from[i + j * THREADS];
            UNROLL for (u32 j = 0; j < EXCHANGE_AT_ONCE; j++, exchange_go_on(&c))
                if (i + j * THREADS < n / 4)
                    *(f32x4 *)(to + (u64)c.row * a->width + c.column) = v[j];
        }
        return;
    }
    const float *single = (const float *)from;
    struct exchange_cursor c = exchange_cursor_of(first + t, THREADS, columns);
    for (u32 i = t; i < n; i += THREADS, exchange_go_on(&c))
        to[(u64)c.row * a->width + c.column] = single[i];
}

/* Floats of device q's columns in the slice of this block from message `chunk` on; *first: of all. */
DEVICE u32 exchange_left(const struct exchange_args *a, int q, int chunk, u32 *first)
{
    u32 all = a->n * (u32)(a->at[q + 1] - a->at[q]),
        end = exchange_slice(all, block_x() + 1, a->blocks);
    *first = exchange_slice(all, block_x(), a->blocks) + (u32)chunk * EXCHANGE_FLOATS;
    return *first < end ? end - *first : 0;
}

DEVICE int exchange_chunks(const struct exchange_args *a, int q)
{
    u32 first;
    return (int)((exchange_left(a, q, 0, &first) + EXCHANGE_FLOATS - 1) / EXCHANGE_FLOATS);
}

/* Writes message `number` for device `to`: floats first .. first + n - 1 of this device's columns. */
DEVICE void exchange_write(const struct exchange_args *a, int to, u32 number, u32 first, u32 n)
{
    void *slot = exchange_slot(a, to, a->ring_there[to], number);
    const f32x4 *from = (const f32x4 *)(a->own + first);
    if (a->is_marked) {
        for (u32 i = (u32)thread(); i < n; i += THREADS)
            send_8((u64 *)slot + i, (u64)(number + 1) << 32 | bits_of(a->own[first + i]));
        return;
    }
    for (u32 i = (u32)thread(); i < n / 4; i += EXCHANGE_AT_ONCE * THREADS) {
        f32x4 v[EXCHANGE_AT_ONCE];
        UNROLL for (u32 j = 0; j < EXCHANGE_AT_ONCE; j++) if (i + j * THREADS < n / 4) v[j] =
            from[i + j * THREADS];
        UNROLL for (u32 j = 0; j < EXCHANGE_AT_ONCE; j++) if (i + j * THREADS < n / 4)
            send_16((f32x4 *)slot + i + j * THREADS, v[j]);
    }
    if (n % 4 && thread() == 0) {
        f32x4 v = {0, 0, 0, 0};
        for (u32 j = 0; j < n % 4; j++) v[j] = a->own[first + n / 4 * 4 + j];
        send_16((f32x4 *)slot + n / 4, v);
    }
}

/* Message `chunk` of this device's slice, to all who receive. */
DEVICE void exchange_send(const struct exchange_args *a, const struct exchange_peer *peer,
                          const u32 *sent, int chunk)
{
    u32 first, left = exchange_left(a, a->device, chunk, &first),
               n = left < EXCHANGE_FLOATS ? left : EXCHANGE_FLOATS;
    if (peer->receives)
        exchange_wait(peer->taken, peer->sent + (u32)chunk + 1 - a->slots, a->stop);
    barrier();
    for (int to = 0; to < a->devices; to++)
        if (to != a->device && a->to >> to & 1)
            exchange_write(a, to, sent[to] + (u32)chunk, first, n);
    if (a->is_marked) return;
    publish();
    barrier();
    if (peer->receives) signal(peer->arrived_there, peer->sent + (u32)chunk + 1);
}

/* Takes the words of a marked message of device q as they arrive. */
DEVICE void exchange_take_marked(const struct exchange_args *a, int q, u32 number, u32 first, u32 n)
{
    const u64 *slot = (const u64 *)exchange_slot(a, a->device, a->ring_here[q], number);
    float *to = a->out + a->at[q];
    struct exchange_cursor c = exchange_cursor_of(first + (u32)thread(), THREADS,
                                                  (u32)(a->at[q + 1] - a->at[q]));
    for (u32 i = (u32)thread(); i < n; i += EXCHANGE_AT_ONCE * THREADS) {
        u64 word[EXCHANGE_AT_ONCE];
        UNROLL for (u32 j = 0; j < EXCHANGE_AT_ONCE; j++) if (i + j * THREADS < n) word[j] =
            received_8(slot + i + j * THREADS);
        UNROLL for (u32 j = 0; j < EXCHANGE_AT_ONCE; j++, exchange_go_on(&c))
        {
            if (i + j * THREADS >= n) continue;
            for (u32 polls = 1; word[j] >> 32 != number + 1; polls++) {
                if (polls % PATIENCE == 0 && signalled(a->stop)) break;
                rest();
                word[j] = received_8(slot + i + j * THREADS);
            }
            to[(u64)c.row * a->width + c.column] = f32_of((u32)word[j]);
        }
    }
}

/* Message `chunk` of every device that sends so many. */
DEVICE void exchange_take(const struct exchange_args *a, const struct exchange_peer *peer,
                          const u32 *got, int chunk)
{
    if (!a->is_marked && chunk < peer->chunks)
        exchange_wait(peer->arrived, peer->got + (u32)chunk + 1, a->stop);
    barrier();
    for (int q = 0; q < a->devices; q++) {
        u32 first, left = exchange_left(a, q, chunk, &first), number = got[q] + (u32)chunk,
                   n = left < EXCHANGE_FLOATS ? left : EXCHANGE_FLOATS;
        if (q == a->device || !n) continue;
        if (a->is_marked) exchange_take_marked(a, q, number, first, n);
        else exchange_place(a, (const f32x4 *)exchange_slot(a, a->device, a->ring_here[q], number), first, n, q);
    }
    barrier(); /* all that was to be read has been */
    if (chunk < peer->chunks) signal_taken(peer->taken_there, peer->got + (u32)chunk + 1);
}

/* Thread q: what there is between this device and device q. */
DEVICE struct exchange_peer exchange_meet(const struct exchange_args *a, int receives)
{
    struct exchange_peer p;
    int q = thread();
    __builtin_memset(&p, 0, sizeof p);
    if (q >= a->devices || q == a->device) return p;
    void *own = a->region[a->device], *other = a->region[q];
    p.arrived = exchange_flag(own, 0, q);
    p.taken = exchange_flag(own, 1, q);
    p.arrived_there = exchange_flag(other, 0, a->device);
    p.taken_there = exchange_flag(other, 1, a->device);
    p.sent = a->count[q * EXCHANGE_BLOCKS + block_x()];
    p.got = a->count[(EXCHANGE_DEVICES + q) * EXCHANGE_BLOCKS + block_x()];
    p.receives = (int)(a->to >> q & 1);
    p.chunks = receives ? exchange_chunks(a, q) : 0;
    return p;
}

#if !HAS_MMA
/* One thread: what CUDA's streams do without a kernel (hip_turns.c). */
KERNEL(exchange_word, struct word_args)
{
    const struct word_args *a = ARGS;
    if (thread()) return;
    if (a->waits) exchange_wait(a->word, a->value, a->stop);
    else signal(a->word, a->value);
}
#endif

KERNEL(exchange, struct exchange_args)
{
    LDS(u32, sent, EXCHANGE_DEVICES);
    LDS(u32, got, EXCHANGE_DEVICES);
    const struct exchange_args *a = ARGS;
    int q = thread(), receives = (int)(a->to >> a->device & 1), n_sent = 0, n_got = 0,
        to_send = a->to & ~(1u << a->device) ? exchange_chunks(a, a->device) : 0, to_take = 0;
    for (int i = 0; i < a->devices && receives; i++) {
        int chunks = i == a->device ? 0 : exchange_chunks(a, i);
        if (chunks > to_take) to_take = chunks;
    }
    const struct exchange_peer peer = exchange_meet(a, receives);
    if (q < EXCHANGE_DEVICES) sent[q] = peer.sent, got[q] = peer.got;
    barrier();
    while (n_sent < to_send && n_sent < (int)a->slots) exchange_send(a, &peer, sent, n_sent++);
    if (to_send && peer.receives && !block_x() && a->arrivals[q])
        signal(a->arrivals[q] + a->device * EXCHANGE_FLAG, peer.sent + (u32)n_sent);
    if (receives && a->own) {
        u32 first, n = exchange_left(a, a->device, 0, &first);
        exchange_place(a, (const f32x4 *)(a->own + first), first, n, a->device);
    }
    while (n_got < to_take || n_sent < to_send) {
        if (n_got < to_take) exchange_take(a, &peer, got, n_got++);
        if (n_sent < to_send) exchange_send(a, &peer, sent, n_sent++);
    }
    if (peer.receives && to_send)
        a->count[q * EXCHANGE_BLOCKS + block_x()] = peer.sent + (u32)to_send;
    if (peer.chunks)
        a->count[(EXCHANGE_DEVICES + q) * EXCHANGE_BLOCKS + block_x()] = peer.got + (u32)peer.chunks;
}
