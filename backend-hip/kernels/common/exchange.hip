/* exchange.hip: rows whose columns several devices have, put together on each (OP_EXCHANGE), in one
 * launch a device: block b of each device sends its slice of the device's columns into rings of the
 * others, and takes from its own rings what block b of the others sends. No block waits for another
 * block of its device, so they need not all run at once. Two devices compute their exchanges in the
 * same order. */

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

DEVICE f32x4 *exchange_slot(void *region, int sender, u32 message)
{
    u64 ring = (u64)sender * EXCHANGE_BLOCKS + (u64)block_x();
    return (f32x4 *)((u8 *)region + 2 * EXCHANGE_FLAGS +
                     (ring * EXCHANGE_SLOTS + message % EXCHANGE_SLOTS) * EXCHANGE_FLOATS * 4);
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
        if (i % 256 == 0 && signalled(stop)) return;
        rest();
    }
}

/* Puts floats first .. first + n - 1 of device q's columns, which are at `from`, into their places. */
DEVICE void exchange_place(const struct exchange_args *a, const f32x4 *from, u32 first, u32 n, int q)
{
    const float *single = (const float *)from;
    u32 column = (u32)a->at[q], columns = (u32)a->at[q + 1] - column;
    if (columns % 4 == 0 && column % 4 == 0 && a->width % 4 == 0) {
        for (u32 i = (u32)thread(); i < n / 4; i += THREADS) {
            u32 k = first + 4 * i, row = k / columns;
            *(f32x4 *)(a->out + (u64)row * a->width + column + (k - row * columns)) = from[i];
        }
        return;
    }
    for (u32 i = (u32)thread(); i < n; i += THREADS) {
        u32 k = first + i, row = k / columns;
        a->out[(u64)row * a->width + column + (k - row * columns)] = single[i];
    }
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

/* Message `chunk` of this device's slice, to all who receive. */
DEVICE void exchange_send(const struct exchange_args *a, const struct exchange_table *t,
                          const struct exchange_peer *peer, const u32 *sent, int chunk)
{
    u32 first, left = exchange_left(a, a->device, chunk, &first),
               n = left < EXCHANGE_FLOATS ? left : EXCHANGE_FLOATS;
    if (peer->receives)
        exchange_wait(peer->taken, peer->sent + (u32)chunk + 1 - EXCHANGE_SLOTS, t->stop);
    barrier();
    const f32x4 *from = (const f32x4 *)(a->own + first);
    for (int to = 0; to < a->devices; to++) {
        if (to == a->device || !(a->to >> to & 1)) continue;
        f32x4 *slot = exchange_slot(t->region[to], a->device, sent[to] + (u32)chunk);
        for (u32 i = (u32)thread(); i < n / 4; i += THREADS) send_16(slot + i, from[i]);
        if (n % 4 && thread() == 0) {
            f32x4 v = {0, 0, 0, 0};
            for (u32 j = 0; j < n % 4; j++) v[j] = a->own[first + n / 4 * 4 + j];
            send_16(slot + n / 4, v);
        }
    }
    publish();
    barrier();
    if (peer->receives) signal(peer->arrived_there, peer->sent + (u32)chunk + 1);
}

/* Message `chunk` of every device that sends so many. */
DEVICE void exchange_take(const struct exchange_args *a, const struct exchange_table *t,
                          const struct exchange_peer *peer, const u32 *got, int chunk)
{
    if (chunk < peer->chunks) exchange_wait(peer->arrived, peer->got + (u32)chunk + 1, t->stop);
    barrier();
    for (int q = 0; q < a->devices; q++) {
        u32 first, left = exchange_left(a, q, chunk, &first);
        if (q == a->device || !left) continue;
        exchange_place(a, exchange_slot(t->region[a->device], q, got[q] + (u32)chunk), first,
                       left < EXCHANGE_FLOATS ? left : EXCHANGE_FLOATS, q);
    }
    publish();
    barrier();
    if (chunk < peer->chunks) signal(peer->taken_there, peer->got + (u32)chunk + 1);
}

/* Thread q: what there is between this device and device q. */
DEVICE struct exchange_peer exchange_meet(const struct exchange_args *a,
                                          const struct exchange_table *t, int receives)
{
    struct exchange_peer p;
    int q = thread();
    __builtin_memset(&p, 0, sizeof p);
    if (q >= a->devices || q == a->device) return p;
    void *own = t->region[a->device], *other = t->region[q];
    p.arrived = exchange_flag(own, 0, q);
    p.taken = exchange_flag(own, 1, q);
    p.arrived_there = exchange_flag(other, 0, a->device);
    p.taken_there = exchange_flag(other, 1, a->device);
    p.sent = t->count[q * EXCHANGE_BLOCKS + block_x()];
    p.got = t->count[(EXCHANGE_DEVICES + q) * EXCHANGE_BLOCKS + block_x()];
    p.receives = (int)(a->to >> q & 1);
    p.chunks = receives ? exchange_chunks(a, q) : 0;
    return p;
}

KERNEL(exchange, struct exchange_args)
{
    LDS(u32, sent, EXCHANGE_DEVICES);
    LDS(u32, got, EXCHANGE_DEVICES);
    const struct exchange_args *a = ARGS;
    const struct exchange_table *t = a->table;
    int q = thread(), receives = (int)(a->to >> a->device & 1), n_sent = 0, n_got = 0,
        to_send = a->to & ~(1u << a->device) ? exchange_chunks(a, a->device) : 0, to_take = 0;
    for (int i = 0; i < a->devices && receives; i++) {
        int chunks = i == a->device ? 0 : exchange_chunks(a, i);
        if (chunks > to_take) to_take = chunks;
    }
    const struct exchange_peer peer = exchange_meet(a, t, receives);
    if (q < EXCHANGE_DEVICES) sent[q] = peer.sent, got[q] = peer.got;
    barrier();
    while (n_sent < to_send && n_sent < EXCHANGE_SLOTS) exchange_send(a, t, &peer, sent, n_sent++);
    if (receives && a->own) {
        u32 first, n = exchange_left(a, a->device, 0, &first);
        exchange_place(a, (const f32x4 *)(a->own + first), first, n, a->device);
    }
    while (n_got < to_take || n_sent < to_send) {
        if (n_got < to_take) exchange_take(a, t, &peer, got, n_got++);
        if (n_sent < to_send) exchange_send(a, t, &peer, sent, n_sent++);
    }
    if (peer.receives && to_send)
        t->count[q * EXCHANGE_BLOCKS + block_x()] = peer.sent + (u32)to_send;
    if (peer.chunks)
        t->count[(EXCHANGE_DEVICES + q) * EXCHANGE_BLOCKS + block_x()] = peer.got + (u32)peer.chunks;
}
