/* latent.hip: latent heads (core/step/op.h) for every device, over all types of pages and in every
 * arithmetic: rotation and storage of queries and keys, attention. A page has one key a position
 * (args.h, LATENT), whose first `latent` elements are the value, too. Bits: the order of the CPU
 * (backend-cpu/latent.h), but for --act f16 over integers, which is that of i16. A row that sees
 * chosen positions alone (DeepSeek Sparse Attention) reads them as if they were positions 0, 1, ..;
 * where a kernel looks its positions up one by one, `chosen` is 1.
 *
 * Attention: a block has a row and LATENT_HEADS heads, which read keys once. A thread is a position
 * of a chunk of 256, then 8 elements of the values of two heads. Decode rows: a block for each
 * chunk, combined by exact_combine. */

enum { LATENT_HEADS = EXACT_ATTEND_ROWS };

DEVICE u64 latent_page_bytes(int dims, int kv)
{
    int d16 = round16(dims);
    return kv == PAGE_INT4   ? (u64)LATENT4_PAGE(dims)
           : kv == PAGE_INT8 ? (u64)LATENT8_PAGE(dims)
                             : (u64)(PAGE * d16 * (kv == PAGE_F32 ? 4 : 2));
}

/* The page of int8 of a row, of int4 that is not full. */
DEVICE u8 *latent_open_page(const struct open_pages *o, int number, int dims)
{
    u64 bytes = (u64)LATENT8_PAGE(dims);
    return number >= 0 ? (u8 *)o->seats + (u64)number * bytes
                       : (u8 *)o->steps + (u64)~number * bytes;
}

/* ---- rotation and storage */
/* Stores elements first .. first + n - 1 of a key, x [n] in shared memory, as integers with a scale
 * of their own. */
DEVICE void latent_store_codes(u8 *page, int position, const float *x, int first, int n,
                               float *scale, int *scratch)
{
    int maximum = 0;
    for (int d = thread(); d < n; d += THREADS) maximum = larger_bits(x[d], maximum);
    struct int_scale s = int_scale_of(block_most(maximum, scratch), 127);
    for (int d = thread(); d < n; d += THREADS)
        page[int8_key_at(first + d, position)] = (u8)rounded_int(x[d], s.inverse);
    if (thread() == 0) scale[position] = s.scale;
}

/* Stores the key x [latent + rotated] in shared memory of row block_x(). */
DEVICE void latent_store(const struct latent_rope_args *a, const float *x, int *scratch)
{
    int row = block_x(), slot = a->slot[row], position = slot % PAGE, hd = a->latent + a->rotated,
        d16 = round16(hd);
    u64 page = (u64)(slot / PAGE) * latent_page_bytes(hd, a->kv);
    if (a->kv < PAGE_INT8) {
        for (int d = thread(); d < d16; d += THREADS) {
            u64 at = (u64)((d / 8 * PAGE + position) * 8 + d % 8);
            store((u8 *)a->pages + page, at, d < hd ? x[d] : 0, a->kv == PAGE_F32);
        }
        return;
    }
    u8 *to = a->kv == PAGE_INT4 ? latent_open_page(&a->open, a->open.own[row], hd)
                                : (u8 *)a->pages + page;
    float *scale = (float *)(to + PAGE * d16);
    latent_store_codes(to, position, x, 0, a->latent, scale, scratch);
    latent_store_codes(to, position, x + a->latent, a->latent, a->rotated, scale + PAGE, scratch);
    for (int d = hd + thread(); d < d16; d += THREADS) to[int8_key_at(d, position)] = 0;
}

/* Block (row, head): the query heads, then the key. */
KERNEL(rope_latent, struct latent_rope_args)
{
    LDS(float, x, LATENT_DIMS);
    LDS(int, scratch, THREADS);
    const struct latent_rope_args *a = ARGS;
    int row = block_x(), head = block_y(), is_key = head == a->n_heads, n = a->latent,
        r = a->rotated, half = r / 2;
    u64 of = is_key ? (u64)row : (u64)row * (u64)a->n_heads + (u64)head;
    const float *latent = is_key ? a->key + of * (u64)a->key_stride : a->q_latent + of * (u64)n,
                *rot = is_key ? a->k_rot + of * (u64)a->rot_stride : a->q_rot + of * (u64)r;
    u64 angle = (u64)row * (u64)half;
    for (int d = thread(); d < n; d += THREADS) x[d] = latent[d];
    for (int d = thread(); d < r; d += THREADS) {
        float c = a->cos[angle + (u64)(d % half)], s = a->sin[angle + (u64)(d % half)],
              other = rot[d < half ? d + half : d - half];
        x[n + d] = d < half ? rot[d] * c - other * s : rot[d] * c + other * s;
    }
    if (a->kv >= PAGE_INT8) hadamard_head(x + n, r);
    else barrier();
    if (is_key) {
        latent_store(a, x, scratch);
        return;
    }
    float factor = a->kv >= PAGE_INT8 ? 1.0f / (float)hadamard_run(r) : 1;
    float *q = a->q + of * (u64)(n + r);
    for (int d = thread(); d < n; d += THREADS) q[d] = x[d];
    for (int d = thread(); d < r; d += THREADS) q[n + d] = x[n + d] * factor;
}

/* ---- open pages: as open_pages.hip has them */
/* Block (job): packs a full page, or copies an open one. */
KERNEL(latent_page_jobs, struct open_job_args)
{
    const struct open_job_args *a = ARGS;
    int from = a->jobs[2 * block_x()], to = a->jobs[2 * block_x() + 1], hd = a->head_dim,
        d16 = round16(hd);
    if (to < 0) return;
    const u8 *page = latent_open_page(&a->open, from, hd);
    if (!a->packs) {
        u8 *copy = latent_open_page(&a->open, ~to, hd);
        for (int i = thread(); i < LATENT8_PAGE(hd) / 16; i += THREADS)
            ((u32x4 *)copy)[i] = ((const u32x4 *)page)[i];
        return;
    }
    u8 *packed = (u8 *)a->pages + (u64)to * (u64)LATENT4_PAGE(hd);
    NO_UNROLL for (int i = thread(); i < d16 / 2; i += THREADS)
        int4_pack_pair(page, packed, 0, i / 4 * 8 + i % 4, 4, d16);
    if (thread() < 2 * PAGE)
        ((float *)(packed + 10 * d16))[thread()] = ((const float *)(page + PAGE * d16))[thread()];
}

/* ---- attention */
/* Shared memory of a block. */
struct latent_shared {
    struct exact_rows_run *run;
    float *q;                   /* [LATENT_HEADS][LATENT_DIMS]; or bytes [..][2 digits][..] */
    float *weight;              /* [LATENT_HEADS][KV_SPLIT] scores, then weights, or integers */
    float *part;                /* [THREADS] */
    float *max, *lanes;         /* [LATENT_HEADS]; [LATENT_HEADS][EXACT_LANES] */
    float *of_value;            /* [KV_SPLIT] scales */
    float *scale, *query;       /* [LATENT_HEADS] of weights; [2][LATENT_HEADS] of queries */
    u64 *pages; /* [KV_SPLIT / PAGE] addresses; where positions are looked up, of the own page */
    u32 *place; /* [KV_SPLIT] of positions that are looked up: page * PAGE + position, or OWN_PLACE
                   + position */
};

enum { OWN_PLACE = 1u << 31 };

/* The row of a block: its number, the last and the first position that it sees, its own page.
 * listed: it sees chosen positions alone, number 0 .. pos of them. */
struct latent_row {
    int row, pos, first, own, listed;
};

/* A position of a page. */
struct latent_place {
    const u8 *page;
    int position, packed;
};

/* Looks up the positions of a chunk that begins at position c0 one by one. */
DEVICE void latent_places(const struct latent_attend_args *a, const struct latent_shared *l,
                          const struct latent_row *r, int c0)
{
    int t = thread(), p = c0 + t, open = a->kv == PAGE_INT4;
    const int *table = a->table + (u64)a->seq[r->row] * (u64)a->table_stride,
              *list = a->chosen + (u64)r->row * (u64)a->n_chosen;
    if (t == 0)
        l->pages[0] = open ? (u64)latent_open_page(&a->open, a->open.own[r->row],
                                                   a->latent + a->rotated)
                           : 0;
    if (p <= r->pos) {
        u32 at = (u32)(r->listed ? list[p] : p), page = at / PAGE;
        l->place[t] =
            at % PAGE + (open && (int)page == r->own ? OWN_PLACE : (u32)table[page] * PAGE);
    }
    barrier();
}

/* Addresses of the pages of a chunk that begins at position c0. */
DEVICE void latent_pages(const struct latent_attend_args *a, const struct latent_shared *l,
                         const struct latent_row *r, int c0)
{
    int t = thread(), page = c0 / PAGE + t, hd = a->latent + a->rotated;
    const int *table = a->table + (u64)a->seq[r->row] * (u64)a->table_stride;
    if (t < KV_SPLIT / PAGE && page <= r->own) {
        if (a->kv == PAGE_INT4 && page == r->own)
            l->pages[t] = (u64)latent_open_page(&a->open, a->open.own[r->row], hd);
        else
            l->pages[t] = (u64)((const u8 *)a->pages +
                                (u64)table[page] * latent_page_bytes(hd, a->kv));
    }
    barrier();
}

/* Where position number i of the chunk that begins at c0 is. */
DEVICE struct latent_place latent_place_of(const struct latent_attend_args *a,
                                           const struct latent_shared *l,
                                           const struct latent_row *r, int c0, int i,
                                           const int chosen)
{
    if (!chosen)
        return (struct latent_place){(const u8 *)l->pages[i / PAGE], i % PAGE,
                                     a->kv == PAGE_INT4 && (c0 + i) / PAGE != r->own};
    u32 at = l->place[i];
    int own = at >= OWN_PLACE;
    const u8 *page = own ? (const u8 *)l->pages[0]
                         : (const u8 *)a->pages +
                               (u64)(at / PAGE) * latent_page_bytes(a->latent + a->rotated, a->kv);
    return (struct latent_place){page, (int)(at % PAGE), a->kv == PAGE_INT4 && !own};
}

/* The scales of a page: of latents [PAGE], of rotated parts [PAGE]. */
DEVICE const float *latent_scales(const u8 *page, int d16, int packed)
{
    return (const float *)(page + (packed ? 10 : PAGE) * d16);
}

/* Quantizes elements first .. first + n - 1 of the block's queries as one group each: 32 threads to
 * a query. */
DEVICE void latent_quantize(const struct latent_attend_args *a, const struct latent_shared *l,
                            const float *q, int first, int n, int d16, int part)
{
    int t = thread(), j = t / 32, maximum = 0, hd = a->latent + a->rotated,
        there = block_y() * LATENT_HEADS + j < a->n_heads;
    const float *x = q + (u64)(there ? j : 0) * (u64)hd + (u64)first;
    u8 *to = (u8 *)l->q + j * 2 * d16;
    for (int d = t % 32; d < n; d += 32) maximum = larger_bits(x[d], maximum);
    struct int_scale s = int_scale_of(most_of_row(maximum, (int *)l->part),
                                      exact_query_top(a->digits));
    for (int d = t % 32; d < (part ? d16 - first : n); d += 32) {
        int v = d < n ? rounded_int(x[d], s.inverse) : 0;
        if (a->digits == 2) put_digits(to + first + d, to + d16 + first + d, v);
        else to[d16 + first + d] = (u8)v;
    }
    if (t % 32 == 0) l->query[part * LATENT_HEADS + j] = s.scale;
    barrier();
}

DEVICE void latent_queries(const struct latent_attend_args *a, const struct latent_shared *l,
                           int row)
{
    int hd = a->latent + a->rotated, d16 = round16(hd), head0 = block_y() * LATENT_HEADS;
    const float *q = a->q + ((u64)row * (u64)a->n_heads + (u64)head0) * (u64)hd;
    if (a->digits && a->kv >= PAGE_INT8) {
        latent_quantize(a, l, q, 0, a->latent, d16, 0);
        latent_quantize(a, l, q, a->latent, a->rotated, d16, 1);
        return;
    }
    for (int i = thread(); i < LATENT_HEADS * d16; i += THREADS) {
        int j = i / d16, d = i % d16;
        l->q[j * LATENT_DIMS + d] =
            d < hd && head0 + j < a->n_heads ? q[(u64)j * (u64)hd + (u64)d] : 0;
    }
    barrier();
}

/* 16 dimensions of a key of integers. */
DEVICE u32x4 latent_key_piece(const struct latent_place *p, int d, int d16)
{
    u32 at = int8_key_at(d, p->position);
    return p->packed ? int4_key_piece(p->page, at, d, d16) : *(const u32x4 *)(p->page + at);
}

/* The sums of the queries' integers and the codes of dimensions from .. to - 1, times the scales. */
DEVICE void latent_digit_scores(const struct latent_attend_args *a, const struct latent_shared *l,
                                const struct latent_place *p, int from, int to, int part,
                                float s[LATENT_HEADS])
{
    int first[LATENT_HEADS], second[LATENT_HEADS], d16 = round16(a->latent + a->rotated);
    UNROLL for (int j = 0; j < LATENT_HEADS; j++) first[j] = second[j] = 0;
    NO_UNROLL for (int d = from; d < to; d += 16)
    {
        u32x4 k = latent_key_piece(p, d, d16);
        UNROLL for (int j = 0; j < LATENT_HEADS; j++)
        {
            const u8 *q = (const u8 *)l->q + j * 2 * d16 + d;
            u32x4 low = *(const u32x4 *)(q + d16), high = low;
            if (a->digits == 2) high = *(const u32x4 *)q;
            UNROLL for (int i = 0; i < 4; i++)
            {
                if (a->digits == 2) first[j] = dot4(high[i], k[i], first[j]);
                second[j] = dot4(low[i], k[i], second[j]);
            }
        }
    }
    float of_key = latent_scales(p->page, d16, p->packed)[part * PAGE + p->position];
    UNROLL for (int j = 0; j < LATENT_HEADS; j++)
    {
        float x = (float)of_digits(first[j], second[j], a->digits) *
                  (l->query[part * LATENT_HEADS + j] * of_key);
        s[j] = part ? s[j] + x : x;
    }
}

/* The same in fp32. */
DEVICE void latent_code_scores(const struct latent_attend_args *a, const struct latent_shared *l,
                                const struct latent_place *p, int from, int to, int part,
                                float s[LATENT_HEADS])
{
    float sum[LATENT_HEADS];
    int d16 = round16(a->latent + a->rotated);
    UNROLL for (int j = 0; j < LATENT_HEADS; j++) sum[j] = 0;
    NO_UNROLL for (int d = from; d < to; d += 16)
    {
        u32x4 k = latent_key_piece(p, d, d16);
        UNROLL for (int j = 0; j < LATENT_HEADS; j++) UNROLL for (int i = 0; i < 4; i++)
            add_codes(k[i], l->q + j * LATENT_DIMS + d + 4 * i, &sum[j]);
    }
    float of_key = latent_scales(p->page, d16, p->packed)[part * PAGE + p->position];
    UNROLL for (int j = 0; j < LATENT_HEADS; j++)
        s[j] = part ? s[j] + sum[j] * of_key : sum[j] * of_key;
}

DEVICE void latent_float_scores(const struct latent_attend_args *a, const struct latent_shared *l,
                                const struct latent_place *p, float s[LATENT_HEADS], const int f32)
{
    int d8 = round8(a->latent + a->rotated);
    UNROLL for (int j = 0; j < LATENT_HEADS; j++) s[j] = 0;
    NO_UNROLL for (int d = 0; d < d8; d += 8)
    {
        struct eight k = load_eight(p->page, (u64)((d / 8 * PAGE + p->position) * 8), f32);
        UNROLL for (int j = 0; j < LATENT_HEADS; j++)
        {
            float q[8];
            load_octet(l->q + j * LATENT_DIMS + d, q);
            UNROLL for (int i = 0; i < 8; i++) s[j] = fma32(q[i], element(&k, i, f32), s[j]);
        }
    }
}

/* The scores of the chunk's position t. */
DEVICE void latent_scores_of(const struct latent_attend_args *a, const struct latent_shared *l,
                             const struct latent_row *r, int c0, const int chosen)
{
    int t = thread(), p = c0 + t, seen = p >= r->first && p <= r->pos, n = a->latent,
        d16 = round16(n + a->rotated);
    float s[LATENT_HEADS];
    UNROLL for (int j = 0; j < LATENT_HEADS; j++) s[j] = 0;
    if (seen) {
        const struct latent_place at = latent_place_of(a, l, r, c0, t, chosen);
        if (a->kv == PAGE_F16) latent_float_scores(a, l, &at, s, 0);
        else if (a->kv == PAGE_F32) latent_float_scores(a, l, &at, s, 1);
        else if (a->digits) {
            latent_digit_scores(a, l, &at, 0, n, 0, s);
            latent_digit_scores(a, l, &at, n, d16, 1, s);
        } else {
            latent_code_scores(a, l, &at, 0, n, 0, s);
            latent_code_scores(a, l, &at, n, d16, 1, s);
        }
        if (a->kv >= PAGE_INT8)
            l->of_value[t] = latent_scales(at.page, d16, at.packed)[at.position];
    }
    UNROLL for (int j = 0; j < LATENT_HEADS; j++)
        l->weight[j * KV_SPLIT + t] = seen ? s[j] * a->scale : -__builtin_inff();
}

/* Of integers: weights times the scales of the values, as integers or in fp32. 32 threads to a
 * head. */
DEVICE void latent_scale_weights(const struct latent_attend_args *a, const struct latent_shared *l,
                                 const struct latent_row *r, int c0)
{
    int t = thread(), j = t / 32, lane = t % 32, maximum = 0;
    float w[KV_SPLIT / 32], *to = l->weight + j * KV_SPLIT;
    UNROLL for (int i = 0; i < KV_SPLIT / 32; i++)
    {
        int p = lane + 32 * i, seen = c0 + p >= r->first && c0 + p <= r->pos;
        w[i] = seen ? to[p] * l->of_value[p] : 0;
        if (!a->digits) w[i] = w[i] < 0x1p-126f ? 0 : w[i];
        maximum = larger_bits(w[i], maximum);
    }
    struct int_scale s = int_scale_of(most_of_row(maximum, (int *)l->part), EXACT_WEIGHT_TOP);
    UNROLL for (int i = 0; i < KV_SPLIT / 32; i++)
        to[lane + 32 * i] = a->digits ? f32_of((u32)rounded_int(w[i], s.inverse)) : w[i];
    if (lane == 0) l->scale[j] = s.scale;
    barrier();
}

/* A thread's part of the values: 8 elements of two heads. */
struct latent_values {
    int octet, head; /* head: of the block's, the first of the two; octet -1: none */
};

DEVICE struct latent_values latent_values_of(const struct latent_attend_args *a)
{
    int octets = a->latent / 8, t = thread();
    if (t >= octets * (LATENT_HEADS / 2)) return (struct latent_values){-1, 0};
    return (struct latent_values){t % octets, t / octets * 2};
}

/* Positions of the chunk that begins at c0 whose values are summed: from .. end - 1, in order. */
struct latent_span {
    int c0, from, end;
};

DEVICE void latent_float_values(const struct latent_attend_args *a, const struct latent_shared *l,
                                const struct latent_values *v, const struct latent_row *r,
                                const struct latent_span *of, float acc[2][8], const int kind)
{
    const int f32 = kind & 1, chosen = kind >> 1;
    NO_UNROLL for (int p = of->from; p < of->end; p++)
    {
        const struct latent_place at = latent_place_of(a, l, r, of->c0, p, chosen);
        struct eight k =
            load_eight(at.page, (u64)((v->octet * PAGE + at.position) * 8), f32);
        UNROLL for (int h = 0; h < 2; h++)
        {
            float w = l->weight[(v->head + h) * KV_SPLIT + p];
            UNROLL for (int i = 0; i < 8; i++)
                acc[h][i] = fma32(w, element(&k, i, f32), acc[h][i]);
        }
    }
}

DEVICE int latent_code(u32 word, const int i) { return (int)(word << (24 - 8 * i)) >> 24; }

DEVICE void latent_code_values(const struct latent_attend_args *a, const struct latent_shared *l,
                               const struct latent_values *v, const struct latent_row *r,
                               const struct latent_span *of, float acc[2][8], const int chosen)
{
    int sum[2][8], d16 = round16(a->latent + a->rotated), d = v->octet / 2 * 16;
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < 8; i++) sum[h][i] = 0;
    NO_UNROLL for (int p = of->from; p < of->end; p++)
    {
        const struct latent_place at = latent_place_of(a, l, r, of->c0, p, chosen);
        u32x4 k = latent_key_piece(&at, d, d16);
        u32 low = v->octet % 2 ? k[2] : k[0], high = v->octet % 2 ? k[3] : k[1];
        UNROLL for (int h = 0; h < 2; h++)
        {
            float w = l->weight[(v->head + h) * KV_SPLIT + p];
            UNROLL for (int i = 0; i < 8; i++)
            {
                int code = latent_code(i < 4 ? low : high, i % 4);
                if (a->digits) sum[h][i] += (int)bits_of(w) * code;
                else acc[h][i] = fma32(w, (float)code, acc[h][i]);
            }
        }
    }
    if (!a->digits) return;
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < 8; i++)
        acc[h][i] = (float)sum[h][i] * l->scale[v->head + h];
}

/* A chunk that begins at position c0: scores, weights, the thread's values. */
DEVICE void latent_chunk(const struct latent_attend_args *a, const struct latent_shared *l,
                         const struct latent_values *v, const struct latent_row *r, int c0,
                         float acc[2][8], const int chosen)
{
    const struct exact_rows rows = {l->run, l->q, l->weight, l->part, l->max, l->lanes};
    const struct latent_span of = {c0, (r->first > c0 ? r->first - c0 : 0) / PAGE * PAGE,
                                   r->pos - c0 < KV_SPLIT - 1 ? r->pos - c0 + 1 : KV_SPLIT};
    if (chosen) latent_places(a, l, r, c0);
    else latent_pages(a, l, r, c0);
    latent_scores_of(a, l, r, c0, chosen);
    exact_weights(&rows);
    if (a->kv >= PAGE_INT8) latent_scale_weights(a, l, r, c0);
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < 8; i++) acc[h][i] = 0;
    if (v->octet < 0) return;
    if (a->kv == PAGE_F16) latent_float_values(a, l, v, r, &of, acc, 2 * chosen);
    else if (a->kv == PAGE_F32) latent_float_values(a, l, v, r, &of, acc, 2 * chosen + 1);
    else latent_code_values(a, l, v, r, &of, acc, chosen);
}

/* Writes 8 elements of one of the two heads, times f. */
DEVICE void latent_put(const struct latent_values *v, float *to, const float acc[8], float f)
{
    UNROLL for (int i = 0; i < 8; i++) to[v->octet * 8 + i] = acc[i] * f;
}

DEVICE struct latent_row latent_row_of(const struct latent_attend_args *a, const int chosen)
{
    int row = block_x(), pos = a->pos[row];
    if (chosen && pos >= a->n_chosen)
        return (struct latent_row){row, a->n_chosen - 1, 0, pos / PAGE, 1};
    return (struct latent_row){row, pos, first_seen(pos, a->window), pos / PAGE, 0};
}

/* Block (row, heads): all chunks. */
DEVICE void latent_rows(const struct latent_attend_args *a, const struct latent_shared *l,
                        const int chosen)
{
    const struct latent_row r = latent_row_of(a, chosen);
    int row = r.row, t = thread(), head0 = block_y() * LATENT_HEADS;
    const struct latent_values v = latent_values_of(a);
    float value[2][8];
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < 8; i++) value[h][i] = 0;
    exact_begin_rows(l->run);
    latent_queries(a, l, row);
    NO_UNROLL for (int c0 = r.first / KV_SPLIT * KV_SPLIT; c0 <= r.pos; c0 += KV_SPLIT)
    {
        float acc[2][8];
        latent_chunk(LATE_ARGS(a), l, &v, &r, c0, acc, chosen);
        if (t < LATENT_HEADS)
            exact_merge_row(l->run, t, l->max[t], exact_fold(l->lanes + t * EXACT_LANES));
        barrier();
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < 8; i++)
            value[h][i] = exact_merged(l->run, v.head + h, value[h][i], acc[h][i]);
        barrier();
    }
    exact_end_rows(l->run, (const float *)0, 0);
    a = LATE_ARGS(a);
    UNROLL for (int h = 0; h < 2; h++) if (v.octet >= 0 && head0 + v.head + h < a->n_heads)
        latent_put(&v,
                   a->out + ((u64)row * (u64)a->n_heads + (u64)(head0 + v.head + h)) *
                                (u64)a->latent,
                   value[h], l->run->now[v.head + h]);
}

/* Block (row, heads, chunk): the chunk alone, for exact_combine. */
DEVICE void latent_split(const struct latent_attend_args *a, const struct latent_shared *l,
                         const int chosen)
{
    const struct latent_row r = latent_row_of(a, chosen);
    int row = r.row, c0 = block_z() * KV_SPLIT, head0 = block_y() * LATENT_HEADS, t = thread(),
        size = part_floats(a->latent);
    const struct latent_values v = latent_values_of(a);
    float acc[2][8];
    if (c0 > r.pos || c0 + KV_SPLIT <= r.first) return;
    latent_queries(a, l, row);
    latent_chunk(a, l, &v, &r, c0, acc, chosen);
    UNROLL for (int h = 0; h < 2; h++) if (v.octet >= 0 && head0 + v.head + h < a->n_heads)
        latent_put(&v,
                   a->parts + (((u64)row * (u64)a->n_heads + (u64)(head0 + v.head + h)) *
                                   (u64)a->n_splits +
                               (u64)block_z()) *
                                  (u64)size,
                   acc[h], 1);
    if (t >= LATENT_HEADS || head0 + t >= a->n_heads) return;
    float *part = a->parts +
                  (((u64)row * (u64)a->n_heads + (u64)(head0 + t)) * (u64)a->n_splits +
                   (u64)block_z()) *
                      (u64)size;
    part[round8(a->latent)] = l->max[t];
    part[round8(a->latent) + 1] = exact_fold(l->lanes + t * EXACT_LANES);
}

/* A kernel each, so that neither holds the other's scalars. */
#define ATTEND_LATENT(name, of, chosen, n_places)                                                  \
    KERNEL(name, struct latent_attend_args)                                                        \
    {                                                                                              \
        LDS(f32x4, q, LATENT_HEADS *LATENT_DIMS / 4);                                              \
        LDS(f32x4, weight, LATENT_HEADS *KV_SPLIT / 4);                                            \
        LDS(float, part, THREADS);                                                                 \
        LDS(float, max, LATENT_HEADS);                                                             \
        LDS(float, lanes, LATENT_HEADS *EXACT_LANES);                                              \
        LDS(struct exact_rows_run, run, 1);                                                        \
        LDS(float, of_value, KV_SPLIT);                                                            \
        LDS(float, scale, LATENT_HEADS);                                                           \
        LDS(float, query, 2 * LATENT_HEADS);                                                       \
        LDS(u64, pages, KV_SPLIT / PAGE);                                                          \
        LDS(u32, place, n_places);                                                                 \
        const struct latent_shared l = {run,      (float *)q, (float *)weight, part,  max,  lanes, \
                                        of_value, scale,      query,           pages, place};      \
        of(ARGS, &l, chosen);                                                                      \
    }
ATTEND_LATENT(attend_latent, latent_rows, 0, 1)
ATTEND_LATENT(attend_latent_chunk, latent_split, 0, 1)
ATTEND_LATENT(attend_chosen_chunk, latent_split, 1, KV_SPLIT)
