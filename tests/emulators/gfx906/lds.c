/* lds.c: local memory of a block, and the DS instructions. Every access is checked: within the
 * block's allocation, aligned, only bytes that were written, and no conflict with another wave
 * since the last barrier (a read of another wave's write, a write over another wave's read or
 * write). Atomics of several waves do not conflict with each other. */
#include "gpu.h"

#include <string.h>

/* The last accessor of a byte since the last barrier: 0 none, wave + 1, with ATOMIC_MARK for
 * atomics. */
enum { ATOMIC_MARK = 0x40, MANY = 0x1f };

enum { PART = LDS_MAX / 64 };

static void fill_parts(uint8_t bytes[LDS_MAX], uint64_t parts, int value)
{
    for (; parts; parts &= parts - 1) memset(bytes + __builtin_ctzll(parts) * PART, value, PART);
}

void lds_barrier(struct block *b)
{
    fill_parts(b->writer, b->lds_touched, 0);
    fill_parts(b->reader, b->lds_touched, 0);
    b->lds_used |= b->lds_touched;
    b->lds_touched = 0;
}

void lds_begin(struct block *b)
{
    lds_barrier(b);
    fill_parts(b->lds, b->lds_used, 0xd5);
    fill_parts(b->known, b->lds_used, 0);
    b->lds_used = 0;
}

static inline void check_range(struct wave *w, const struct insn *i, int lane, uint32_t addr,
                               int bytes, const char *what)
{
    uint32_t size = w->block->launch->lds_size;
    if (addr > size || (uint32_t)bytes > size - addr)
        fault(w, i, lane, "LDS %s of %d bytes at %u, the block has %u", what, bytes, addr, size);
    if (addr & (bytes == 1 ? 0 : bytes == 2 ? 1 : 3))
        fault(w, i, lane, "LDS %s of %d bytes at %u is not aligned", what, bytes, addr);
    w->block->lds_touched |= 1ull << addr / PART | 1ull << (addr + (uint32_t)bytes - 1) / PART;
}

static const char *name_of(uint8_t mark, char text[16])
{
    if ((mark & MANY) == MANY) return strcpy(text, "other waves");
    memcpy(text, "wave 00", 8);
    int n = (mark & MANY) - 1;
    text[5] = (char)('0' + n / 10), text[6] = (char)('0' + n % 10);
    return text;
}

/* Checks the bytes of one access that are not the wave's own. */
static void slow_read(struct wave *w, const struct insn *i, int lane, uint32_t addr, int bytes)
{
    struct block *b = w->block;
    uint8_t mine = (uint8_t)(w->id + 1);
    char who[16];
    for (uint32_t k = addr; k < addr + (uint32_t)bytes; k++) {
        if (!b->known[k]) fault(w, i, lane, "LDS read at %u of a byte that was never written", k);
        if (b->writer[k] && (b->writer[k] & ~ATOMIC_MARK) != mine)
            fault(w, i, lane, "LDS race: read at %u, written by %s since the last barrier", k,
                  name_of(b->writer[k], who));
        b->reader[k] = b->reader[k] == 0 || b->reader[k] == mine ? mine : MANY;
    }
}

static void slow_write(struct wave *w, const struct insn *i, int lane, uint32_t addr, int bytes)
{
    struct block *b = w->block;
    uint8_t mine = (uint8_t)(w->id + 1);
    char who[16];
    for (uint32_t k = addr; k < addr + (uint32_t)bytes; k++) {
        if (b->writer[k] && (b->writer[k] & ~ATOMIC_MARK) != mine)
            fault(w, i, lane, "LDS race: write at %u, written by %s since the last barrier", k,
                  name_of(b->writer[k], who));
        if (b->reader[k] && b->reader[k] != mine)
            fault(w, i, lane, "LDS race: write at %u, read by %s since the last barrier", k,
                  name_of(b->reader[k], who));
        b->writer[k] = mine;
        b->known[k] = 1;
    }
}

static uint32_t word_at(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

static inline __attribute__((always_inline)) const uint8_t *
checked(struct wave *w, const struct insn *i, int lane, uint32_t addr, const int bytes)
{
    struct block *b = w->block;
    check_range(w, i, lane, addr, bytes, "read");
    if (bytes < 4) {
        slow_read(w, i, lane, addr, bytes);
        return b->lds + addr;
    }
    const uint32_t mine = (uint32_t)(w->id + 1) * 0x01010101, many = MANY * 0x01010101u;
    for (uint32_t k = addr; k < addr + (uint32_t)bytes; k += 4) {
        uint32_t writer = word_at(b->writer + k), reader = word_at(b->reader + k);
        bool good = (writer == 0 || writer == mine) && word_at(b->known + k) == 0x01010101;
        if (good && (reader == mine || reader == many)) continue;
        if (good && reader == 0) memcpy(b->reader + k, &mine, 4);
        else slow_read(w, i, lane, k, 4);
    }
    return b->lds + addr;
}

const uint8_t *lds_load(struct wave *w, const struct insn *i, int lane, uint32_t addr, int bytes)
{
    return checked(w, i, lane, addr, bytes);
}

/* All lanes read BYTES, a multiple of 4, at addr + extra into dst and the registers after it. */
static inline __attribute__((always_inline)) void read_lanes(struct wave *w, const struct insn *i,
                                                             const uint32_t *addr, uint32_t extra,
                                                             int dst, const int bytes)
{
    for (int l = 0; l < LANES; l++) {
        if (!(EXEC(w) >> l & 1)) continue;
        const uint8_t *p = checked(w, i, l, addr[l] + extra, bytes);
        for (int k = 0; k < bytes / 4; k++) memcpy(&w->v[dst + k][l], p + 4 * k, 4);
    }
}

void lds_store(struct wave *w, const struct insn *i, int lane, uint32_t addr, const void *in,
               int bytes)
{
    struct block *b = w->block;
    check_range(w, i, lane, addr, bytes, "write");
    if (bytes < 4) {
        slow_write(w, i, lane, addr, bytes);
    } else {
        uint32_t mine = (uint32_t)(w->id + 1) * 0x01010101, known = 0x01010101;
        for (uint32_t k = addr; k < addr + (uint32_t)bytes; k += 4) {
            uint32_t writer = word_at(b->writer + k), reader = word_at(b->reader + k);
            if ((writer == 0 || writer == mine) && (reader == 0 || reader == mine)) {
                memcpy(b->writer + k, &mine, 4);
                memcpy(b->known + k, &known, 4);
            } else {
                slow_write(w, i, lane, k, 4);
            }
        }
    }
    memcpy(b->lds + addr, in, (size_t)bytes);
}

void lds_update(struct wave *w, const struct insn *i, int lane, uint32_t addr, uint64_t data,
                uint64_t compare, void *old)
{
    struct block *b = w->block;
    const struct transfer *t = &transfers[i->transfer];
    uint8_t mine = (uint8_t)(w->id + 1);
    char who[16];
    check_range(w, i, lane, addr, t->bytes, "atomic");
    for (uint32_t k = addr; k < addr + t->bytes; k++) {
        uint8_t *writer = &b->writer[k];
        if (!b->known[k]) fault(w, i, lane, "LDS atomic at %u on a byte that was never written", k);
        if (*writer && *writer != mine && !(*writer & ATOMIC_MARK))
            fault(w, i, lane, "LDS race: atomic at %u, written by %s since the last barrier", k,
                  name_of(*writer, who));
        if (b->reader[k] && b->reader[k] != mine)
            fault(w, i, lane, "LDS race: atomic at %u, read by %s since the last barrier", k,
                  name_of(b->reader[k], who));
        if (*writer == 0) *writer = mine | ATOMIC_MARK;
        else if (*writer != mine && *writer != (mine | ATOMIC_MARK)) *writer = MANY | ATOMIC_MARK;
    }
    uint64_t x = 0;
    memcpy(&x, b->lds + addr, t->bytes);
    memcpy(old, &x, t->bytes);
    x = atomic_apply(t->kind, x, data, compare, t->bytes);
    memcpy(b->lds + addr, &x, t->bytes);
}

/* Cycles that bank conflicts add: 32 banks of 4 bytes deliver 128 bytes a cycle to groups of lanes
 * in order (32 lanes of 4 bytes, 16 of 8, 8 of 16); a group takes as many cycles as its busiest
 * bank has different words. */
static int conflicts(const uint32_t *addr, uint64_t exec, int bytes)
{
    int words = bytes <= 4 ? 1 : bytes / 4, group = words == 1 ? 32 : words == 2 ? 16 : 8, lost = 0;
    for (int first = 0; first < LANES; first += group) {
        bool consecutive = bytes >= 4, same = true;
        for (int l = first + 1; l < first + group; l++)
            consecutive &= addr[l] == addr[l - 1] + (uint32_t)bytes, same &= addr[l] == addr[first];
        if (consecutive || same) continue;
        uint32_t seen[32][32 * 4], last = ~0u;
        uint8_t n[32] = {0}, deepest = 1;
        for (int l = first; l < first + group; l++) {
            if (!(exec >> l & 1) || addr[l] == last) continue;
            last = addr[l];
            for (uint32_t word = addr[l] / 4, end = word + (uint32_t)words; word < end; word++) {
                uint32_t bank = word % 32;
                int at = 0;
                while (at < n[bank] && seen[bank][at] != word) at++;
                if (at == n[bank]) seen[bank][n[bank]++] = word;
                if (n[bank] > deepest) deepest = n[bank];
            }
        }
        lost += deepest - 1;
    }
    return lost;
}

static uint64_t data_of(const struct wave *w, int reg, int lane, int bytes)
{
    return w->v[reg][lane] | (bytes == 8 ? (uint64_t)w->v[reg + 1][lane] << 32 : 0);
}

static void count(struct wave *w, const uint32_t *addr, int bytes)
{
    struct gfx906_stats *s = &w->block->launch->kernel->stats->sum;
    s->lds_bytes += (uint64_t)(bytes * __builtin_popcountll(EXEC(w)));
    if (stats_wanted) s->lds_conflicts += (uint64_t)conflicts(addr, EXEC(w), bytes);
}

static void ds_read(struct wave *w, const struct insn *i)
{
    const struct transfer *t = &transfers[i->transfer];
    uint32_t addr[LANES];
    for (int l = 0; l < LANES; l++)
        addr[l] = w->v[i->addr][l] + (t->pair ? 0 : (uint32_t)i->offset);
    for (int half = 0; half < (t->pair ? 2 : 1); half++) {
        uint32_t extra = t->pair
                             ? (uint32_t)(half ? i->offset1 : i->offset & 255) * t->pair * t->bytes
                             : 0;
        int dst = i->dst + half * t->bytes / 4;
        switch (t->bytes) {
        case 4: read_lanes(w, i, addr, extra, dst, 4); break;
        case 8: read_lanes(w, i, addr, extra, dst, 8); break;
        case 12: read_lanes(w, i, addr, extra, dst, 12); break;
        case 16: read_lanes(w, i, addr, extra, dst, 16); break;
        default:
            for (int l = 0; l < LANES; l++) {
                if (EXEC(w) >> l & 1)
                    load_lane(w, i, l, lds_load(w, i, l, addr[l] + extra, t->bytes));
            }
        }
        count(w, addr, t->bytes);
    }
    wave_pend(w, &w->lgkm, i, PEND_LDS_READ, i->dst, t->result);
}

static void ds_write(struct wave *w, const struct insn *i)
{
    const struct transfer *t = &transfers[i->transfer];
    uint32_t addr[LANES];
    for (int l = 0; l < LANES; l++)
        addr[l] = w->v[i->addr][l] + (t->pair ? 0 : (uint32_t)i->offset);
    for (int half = 0; half < (t->pair ? 2 : 1); half++) {
        uint32_t extra = t->pair
                             ? (uint32_t)(half ? i->offset1 : i->offset & 255) * t->pair * t->bytes
                             : 0;
        for (int l = 0; l < LANES; l++) {
            if (!(EXEC(w) >> l & 1)) continue;
            uint8_t data[16];
            if (half)
                for (int k = 0; k < t->bytes / 4; k++)
                    memcpy(data + 4 * k, &w->v[i->data1 + k][l], 4);
            else store_lane(w, i, l, data);
            lds_store(w, i, l, addr[l] + extra, data, t->bytes);
        }
        count(w, addr, t->bytes);
    }
    wave_pend(w, &w->lgkm, i, PEND_LDS_WRITE, 0, 0);
}

static void ds_atomic(struct wave *w, const struct insn *i)
{
    const struct transfer *t = &transfers[i->transfer];
    uint32_t addr[LANES];
    for (int l = 0; l < LANES; l++) addr[l] = w->v[i->addr][l] + (uint32_t)i->offset;
    for (int l = 0; l < LANES; l++) {
        if (!(EXEC(w) >> l & 1)) continue;
        uint64_t first = data_of(w, i->data, l, t->bytes),
                 second = t->data1 ? data_of(w, i->data1, l, t->bytes) : 0, old = 0;
        if (t->kind == ATOMIC_CMPSWAP) lds_update(w, i, l, addr[l], second, first, &old);
        else lds_update(w, i, l, addr[l], first, second, &old);
        for (int k = 0; k < t->result && i->glc; k++)
            w->v[i->dst + k][l] = (uint32_t)(old >> 32 * k);
    }
    count(w, addr, t->bytes);
    wave_pend(w, &w->lgkm, i, i->glc ? PEND_LDS_READ : PEND_LDS_WRITE, i->dst,
              i->glc ? t->result : 0);
}

/* Exchange between lanes through the LDS hardware; no memory is accessed. Inactive lanes give 0. */
static void exchange(struct wave *w, const struct insn *i, const int *from)
{
    uint32_t old[LANES];
    /* swizzle, which reads one operand only, has its data where the others have the address */
    memcpy(old, w->v[i->transfer == T_EXCHANGE ? i->data : i->addr], sizeof old);
    for (int l = 0; l < LANES; l++) {
        if (EXEC(w) >> l & 1)
            w->v[i->dst][l] = from[l] >= 0 && (EXEC(w) >> from[l] & 1) ? old[from[l]] : 0;
    }
    wave_pend(w, &w->lgkm, i, PEND_LDS_READ, i->dst, 1);
}

static void ds_bpermute_b32(struct wave *w, const struct insn *i)
{
    int from[LANES];
    for (int l = 0; l < LANES; l++)
        from[l] = (int)((w->v[i->addr][l] + (uint32_t)i->offset) / 4 & 63);
    exchange(w, i, from);
}

static void ds_permute_b32(struct wave *w, const struct insn *i)
{
    int from[LANES];
    for (int l = 0; l < LANES; l++) from[l] = -1;
    for (int l = 0; l < LANES; l++) {
        if (EXEC(w) >> l & 1) from[(w->v[i->addr][l] + (uint32_t)i->offset) / 4 & 63] = l;
    }
    exchange(w, i, from);
}

static void ds_swizzle_b32(struct wave *w, const struct insn *i)
{
    int from[LANES], o = i->offset;
    if (o >= 0x8100) fault(w, i, -1, "ds_swizzle mode 0x%x is not implemented", o);
    for (int l = 0; l < LANES; l++) {
        from[l] = o & 0x8000
                      ? (l & ~3) | (o >> 2 * (l & 3) & 3)
                      : (l & 32) | ((((l & 31) & (o & 31)) | (o >> 5 & 31)) ^ (o >> 10 & 31));
    }
    exchange(w, i, from);
}

static void ds_nop(struct wave *w, const struct insn *i) { (void)w, (void)i; }

#define DS(c, n, f, t) {ENC_DS, c, n, "-", .exec = f, .arg = t}
/* without and with the old value */
#define DS_ATOMIC(c, n, t)                                                                         \
    DS(c, "ds_" n, ds_atomic, t), DS(c + 0x20, "ds_" n " (rtn)", ds_atomic, t)
#define DS_ATOMIC_BOTH(c, n, a)                                                                    \
    DS_ATOMIC(c, n "_32", T_ATOMIC + a), DS_ATOMIC(c + 0x40, n "_64", T_ATOMIC_X2 + a)
const struct op ops_lds[] = {
    DS_ATOMIC_BOTH(0x00, "add", ATOMIC_ADD),
    DS_ATOMIC_BOTH(0x01, "sub", ATOMIC_SUB),
    DS_ATOMIC_BOTH(0x02, "rsub", ATOMIC_RSUB),
    DS_ATOMIC_BOTH(0x03, "inc", ATOMIC_INC),
    DS_ATOMIC_BOTH(0x04, "dec", ATOMIC_DEC),
    DS_ATOMIC_BOTH(0x05, "min_i", ATOMIC_SMIN),
    DS_ATOMIC_BOTH(0x06, "max_i", ATOMIC_SMAX),
    DS_ATOMIC_BOTH(0x07, "min_u", ATOMIC_UMIN),
    DS_ATOMIC_BOTH(0x08, "max_u", ATOMIC_UMAX),
    DS_ATOMIC_BOTH(0x09, "and", ATOMIC_AND),
    DS_ATOMIC_BOTH(0x0a, "or", ATOMIC_OR),
    DS_ATOMIC_BOTH(0x0b, "xor", ATOMIC_XOR),
    DS_ATOMIC(0x0c, "mskor_b32", T_DS_PAIR + ATOMIC_MSKOR),
    DS_ATOMIC(0x4c, "mskor_b64", T_DS_PAIR_X2 + ATOMIC_MSKOR),
    DS_ATOMIC(0x10, "cmpst_b32", T_DS_PAIR + ATOMIC_CMPSWAP),
    DS_ATOMIC(0x50, "cmpst_b64", T_DS_PAIR_X2 + ATOMIC_CMPSWAP),
    DS_ATOMIC(0x12, "min_f32", T_ATOMIC + ATOMIC_MIN_F32),
    DS_ATOMIC(0x13, "max_f32", T_ATOMIC + ATOMIC_MAX_F32),
    DS_ATOMIC(0x15, "add_f32", T_ATOMIC + ATOMIC_ADD_F32),
    DS(0x2d, "ds_wrxchg_rtn_b32", ds_atomic, T_ATOMIC + ATOMIC_SWAP),
    DS(0x6d, "ds_wrxchg_rtn_b64", ds_atomic, T_ATOMIC_X2 + ATOMIC_SWAP),
    DS(0x0d, "ds_write_b32", ds_write, T_STORE1),
    DS(0x0e, "ds_write2_b32", ds_write, T_WRITE2),
    DS(0x0f, "ds_write2st64_b32", ds_write, T_WRITE2_ST64),
    DS(0x1e, "ds_write_b8", ds_write, T_STORE8),
    DS(0x1f, "ds_write_b16", ds_write, T_STORE16),
    DS(0x4d, "ds_write_b64", ds_write, T_STORE2),
    DS(0x4e, "ds_write2_b64", ds_write, T_WRITE2_B64),
    DS(0x4f, "ds_write2st64_b64", ds_write, T_WRITE2_ST64_B64),
    DS(0x54, "ds_write_b8_d16_hi", ds_write, T_STORE8_HI),
    DS(0x55, "ds_write_b16_d16_hi", ds_write, T_STORE16_HI),
    DS(0xde, "ds_write_b96", ds_write, T_STORE3),
    DS(0xdf, "ds_write_b128", ds_write, T_STORE4),
    DS(0x36, "ds_read_b32", ds_read, T_LOAD1),
    DS(0x37, "ds_read2_b32", ds_read, T_READ2),
    DS(0x38, "ds_read2st64_b32", ds_read, T_READ2_ST64),
    DS(0x39, "ds_read_i8", ds_read, T_I8),
    DS(0x3a, "ds_read_u8", ds_read, T_U8),
    DS(0x3b, "ds_read_i16", ds_read, T_I16),
    DS(0x3c, "ds_read_u16", ds_read, T_U16),
    DS(0x56, "ds_read_u8_d16", ds_read, T_U8_LO),
    DS(0x57, "ds_read_u8_d16_hi", ds_read, T_U8_HI),
    DS(0x58, "ds_read_i8_d16", ds_read, T_I8_LO),
    DS(0x59, "ds_read_i8_d16_hi", ds_read, T_I8_HI),
    DS(0x5a, "ds_read_u16_d16", ds_read, T_16_LO),
    DS(0x5b, "ds_read_u16_d16_hi", ds_read, T_16_HI),
    DS(0x76, "ds_read_b64", ds_read, T_LOAD2),
    DS(0x77, "ds_read2_b64", ds_read, T_READ2_B64),
    DS(0x78, "ds_read2st64_b64", ds_read, T_READ2_ST64_B64),
    DS(0xfe, "ds_read_b96", ds_read, T_LOAD3),
    DS(0xff, "ds_read_b128", ds_read, T_LOAD4),
    DS(0x14, "ds_nop", ds_nop, T_NONE),
    {ENC_DS, 0x3d, "ds_swizzle_b32", "-", .exec = ds_swizzle_b32, .arg = T_LOAD1},
    {ENC_DS, 0x3e, "ds_permute_b32", "-", .exec = ds_permute_b32, .arg = T_EXCHANGE},
    {ENC_DS, 0x3f, "ds_bpermute_b32", "-", .exec = ds_bpermute_b32, .arg = T_EXCHANGE},
    {0},
};
