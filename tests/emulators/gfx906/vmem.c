/* vmem.c: instructions that access global memory and scratch: SMEM, FLAT (flat, scratch, global),
 * MUBUF. Every lane's access must be within one live allocation. Data are moved at once; the
 * registers count as unwritten until the s_waitcnt. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

static const char *verb(bool write) { return write ? "write" : "read"; }

static _Noreturn void bad_access(struct wave *w, const struct insn *i, int lane, uint64_t addr,
                                 int bytes, bool write)
{
    const struct alloc *a = memory_below(addr);
    if (!a || addr - a->base > a->size + (1 << 20))
        fault(w, i, lane, "%s of %d bytes at 0x%llx, where nothing is allocated", verb(write),
              bytes, (unsigned long long)addr);
    const char *what = a->freed                         ? "freed memory"
                       : write && a->kind == ALLOC_CODE ? "a code object"
                                                        : "the allocation";
    fault(w, i, lane, "%s of %d bytes at offset %lld of %s of %llu bytes at 0x%llx", verb(write),
          bytes, (long long)(addr - a->base), what, (unsigned long long)a->size,
          (unsigned long long)a->base);
}

/* Host address of device memory; the allocation last used is tried first. */
static uint8_t *global(struct wave *w, const struct insn *i, int lane, uint64_t addr, int bytes,
                       bool write)
{
    static struct alloc last;
    static unsigned generation;
    if (generation != memory_generation) last = (struct alloc){0}, generation = memory_generation;
    uint64_t at = addr - last.base;
    if (at >= last.size || last.size - at < (uint64_t)bytes) {
        const struct alloc *a = memory_find(addr);
        if (!a || a->freed || a->size - (addr - a->base) < (uint64_t)bytes)
            bad_access(w, i, lane, addr, bytes, write);
        last = *a, at = addr - a->base;
    }
    if (write && last.kind == ALLOC_CODE) bad_access(w, i, lane, addr, bytes, write);
    return last.host + at;
}

static uint8_t *scratch(struct wave *w, const struct insn *i, int lane, uint64_t offset, int bytes,
                        bool write)
{
    uint32_t size = w->block->launch->kernel->scratch_size;
    if (offset > size || size - offset < (uint64_t)bytes)
        fault(w, i, lane, "scratch %s of %d bytes at %lld, the lane has %u", verb(write), bytes,
              (long long)offset, size);
    return w->scratch + (size_t)lane * size + offset;
}

static uint64_t pair(const struct wave *w, int reg)
{
    return w->s[reg] | (uint64_t)w->s[reg + 1] << 32;
}

/* --- scalar memory */
static uint64_t scalar_offset(const struct wave *w, const struct insn *i)
{
    return (uint64_t)(int64_t)i->offset + (i->soffset == 255 ? 0 : w->s[i->soffset]);
}

static void s_load(struct wave *w, const struct insn *i)
{
    uint64_t addr = (pair(w, i->sbase) + scalar_offset(w, i)) & ~3ull;
    int bytes = 4 * i->n_dwords;
    memcpy(&w->s[i->sdst], global(w, i, -1, addr, bytes, false), (size_t)bytes);
    w->block->launch->kernel->stats->sum.bytes_scalar += (uint64_t)bytes;
    wave_pend(w, &w->lgkm, i, PEND_SMEM, i->sdst, i->n_dwords);
}

static void s_buffer_load(struct wave *w, const struct insn *i)
{
    const uint32_t *rsrc = &w->s[i->sbase];
    uint64_t base = rsrc[0] | (uint64_t)(rsrc[1] & 0xffff) << 32,
             offset = scalar_offset(w, i) & ~3ull;
    uint64_t stride = rsrc[1] >> 16 & 0x3fff, size = stride ? stride * rsrc[2] : rsrc[2];
    for (int k = 0; k < i->n_dwords; k++, offset += 4) {
        uint32_t *d = &w->s[i->sdst + k];
        if (offset + 4 > size) *d = 0; /* out of range reads give 0: that is defined */
        else memcpy(d, global(w, i, -1, base + offset, 4, false), 4);
    }
    wave_pend(w, &w->lgkm, i, PEND_SMEM, i->sdst, i->n_dwords);
}

static void s_memtime(struct wave *w, const struct insn *i)
{
    w->s[i->sdst] = (uint32_t)w->steps, w->s[i->sdst + 1] = (uint32_t)(w->steps >> 32);
    wave_pend(w, &w->lgkm, i, PEND_SMEM, i->sdst, 2);
}

static void no_effect(struct wave *w, const struct insn *i) { (void)w, (void)i; }

/* --- vector memory: one lane */
enum { SPACE_GLOBAL, SPACE_LDS, SPACE_SCRATCH };
struct where {
    int space;
    uint64_t addr;
};

static void access_lane(struct wave *w, const struct insn *i, int lane, struct where at)
{
    const struct transfer *t = &transfers[i->transfer];
    uint8_t data[16];
    if (t->atomic) {
        uint64_t first = w->v[i->data][lane], second = 0, old = 0;
        int words = t->bytes / 4;
        if (words == 2) first |= (uint64_t)w->v[i->data + 1][lane] << 32;
        if (t->kind == ATOMIC_CMPSWAP) {
            second = w->v[i->data + words][lane];
            if (words == 2) second |= (uint64_t)w->v[i->data + 3][lane] << 32;
        }
        if (at.space == SPACE_LDS) {
            lds_update(w, i, lane, (uint32_t)at.addr, first, second, &old);
        } else {
            uint8_t *p = at.space == SPACE_GLOBAL ? global(w, i, lane, at.addr, t->bytes, true)
                                                  : scratch(w, i, lane, at.addr, t->bytes, true);
            if (at.addr % t->bytes)
                fault(w, i, lane, "atomic at 0x%llx is not aligned", (unsigned long long)at.addr);
            memcpy(&old, p, t->bytes);
            uint64_t x = atomic_apply(t->kind, old, first, second, t->bytes);
            memcpy(p, &x, t->bytes);
        }
        for (int k = 0; k < words && i->glc; k++)
            w->v[i->dst + k][lane] = (uint32_t)(old >> 32 * k);
    } else if (t->data) {
        if (at.space == SPACE_GLOBAL)
            store_lane(w, i, lane, global(w, i, lane, at.addr, t->bytes, true));
        else if (at.space == SPACE_SCRATCH)
            store_lane(w, i, lane, scratch(w, i, lane, at.addr, t->bytes, true));
        else store_lane(w, i, lane, data), lds_store(w, i, lane, (uint32_t)at.addr, data, t->bytes);
    } else {
        if (at.space == SPACE_GLOBAL)
            load_lane(w, i, lane, global(w, i, lane, at.addr, t->bytes, false));
        else if (at.space == SPACE_SCRATCH)
            load_lane(w, i, lane, scratch(w, i, lane, at.addr, t->bytes, false));
        else load_lane(w, i, lane, lds_load(w, i, lane, (uint32_t)at.addr, t->bytes));
    }
}

/* Counts an access and adds it to those in flight. */
static void issue(struct wave *w, const struct insn *i, bool flat)
{
    const struct transfer *t = &transfers[i->transfer];
    struct gfx906_stats *s = &w->block->launch->kernel->stats->sum;
    uint64_t lanes = (uint64_t)__builtin_popcountll(EXEC(w));
    if (t->atomic) s->atomics += lanes;
    else if (t->data) s->bytes_stored += lanes * t->bytes;
    else s->bytes_loaded += lanes * t->bytes;
    int result = t->result && (!t->atomic || i->glc) ? t->result : 0;
    if (flat) wave_pend(w, &w->lgkm, i, PEND_FLAT, i->dst, result);
    wave_pend(w, &w->vm, i, flat ? PEND_FLAT : result ? PEND_LOAD : PEND_STORE, i->dst, result);
    bool sgpr_offset = i->op->enc == ENC_MUBUF &&
                       i->src[0].kind ==
                           SRC_SGPR; /* takes longer, so that the data are read in time */
    if (t->data >= 3 && !t->atomic && !sgpr_offset) w->wide_store = i;
}

static void flat(struct wave *w, const struct insn *i)
{
    uint64_t saddr = !i->has_saddr ? 0 : i->seg == 2 ? pair(w, i->sbase) : w->s[i->sbase];
    for (int l = 0; l < LANES; l++) {
        if (!(EXEC(w) >> l & 1)) continue;
        struct where at = {SPACE_GLOBAL, saddr + (uint64_t)(int64_t)i->offset};
        if (i->seg == 1) {
            at.space = SPACE_SCRATCH;
            at.addr += i->has_saddr ? 0 : w->v[i->addr][l];
        } else {
            at.addr += i->has_saddr ? w->v[i->addr][l]
                                    : w->v[i->addr][l] | (uint64_t)w->v[i->addr + 1][l] << 32;
        }
        if (i->seg == 0 && at.addr >> 32 == LDS_APERTURE >> 32)
            at = (struct where){SPACE_LDS, at.addr & 0xffffffff};
        if (i->seg == 0 && at.addr >> 32 == SCRATCH_APERTURE >> 32)
            at = (struct where){SPACE_SCRATCH, at.addr & 0xffffffff};
        access_lane(w, i, l, at);
    }
    issue(w, i, i->seg == 0);
}

/* Buffers. A resource with ADD_TID is the kernel's scratch: swizzled, so that each lane has its
 * own; its base must be what the kernel's prologue computes, and the scalar offset counts for all
 * 64 lanes. Others are raw or strided. */
static void buffer(struct wave *w, const struct insn *i)
{
    const struct transfer *t = &transfers[i->transfer];
    const uint32_t *rsrc = &w->s[i->sbase];
    uint64_t base = rsrc[0] | (uint64_t)(rsrc[1] & 0xffff) << 32;
    uint32_t stride = rsrc[1] >> 16 & 0x3fff, soffset = salu_read(w, &i->src[0]);
    bool is_scratch = rsrc[3] >> 23 & 1;
    uint32_t per_wave = w->block->launch->kernel->scratch_size * LANES;
    if (is_scratch && base != SCRATCH_BASE + (uint64_t)w->id * per_wave)
        fault(w, i, -1, "scratch descriptor has base 0x%llx", (unsigned long long)base);
    for (int l = 0; l < LANES; l++) {
        if (!(EXEC(w) >> l & 1)) continue;
        uint64_t index = i->idxen ? w->v[i->addr][l] : 0;
        uint64_t offset = (uint64_t)i->offset + (i->offen ? w->v[i->addr + i->idxen][l] : 0);
        if (is_scratch) {
            access_lane(w, i, l, (struct where){SPACE_SCRATCH, (uint32_t)offset + soffset / LANES});
            continue;
        }
        bool outside = stride ? index >= rsrc[2] : offset + soffset + t->bytes > rsrc[2];
        if (!outside) {
            access_lane(w, i, l,
                        (struct where){SPACE_GLOBAL, base + index * stride + offset + soffset});
        } else if (t->result && !t->keeps_half) { /* reads beyond the buffer give 0, writes are
                                                     dropped: that is defined */
            for (int k = 0; k < t->result; k++) w->v[i->dst + k][l] = 0;
        }
    }
    issue(w, i, false);
}

#define SMEM(c, n, t, f, a) {ENC_SMEM, c, n, t, .exec = f, .arg = a}
#define FLAT(c, n, a) {ENC_FLAT, c, n, "-", .exec = flat, .arg = a}
#define BUFFER(c, n, a) {ENC_MUBUF, c, n, "-i", .exec = buffer, .arg = a}
/* the same opcodes in both */
#define BOTH(c, n, a) FLAT(c, "flat/global/scratch_" n, a), BUFFER(c, "buffer_" n, a)
#define ATOMICS(c, n, a)                                                                           \
    BOTH(c, "atomic_" n, T_ATOMIC + a), BOTH(c + 0x20, "atomic_" n "_x2", T_ATOMIC_X2 + a)
const struct op ops_mem[] = {
    SMEM(0x00, "s_load_dword", "ia", s_load, 1),
    SMEM(0x01, "s_load_dwordx2", "ia", s_load, 2),
    SMEM(0x02, "s_load_dwordx4", "ia", s_load, 4),
    SMEM(0x03, "s_load_dwordx8", "ia", s_load, 8),
    SMEM(0x04, "s_load_dwordx16", "ia", s_load, 16),
    SMEM(0x08, "s_buffer_load_dword", "ib", s_buffer_load, 1),
    SMEM(0x09, "s_buffer_load_dwordx2", "ib", s_buffer_load, 2),
    SMEM(0x0a, "s_buffer_load_dwordx4", "ib", s_buffer_load, 4),
    SMEM(0x0b, "s_buffer_load_dwordx8", "ib", s_buffer_load, 8),
    SMEM(0x0c, "s_buffer_load_dwordx16", "ib", s_buffer_load, 16),
    SMEM(0x20, "s_dcache_inv", "-", no_effect, 0),
    SMEM(0x21, "s_dcache_wb", "-", no_effect, 0),
    SMEM(0x22, "s_dcache_inv_vol", "-", no_effect, 0),
    SMEM(0x23, "s_dcache_wb_vol", "-", no_effect, 0),
    SMEM(0x24, "s_memtime", "q", s_memtime, 2),
    SMEM(0x25, "s_memrealtime", "q", s_memtime, 2),
    BOTH(0x10, "load_ubyte", T_U8),
    BOTH(0x11, "load_sbyte", T_I8),
    BOTH(0x12, "load_ushort", T_U16),
    BOTH(0x13, "load_sshort", T_I16),
    BOTH(0x14, "load_dword", T_LOAD1),
    BOTH(0x15, "load_dwordx2", T_LOAD2),
    BOTH(0x16, "load_dwordx3", T_LOAD3),
    BOTH(0x17, "load_dwordx4", T_LOAD4),
    BOTH(0x18, "store_byte", T_STORE8),
    BOTH(0x19, "store_byte_d16_hi", T_STORE8_HI),
    BOTH(0x1a, "store_short", T_STORE16),
    BOTH(0x1b, "store_short_d16_hi", T_STORE16_HI),
    BOTH(0x1c, "store_dword", T_STORE1),
    BOTH(0x1d, "store_dwordx2", T_STORE2),
    BOTH(0x1e, "store_dwordx3", T_STORE3),
    BOTH(0x1f, "store_dwordx4", T_STORE4),
    BOTH(0x20, "load_ubyte_d16", T_U8_LO),
    BOTH(0x21, "load_ubyte_d16_hi", T_U8_HI),
    BOTH(0x22, "load_sbyte_d16", T_I8_LO),
    BOTH(0x23, "load_sbyte_d16_hi", T_I8_HI),
    BOTH(0x24, "load_short_d16", T_16_LO),
    BOTH(0x25, "load_short_d16_hi", T_16_HI),
    ATOMICS(0x40, "swap", ATOMIC_SWAP),
    ATOMICS(0x41, "cmpswap", ATOMIC_CMPSWAP),
    ATOMICS(0x42, "add", ATOMIC_ADD),
    ATOMICS(0x43, "sub", ATOMIC_SUB),
    ATOMICS(0x44, "smin", ATOMIC_SMIN),
    ATOMICS(0x45, "umin", ATOMIC_UMIN),
    ATOMICS(0x46, "smax", ATOMIC_SMAX),
    ATOMICS(0x47, "umax", ATOMIC_UMAX),
    ATOMICS(0x48, "and", ATOMIC_AND),
    ATOMICS(0x49, "or", ATOMIC_OR),
    ATOMICS(0x4a, "xor", ATOMIC_XOR),
    ATOMICS(0x4b, "inc", ATOMIC_INC),
    ATOMICS(0x4c, "dec", ATOMIC_DEC),
    {ENC_MUBUF, 0x3e, "buffer_wbinvl1", "-", .exec = no_effect},
    {ENC_MUBUF, 0x3f, "buffer_wbinvl1_vol", "-", .exec = no_effect},
    {0},
};
