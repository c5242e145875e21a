/* open_pages.hip: what becomes of open pages (core/step/kv_open.h) where OP_ROPE_STORE stores:
 * pages that a step goes beyond are copied from their seat, full ones are packed (kv_int4.h). */

/* One channel of a page as core/step/kv_int4.h has it. */
struct int4_channel {
    int lo, step;
};

DEVICE struct int4_channel int4_channel_of(int least, int maximum)
{
    int range = maximum - least, step = range <= 15 ? 1 : (range + 14) / 15,
        lo = 127 - (range + step / 2) / step * step;
    return (struct int4_channel){least < lo ? least : lo, step};
}

/* Packs dimensions d and d + apart of the keys or the values of a full page: low and high bits of
 * the same bytes. */
DEVICE void int4_pack_pair(const u8 *from, u8 *to, int value, int d, int apart, int d16)
{
    u32 byte[PAGE];
    UNROLL for (int p = 0; p < PAGE; p++) byte[p] = 0;
    UNROLL for (int i = 0; i < 2; i++)
    {
        int index = d + i * apart, code[PAGE], least = 127, maximum = -128;
        UNROLL for (int p = 0; p < PAGE; p++)
        {
            code[p] =
                (signed char)from[value ? int8_value_at(index, p, d16) : int8_key_at(index, p)];
            least = code[p] < least ? code[p] : least;
            maximum = code[p] > maximum ? code[p] : maximum;
        }
        struct int4_channel c = int4_channel_of(least, maximum);
        u32 inverse = (65536u + (u32)c.step - 1) / (u32)c.step;
        UNROLL for (int p = 0; p < PAGE; p++)
            byte[p] |= ((u32)(code[p] - c.lo + c.step / 2) * inverse >> 16) << (4 * i);
        to[int4_lo_at(value, d16) + (u32)index] = (u8)(c.lo + 128);
        to[int4_step_at(value, d16) + (u32)index] = (u8)c.step;
    }
    UNROLL for (int p = 0; p < PAGE; p++)
    {
        u32 place = value ? (u32)((p / 4 * d16 + d) * 2 + p % 4)
                          : (u32)((d / 16 * PAGE + p) * 8 + d % 16 / 8 * 4 + d % 4);
        to[int4_part_at(value, d16) + place] = (u8)byte[p];
    }
}

/* Packs part i of d16 of a full page of a KV head. */
DEVICE void int4_pack_part(const u8 *page, u8 *packed, int i, int d16)
{
    int value = i >= d16 / 2, n = value ? i - d16 / 2 : i;
    if (value) int4_pack_pair(page, packed, 1, 2 * n, 1, d16);
    else int4_pack_pair(page, packed, 0, n / 4 * 8 + n % 4, 4, d16);
    for (; i < 2 * PAGE; i += d16)
        ((float *)(packed + 20 * d16))[i] = int8_scales_of(page, d16)[i];
}

/* Packs a full page of a KV head, by `threads` threads. */
DEVICE void int4_pack_page(const u8 *page, u8 *packed, int d16, const int threads)
{
    NO_UNROLL for (int i = thread(); i < d16; i += threads) int4_pack_part(page, packed, i, d16);
}

/* Block (job, KV head): packs a full page, or copies an open one. */
KERNEL(open_page_jobs, struct open_job_args)
{
    const struct open_job_args *a = ARGS;
    int from = a->jobs[2 * block_x()], to = a->jobs[2 * block_x() + 1], hd = a->head_dim,
        d16 = round16(hd), head = block_y();
    if (to < 0) return;
    const u8 *page = open_page_of(&a->open, from, head, a->n_kv_heads, hd);
    if (!a->packs) {
        u8 *copy = open_page_of(&a->open, ~to, head, a->n_kv_heads, hd);
        for (int i = thread(); i < INT8_PAGE(hd) / 16; i += THREADS)
            ((u32x4 *)copy)[i] = ((const u32x4 *)page)[i];
        return;
    }
    u8 *packed = (u8 *)a->pages + ((u64)to * (u64)a->n_kv_heads + (u64)head) * (u64)INT4_PAGE(hd);
    int4_pack_page(page, packed, d16, THREADS);
}
