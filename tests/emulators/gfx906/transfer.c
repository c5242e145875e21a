/* transfer.c: movement of bytes between memory and a lane's registers, and the arithmetic of
 * atomics; for global memory, buffers, scratch and LDS. */
#include "gpu.h"
#include "numeric.h"

struct transfer transfers[N_TRANSFERS] = {
    [T_U8] = {.bytes = 1, .result = 1},
    [T_I8] = {.bytes = 1, .result = 1, .sign = true},
    [T_U16] = {.bytes = 2, .result = 1},
    [T_I16] = {.bytes = 2, .result = 1, .sign = true},
    [T_LOAD1] = {.bytes = 4, .result = 1},
    [T_LOAD2] = {.bytes = 8, .result = 2},
    [T_LOAD3] = {.bytes = 12, .result = 3},
    [T_LOAD4] = {.bytes = 16, .result = 4},
    [T_U8_LO] = {.bytes = 1, .result = 1, .keeps_half = true},
    [T_U8_HI] = {.bytes = 1, .result = 1, .keeps_half = true, .hi = true},
    [T_I8_LO] = {.bytes = 1, .result = 1, .keeps_half = true, .sign = true},
    [T_I8_HI] = {.bytes = 1, .result = 1, .keeps_half = true, .sign = true, .hi = true},
    [T_16_LO] = {.bytes = 2, .result = 1, .keeps_half = true},
    [T_16_HI] = {.bytes = 2, .result = 1, .keeps_half = true, .hi = true},
    [T_STORE8] = {.bytes = 1, .data = 1},
    [T_STORE8_HI] = {.bytes = 1, .data = 1, .hi = true},
    [T_STORE16] = {.bytes = 2, .data = 1},
    [T_STORE16_HI] = {.bytes = 2, .data = 1, .hi = true},
    [T_STORE1] = {.bytes = 4, .data = 1},
    [T_STORE2] = {.bytes = 8, .data = 2},
    [T_STORE3] = {.bytes = 12, .data = 3},
    [T_STORE4] = {.bytes = 16, .data = 4},
    [T_READ2] = {.bytes = 4, .result = 2, .pair = 1},
    [T_READ2_ST64] = {.bytes = 4, .result = 2, .pair = 64},
    [T_READ2_B64] = {.bytes = 8, .result = 4, .pair = 1},
    [T_READ2_ST64_B64] = {.bytes = 8, .result = 4, .pair = 64},
    [T_WRITE2] = {.bytes = 4, .data = 1, .data1 = 1, .pair = 1},
    [T_WRITE2_ST64] = {.bytes = 4, .data = 1, .data1 = 1, .pair = 64},
    [T_WRITE2_B64] = {.bytes = 8, .data = 2, .data1 = 2, .pair = 1},
    [T_EXCHANGE] = {.bytes = 4, .data = 1, .result = 1},
    [T_WRITE2_ST64_B64] = {.bytes = 8, .data = 2, .data1 = 2, .pair = 64},
};

void transfers_init(void)
{
    for (int kind = 0; kind < N_ATOMICS; kind++) {
        uint8_t k = (uint8_t)kind, both = kind == ATOMIC_CMPSWAP ? 2 : 1;
        transfers[T_ATOMIC + kind] =
            (struct transfer){.bytes = 4, .data = both, .result = 1, .atomic = true, .kind = k};
        transfers[T_ATOMIC_X2 + kind] = (struct transfer){
            .bytes = 8, .data = (uint8_t)(2 * both), .result = 2, .atomic = true, .kind = k};
        transfers[T_DS_PAIR + kind] = (struct transfer){
            .bytes = 4, .data = 1, .data1 = 1, .result = 1, .atomic = true, .kind = k};
        transfers[T_DS_PAIR_X2 + kind] = (struct transfer){
            .bytes = 8, .data = 2, .data1 = 2, .result = 2, .atomic = true, .kind = k};
    }
}

void load_lane(struct wave *w, const struct insn *i, int lane, const void *p)
{
    const struct transfer *t = &transfers[i->transfer];
    if (t->bytes >= 4) {
        const uint8_t *from = p;
        uint32_t *to = &w->v[i->dst][lane];
        for (int k = t->bytes / 4; k--; from += 4, to += LANES) memcpy(to, from, 4);
        return;
    }
    uint32_t x = 0, *d = &w->v[i->dst][lane];
    memcpy(&x, p, t->bytes);
    if (t->sign) x = (uint32_t)sext(x, 8 * t->bytes);
    if (!t->keeps_half) *d = x;
    else *d = t->hi ? (*d & 0xffff) | x << 16 : (*d & 0xffff0000) | (x & 0xffff);
}

void store_lane(struct wave *w, const struct insn *i, int lane, void *p)
{
    const struct transfer *t = &transfers[i->transfer];
    if (t->bytes >= 4) {
        for (int k = 0; k < t->bytes / 4; k++)
            memcpy((uint8_t *)p + 4 * k, &w->v[i->data + k][lane], 4);
        return;
    }
    uint32_t x = w->v[i->data][lane] >> (t->hi ? 16 : 0);
    memcpy(p, &x, t->bytes);
}

uint64_t atomic_apply(int kind, uint64_t old, uint64_t data, uint64_t compare, int bytes)
{
    uint64_t sign = bytes == 4 ? 1ull << 31 : 1ull << 63;
    float x = f32((uint32_t)old), y = f32((uint32_t)data);
    switch (kind) {
    case ATOMIC_SWAP: return data;
    case ATOMIC_CMPSWAP: return old == compare ? data : old;
    case ATOMIC_ADD: return old + data;
    case ATOMIC_SUB: return old - data;
    case ATOMIC_RSUB: return data - old;
    case ATOMIC_SMIN: return (old ^ sign) < (data ^ sign) ? old : data;
    case ATOMIC_SMAX: return (old ^ sign) > (data ^ sign) ? old : data;
    case ATOMIC_UMIN: return old < data ? old : data;
    case ATOMIC_UMAX: return old > data ? old : data;
    case ATOMIC_AND: return old & data;
    case ATOMIC_OR: return old | data;
    case ATOMIC_XOR: return old ^ data;
    case ATOMIC_INC: return old >= data ? 0 : old + 1;
    case ATOMIC_DEC: return old == 0 || old > data ? data : old - 1;
    case ATOMIC_ADD_F32: return bits(x + y);
    case ATOMIC_MIN_F32: return y < x ? data : old;
    case ATOMIC_MAX_F32: return y > x ? data : old;
    default: return (old & ~data) | compare; /* ATOMIC_MSKOR: data is the mask, compare the bits */
    }
}
